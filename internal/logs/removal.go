package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// RemovalsPrefix begins the keys of all records of removal, of all tenants.
const RemovalsPrefix = "log-removals/"

// Removal is the record that retention removed a lot. It is durable before the first object
// of the lot is removed, and is kept for ever: a log that is missing without it is damage.
type Removal struct {
	Tenant domain.TenantID `json:"tenant"`
	Class  string          `json:"class"`
	Day    string          `json:"day"`       // on which the logs were sealed, yyyymmdd
	Days   int             `json:"kept_days"` // by the policy of then
	At     time.Time       `json:"at"`
}

// removalBytesMax bounds a record that a damaged store could make us read.
const removalBytesMax = 4 << 10

func (l lot) removalKey() string {
	return RemovalsPrefix + string(l.tenant) + "/" + l.class + "/" + l.day
}

// RemovalKey names the record that says whether retention removed an object; "" for an object
// that retention never removes.
func RemovalKey(object string) string {
	l, ok := lotOf(object)
	if !ok {
		return ""
	}
	return l.removalKey()
}

// FindRemoval looks for the record that retention removed an object of sealed logs; nil when
// there is none.
func FindRemoval(ctx context.Context, store blob.Store, object string) (*Removal, error) {
	l, ok := lotOf(object)
	if !ok {
		return nil, nil
	}
	key := l.removalKey()
	r, err := store.Open(ctx, key, 0, -1)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read record of removed logs %s: %w", key, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, removalBytesMax))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read record of removed logs %s: %w", key, err)
	}
	removal := &Removal{}
	if err := json.Unmarshal(text, removal); err != nil || (lot{removal.Tenant, removal.Class, removal.Day}) != l {
		return nil, &Damage{Object: key, Why: "is no record of removed logs"}
	}
	return removal, nil
}

// Rejection is the answer to whoever wants to read such a log.
func (r *Removal) Rejection() *domain.Rejection {
	days := fmt.Sprintf("%d days", r.Days)
	if r.Days == 1 {
		days = "a day"
	}
	of := "logs of class " + r.Class
	if r.Class == classless {
		of = "logs without a class"
	}
	return domain.Reject(domain.CodeLogExpired, fmt.Sprintf("The log was removed on %s: %s are kept for %s.",
		r.At.UTC().Format(time.DateOnly), of, days))
}

// Removal says whether retention removed the object of a sealed log; nil for one that is there,
// and for one that is too young for any policy, which is not looked at.
func (g *Gateway) Removal(ctx context.Context, object string) (*Removal, error) {
	l, ok := lotOf(object)
	if !ok || !l.over(g.config.Now(), 1) {
		return nil, nil
	}
	removal, err := FindRemoval(ctx, g.store, object)
	if removal == nil || err != nil {
		return nil, err
	}
	if _, err := g.store.Size(ctx, object); !errors.Is(err, blob.ErrNotFound) {
		return nil, err // its turn comes
	}
	return removal, nil
}

// Removal is Gateway.Removal, whoever holds the logs.
func (h *Holder) Removal(ctx context.Context, object string) (*Removal, error) {
	return h.reader.Removal(ctx, object)
}

// record makes the removal of a lot known; one that was known before stays as it is.
func (l lot) record(ctx context.Context, store blob.Store, days int, at time.Time) error {
	text, err := json.Marshal(Removal{l.tenant, l.class, l.day, days, at.UTC().Truncate(time.Second)})
	if err != nil {
		return fmt.Errorf("encode record of removed logs: %w", err)
	}
	err = store.Put(ctx, l.removalKey(), bytes.NewReader(text), int64(len(text)))
	if err != nil && !errors.Is(err, blob.ErrExists) {
		return fmt.Errorf("record that logs are removed: %w", err)
	}
	return nil
}

// expired turns the error of reading an object that is gone into the answer that retention
// removed it, if it did.
func (g *Gateway) expired(ctx context.Context, object string, err error) error {
	if !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	removal, failed := FindRemoval(ctx, g.store, object)
	switch {
	case failed != nil:
		return errors.Join(err, failed)
	case removal != nil:
		return removal.Rejection()
	}
	return err
}
