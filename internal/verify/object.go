package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
)

// Reference is an object that history names.
type Reference struct {
	Key    string
	Digest domain.Digest // of its bytes
	What   string        // it is, in one word
	log    *run.Log
	of     domain.AttemptID
}

// References are the objects that an event names directly. What a snapshot names in its
// turn is found by reading it.
func References(tenant domain.TenantID, stream domain.StreamID, event any) []Reference {
	var out []Reference
	object := func(what string, digest domain.Digest) {
		if digest != "" {
			out = append(out, Reference{Key: blob.ObjectKey(tenant, digest), Digest: digest, What: what})
		}
	}
	switch e := event.(type) {
	case *run.RunRequested:
		object("plan", e.Request.Plan)
		object("inputs", e.Request.Inputs)
		object(whatSnapshot, e.Request.Snapshot)
	case *run.AttemptConcluded:
		for _, o := range e.Outputs {
			object("output "+o.Name, o.Digest)
		}
	case *run.LogSealed:
		if e.Log.Object != "" {
			of := domain.RunID(stream.ID()).Job(e.Job).Attempt(e.Attempt)
			digest := e.Log.Digest
			if whole := logs.BundleDigest(e.Log.Object); whole != "" {
				digest = whole
			}
			out = append(out, Reference{Key: e.Log.Object, Digest: digest, What: whatLog, log: &e.Log, of: of})
		}
	}
	return out
}

const (
	whatSnapshot = "snapshot"
	whatLog      = "log"
)

// follower collects what a stream refers to while its history is replayed.
type follower struct{ references []placed }

type placed struct {
	Reference
	version uint64
}

func (f *follower) take(event any, row *store.Row) {
	for _, r := range References(row.Tenant, row.Stream, event) {
		f.references = append(f.references, placed{r, row.Version})
	}
}

// objectState is what is known of an object that was read: what is wrong with it, if
// anything, and what a snapshot names.
type objectState struct {
	code  Code
	why   string
	names []domain.Digest
}

type attemptKey struct {
	tenant  domain.TenantID
	attempt domain.AttemptID
}

// references examines every object that the stream names, the numbers that its run has,
// and its commit.
func (c *check) references(
	ctx context.Context, p domain.PartitionID, head store.Head, state any, follow *follower,
) error {
	if s, ok := state.(*run.State); ok && s.Exists() {
		if err := c.runRefers(ctx, head, s); err != nil {
			return err
		}
	}
	if c.Blobs == nil {
		return nil
	}
	for _, r := range follow.references {
		place := Finding{Partition: p, Tenant: head.Tenant, Stream: head.Stream, Version: r.version, Object: r.Key}
		got, err := c.object(ctx, r.Reference)
		if err != nil {
			return err
		}
		c.tellObject(place, r.What, got)
		for _, digest := range got.names {
			place.Object = blob.ObjectKey(head.Tenant, digest)
			below, err := c.object(ctx, Reference{Key: place.Object, Digest: digest})
			if err != nil {
				return err
			}
			c.tellObject(place, "what the snapshot names", below)
		}
	}
	return nil
}

func (c *check) tellObject(place Finding, what string, got objectState) {
	if got.code == "" {
		return
	}
	place.Code, place.Fix = got.code, fixObject
	place.Text = fmt.Sprintf("the object of the %s: %s", what, got.why)
	c.found(place)
}

// runRefers notes what a run has that stands elsewhere, too: its number, its commit, logs
// that are still open.
func (c *check) runRefers(ctx context.Context, head store.Head, s *run.State) error {
	q := &s.Request
	if q.Number > 0 {
		c.number(head.Tenant, "runs/"+string(q.Repository)+"/"+q.WorkflowPath, q.Number)
	}
	for j := range s.Jobs {
		for n := range s.Jobs[j].Attempts {
			a := &s.Jobs[j].Attempts[n]
			if a.Log == nil && a.Report != "" && a.LogEnd > 0 {
				c.open[attemptKey{head.Tenant, s.AttemptID(j, a.Number)}] = a.LogEnd
			}
		}
	}
	if c.Pins == nil || q.Source.Commit == "" {
		return nil
	}
	repo := scm.Repo{Tenant: head.Tenant, Repository: q.Repository}
	pins, known := c.pins[repo]
	if !known {
		var err error
		pins, err = c.Pins(ctx, repo)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, scm.ErrNotFound):
			c.found(Finding{Code: CommitMissing, Tenant: head.Tenant, Object: string(q.Repository), Fix: fixObject,
				Text: "which commits the mirror keeps can't be told: " + err.Error()})
			pins = nil
		case pins == nil:
			pins = map[string]bool{}
		}
		c.pins[repo] = pins
	}
	if pins != nil && !pins[q.Source.Commit] {
		c.found(Finding{Code: CommitMissing, Tenant: head.Tenant, Stream: head.Stream, Object: q.Source.Commit,
			Fix:  fixObject,
			Text: fmt.Sprintf("the mirror of repository %s does not keep the run's commit", q.Repository)})
	}
	return nil
}

