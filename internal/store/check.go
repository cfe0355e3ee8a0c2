package store

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// ErrInvalid: the batch contradicts itself, which is a defect of the caller. Nothing
// was written, and the same batch will never succeed.
var ErrInvalid = errors.New("batch is malformed")

// QueryLimitMax bounds RunQuery.Limit.
const QueryLimitMax = 500

type streamKey struct {
	tenant domain.TenantID
	stream domain.StreamID
}

// Check refuses a batch that contradicts itself, before any database sees it: positions
// that are not gapless, a digest that does not chain, two rows of one stream, a row
// without its head, records without a tenant, identifying text that not every database
// can hold. Every adapter calls it first, so a defect of the caller shows in the same
// way everywhere and can't become a part of history.
//
// A head without a row is allowed (a changed wake-up); then its Version must be the
// stream's present one. Where several records of a batch replace each other (list rows,
// checkpoints, counters, cursors), the last one counts.
func (b *Batch) Check() error {
	if b.Partition == "" || b.Epoch == 0 || b.Epoch > math.MaxInt64 || !ValidText(string(b.Partition)) {
		return fmt.Errorf("append partition %q epoch %d: %w", b.Partition, b.Epoch, ErrInvalid)
	}
	heads := make(map[streamKey]uint64, len(b.Heads))
	for i := range b.Heads {
		h := &b.Heads[i]
		key := streamKey{h.Tenant, h.Stream}
		_, twice := heads[key]
		if twice || h.Version == 0 || h.Version > math.MaxInt64 || !named(h.Tenant, string(h.Stream)) {
			return b.invalid("head %d of %s (twice, without tenant, or without version)", i, h.Stream)
		}
		heads[key] = h.Version
	}
	if err := b.checkRows(heads); err != nil {
		return err
	}
	return b.checkRecords()
}

func (b *Batch) checkRows(heads map[streamKey]uint64) error {
	want := b.PrevDigest
	if len(b.Rows) > 0 {
		want = BatchDigest(b.PrevDigest, b.Rows)
	}
	if b.Digest != want {
		return b.invalid("digest %s does not chain to %q: want %s", b.Digest, b.PrevDigest, want)
	}
	if (b.Prev == 0) != (b.PrevDigest == "") {
		return b.invalid("position %d with digest %q before the batch", b.Prev, b.PrevDigest)
	}
	seen := make(map[streamKey]struct{}, len(b.Rows))
	for i := range b.Rows {
		r := &b.Rows[i]
		key := streamKey{r.Tenant, r.Stream}
		if r.Position != b.Prev+Position(i)+1 {
			return b.invalid("row %d is at position %d, not %d", i, r.Position, b.Prev+Position(i)+1)
		}
		if r.Count == 0 || r.Version < uint64(r.Count) {
			return b.invalid("row %d of %s has version %d and %d events", i, r.Stream, r.Version, r.Count)
		}
		if _, twice := seen[key]; twice {
			return b.invalid("row %d is the second of %s", i, r.Stream)
		}
		seen[key] = struct{}{}
		if head, ok := heads[key]; !ok || head != r.Version {
			return b.invalid("row %d of %s ends at version %d, its head says %d", i, r.Stream, r.Version, head)
		}
	}
	return nil
}

func (b *Batch) checkRecords() error {
	for i, c := range b.Checkpoints {
		if c.Version == 0 || c.Version > math.MaxInt64 || !named(c.Tenant, string(c.Stream)) {
			return b.invalid("checkpoint %d of %s", i, c.Stream)
		}
	}
	for i, k := range b.Keys {
		if k.Expired || !named(k.Tenant, k.Scope, k.Key) || !ValidText(string(k.Body)) || !ValidText(string(k.Stream)) {
			return b.invalid("key %d of scope %q", i, k.Scope)
		}
	}
	for i, c := range b.Counters {
		if c.Value > math.MaxInt64 || !named(c.Tenant, c.Name) {
			return b.invalid("counter %d %q", i, c.Name)
		}
	}
	for i, c := range b.Cursors {
		if c.Position > math.MaxInt64 || c.Reactor == "" || !ValidText(c.Reactor) {
			return b.invalid("cursor %d %q", i, c.Reactor)
		}
	}
	for i, r := range b.Runs {
		if r.Number > math.MaxInt64 || !named(r.Tenant, string(r.Run), string(r.Partition), string(r.Repository)) {
			return b.invalid("list row %d of run %s", i, r.Run)
		}
	}
	for i, r := range b.Repositories {
		if !named(r.Tenant, string(r.Repository), string(r.Partition), r.Name) {
			return b.invalid("list row %d of repository %s", i, r.Repository)
		}
	}
	for i, r := range b.Runners {
		if !named(r.Tenant, string(r.Runner), string(r.Pool)) {
			return b.invalid("list row %d of runner %s", i, r.Runner)
		}
	}
	return nil
}

func (b *Batch) invalid(form string, args ...any) error {
	return fmt.Errorf("append partition %s after %d: %s: %w", b.Partition, b.Prev, fmt.Sprintf(form, args...), ErrInvalid)
}

func named(tenant domain.TenantID, texts ...string) bool {
	if tenant == "" || !ValidText(string(tenant)) {
		return false
	}
	for _, text := range texts {
		if text == "" || !ValidText(text) {
			return false
		}
	}
	return true
}

// ValidText reports whether every database can hold text as it is: UTF-8 without NUL.
// Identifying text (ids, names, keys) that is not valid is refused by Check; whoever
// takes such text from outside asks here first.
//
// Trust: text may come from anybody.
func ValidText(text string) bool {
	return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0
}

// CleanText makes display text (titles, refs, labels) storable: what is not UTF-8 and
// every NUL becomes U+FFFD. All adapters clean the display columns of list rows, so that
// a commit message with stray bytes can't stop a partition on one database only.
//
// Trust: text may come from anybody.
func CleanText(text string) string {
	if ValidText(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// StoredTime is t as every adapter returns it: UTC, whole microseconds. The zero time
// stays the zero time.
func StoredTime(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

// Clean is the query with its display text in the form in which it is stored.
// An error says what is missing or out of bounds.
func (q RunQuery) Clean() (RunQuery, error) {
	if q.Tenant == "" {
		return q, errors.New("list runs: a tenant is required")
	}
	if q.Limit < 1 || q.Limit > QueryLimitMax {
		return q, fmt.Errorf("list runs: limit %d is not in 1..%d", q.Limit, QueryLimitMax)
	}
	q.Workflow, q.Ref, q.State = CleanText(q.Workflow), CleanText(q.Ref), CleanText(q.State)
	q.Outcome = domain.Outcome(CleanText(string(q.Outcome)))
	q.Repository = domain.RepositoryID(CleanText(string(q.Repository)))
	q.Before = domain.RunID(CleanText(string(q.Before)))
	return q, nil
}