// object reads an object once, however many name it; of an object that logs share, each log.
func (c *check) object(ctx context.Context, r Reference) (objectState, error) {
	key := r.Key
	if r.log != nil {
		key = fmt.Sprintf("%s %d", r.Key, r.log.Offset)
	}
	if known, ok := c.objects[key]; ok {
		return known, nil
	}
	if len(c.objects) > objectsKnownMax {
		clear(c.objects)
	}
	got, err := c.readObject(ctx, r)
	if err != nil {
		return got, err
	}
	c.objects[key] = got
	return got, nil
}

func (c *check) readObject(ctx context.Context, r Reference) (objectState, error) {
	c.report.Objects++
	if c.report.Objects%progressEvery == 0 {
		c.Progress("objects", c.report.Objects, 0)
	}
	if r.log != nil {
		return c.readLog(ctx, r)
	}
	data, got, err := c.readWhole(ctx, r)
	if err != nil || got.code != "" || r.What != whatSnapshot {
		return got, err
	}
	s, err := snapshot.Decode(data)
	if err != nil {
		return objectState{code: ObjectDamaged, why: err.Error()}, nil
	}
	for _, digest := range s.Objects() {
		if digest.Valid() {
			got.names = append(got.names, digest)
		}
	}
	return got, nil
}

// readWhole reads an object and compares its digest. Only a snapshot's bytes are kept.
func (c *check) readWhole(ctx context.Context, r Reference) ([]byte, objectState, error) {
	from, err := c.Blobs.Open(ctx, r.Key, 0, -1)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, objectState{code: ObjectMissing, why: "it is not there"}, nil
	}
	if err != nil {
		return nil, objectState{code: ObjectDamaged, why: err.Error()}, ctx.Err()
	}
	sum, kept := sha256.New(), &bytes.Buffer{}
	into := io.Writer(sum)
	if r.What == whatSnapshot {
		into = io.MultiWriter(sum, kept)
	}
	n, err := io.Copy(into, from)
	c.report.Bytes += n
	if err = errors.Join(err, from.Close()); err != nil {
		return nil, objectState{code: ObjectDamaged, why: "it can't be read: " + err.Error()}, ctx.Err()
	}
	if got := domain.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil))); got != r.Digest {
		return nil, objectState{code: ObjectDamaged, why: fmt.Sprintf("its %d bytes digest to %s, not %s", n, got,
			r.Digest)}, nil
	}
	return kept.Bytes(), objectState{}, nil
}

// readLog decodes a sealed log from end to end.
func (c *check) readLog(ctx context.Context, r Reference) (objectState, error) {
	c.report.Logs++
	n, err := logs.Examine(ctx, c.Blobs, r.of, logs.Ref{Object: r.log.Object, Offset: r.log.Offset, Length: r.log.Length,
		Digest: r.log.Digest, Bytes: r.log.Bytes, Lines: r.log.Lines, Truncated: r.log.Truncated, Gaps: r.log.Gaps})
	c.report.Bytes += n
	switch {
	case err == nil:
		return objectState{}, nil
	case errors.Is(err, blob.ErrNotFound):
		return c.goneLog(ctx, r)
	case ctx.Err() != nil:
		return objectState{}, ctx.Err()
	}
	return objectState{code: LogDamaged, why: err.Error()}, nil
}

// goneLog says whether retention removed a log that is not there.
func (c *check) goneLog(ctx context.Context, r Reference) (objectState, error) {
	removal, err := logs.FindRemoval(ctx, c.Blobs, r.Key)
	switch {
	case ctx.Err() != nil:
		return objectState{}, ctx.Err()
	case err != nil:
		return objectState{code: ObjectMissing, why: "it is not there, and whether it was removed can't be told: " +
			err.Error()}, nil
	case removal == nil:
		return objectState{code: ObjectMissing, why: "it is not there"}, nil
	}
	c.report.Removed++
	return objectState{}, nil
}

// segments examines the chunks of logs that are not sealed: every segment, and whether the
// acknowledged chunks of attempts with a result are all there.
func (c *check) segments(ctx context.Context) error {
	if c.Blobs == nil {
		if c.Missing == "" {
			c.skip("objects and logs: no data folder was given")
		}
		return nil
	}
	if c.Percent != 0 {
		c.skip("segments of open logs: only a whole examination reads them")
		return nil
	}
	c.Progress("segments", 0, 0)
	held := map[attemptKey][]logs.ChunkFound{}
	err := logs.ExamineSegments(ctx, c.Blobs, func(s logs.SegmentFound) {
		c.report.Objects++
		c.report.Bytes += s.Bytes
		if s.Err != nil {
			c.found(Finding{Code: SegmentDamaged, Object: s.Key, Text: s.Err.Error(), Fix: fixObject})
		}
		for _, chunk := range s.Chunks {
			key := attemptKey{s.Tenant, chunk.Attempt}
			if c.open[key] > 0 {
				held[key] = append(held[key], chunk)
			}
		}
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("examine segments: %w", err)
	}
	if err != nil { // the others can't be told whole from this
		c.found(Finding{Code: SegmentDamaged, Text: "segments can't be read: " + err.Error(), Fix: fixObject})
		return nil
	}
	for key, end := range c.open {
		if err := c.incomplete(ctx, key, end, held[key]); err != nil {
			return err
		}
	}
	return nil
}

// incomplete tells of chunks that an attempt's result speaks of and no segment holds. A log
// that was sealed since the image was taken has none to look for.
func (c *check) incomplete(ctx context.Context, key attemptKey, end uint64, held []logs.ChunkFound) error {
	missing := missingOf(end, held)
	if missing == "" {
		return nil
	}
	seals, err := c.sealsSince(ctx, key)
	if _, sealed := seals[key.attempt]; err != nil || sealed {
		return err
	}
	if earlier, err := logs.SealedEarlier(ctx, c.Blobs, key.tenant, key.attempt); err != nil || earlier {
		return err
	}
	c.found(Finding{Code: LogIncomplete, Tenant: key.tenant, Stream: key.attempt.Run().Stream(),
		Object: string(key.attempt),
		Text:   fmt.Sprintf("of %d chunks of the attempt's log these are in no segment:%s", end, missing), Fix: fixObject})
	return nil
}

// sealsSince looks at a run as it is now, with a later image than the one that is examined.
func (c *check) sealsSince(ctx context.Context, key attemptKey) (map[domain.AttemptID]run.Log, error) {
	if c.later == nil {
		var err error
		if c.later, err = c.Archive.Image(ctx); err != nil {
			return nil, err
		}
	}
	return SealsOf(ctx, c.Kinds, c.later, key.tenant, key.attempt.Run())
}

// SealsOf gives the sealed logs that a run's history names, for as long as it can be decoded.
func SealsOf(
	ctx context.Context, kinds []*engine.Kind, image store.Image, tenant domain.TenantID, id domain.RunID,
) (map[domain.AttemptID]run.Log, error) {
	i := slices.IndexFunc(kinds, func(k *engine.Kind) bool { return k.Name == id.Stream().Kind() })
	h, err := image.Load(ctx, tenant, id.Stream(), false, 0)
	if errors.Is(err, store.ErrBroken) || i < 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	seals := map[domain.AttemptID]run.Log{}
	for n := range h.Rows {
		events, err := kinds[i].DecodeEvents(h.Rows[n].Events)
		if err != nil {
			return seals, nil
		}
		for _, e := range events {
			if s, ok := e.(*run.LogSealed); ok {
				seals[id.Job(s.Job).Attempt(s.Attempt)] = s.Log
			}
		}
	}
	return seals, nil
}

// missingOf lists the chunks up to end that are not held, a few ranges of them.
func missingOf(end uint64, held []logs.ChunkFound) (missing string) {
	slices.SortFunc(held, func(a, b logs.ChunkFound) int { return cmp.Compare(a.Sequence, b.Sequence) })
	next, ranges := uint64(1), 0
	for _, chunk := range append(held, logs.ChunkFound{Sequence: end + 1}) {
		if chunk.Sequence > next && next <= end && !chunk.Gap {
			if ranges++; ranges <= 4 {
				missing += fmt.Sprintf(" %d-%d", next, min(chunk.Sequence, end+1)-1)
			}
		}
		next = max(next, chunk.Sequence+1)
	}
	if ranges > 4 {
		missing += " …"
	}
	return missing
}
