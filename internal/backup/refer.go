package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/verify"
)

// events decodes the events of a row of the log; nil when they can't be.
func (m *making) events(row *store.Row) []any {
	for _, k := range m.Kinds {
		if k.Name != row.Stream.Kind() {
			continue
		}
		events, err := k.DecodeEvents(row.Events)
		if err != nil {
			return nil
		}
		return events
	}
	return nil
}

// note remembers which logs are open at the moment of the copied history, and what it says of
// sealed ones that the base has.
func (m *making) note(row *store.Row) {
	if row.Stream.Kind() != "run" {
		return
	}
	of := func(a run.OfAttempt) openLog {
		return openLog{row.Tenant, domain.RunID(row.Stream.ID()).Job(a.Job).Attempt(a.Attempt)}
	}
	for _, e := range m.events(row) {
		switch e := e.(type) {
		case *run.LeaseGranted:
			m.open[of(e.OfAttempt)] = true
		case *run.LeaseDeclined:
			delete(m.open, of(e.OfAttempt))
		case *run.LogSealed:
			delete(m.open, of(e.OfAttempt))
			if m.base != nil && logs.BundleDigest(e.Log.Object) == "" {
				m.sealed[e.Log.Object] = e.Log.Digest
			}
		}
	}
}

// noteArchived does the same for the rows of an object of the archive. What is wrong with one
// is told when the backup is read back.
func (m *making) noteArchived(ctx context.Context, o store.ArchivedObject) error {
	if o.Tenant == "" {
		return nil
	}
	data, err := m.reader.Whole(ctx, &o)
	if err == nil {
		var rows []store.Row
		rows, err = archive.DecodeRows(data)
		for i := range rows {
			m.note(&rows[i])
		}
	}
	if errors.Is(err, store.ErrBroken) || errors.Is(err, archive.ErrFormat) {
		return nil
	}
	return err
}

// referArchived checks an object of the archive in the backup, and what its rows refer to.
func (m *making) referArchived(ctx context.Context, values []any, index map[short]domain.Digest) error {
	o, p := store.ArchivedObjectOf(values), domain.PartitionID(values[0].(string))
	place := verify.Finding{Partition: p, Position: store.Position(values[1].(int64)), Tenant: o.Tenant, Object: o.Object}
	if !m.expect(place, "archive", o.Digest, index) || o.Tenant == "" {
		return nil
	}
	data, err := os.ReadFile(m.contents.path(o.Digest))
	if err != nil {
		return err
	}
	rows, err := archive.DecodeRows(data)
	if err != nil {
		place.Code, place.Text, place.Fix = verify.ArchiveDamaged, err.Error(), "restore an earlier backup of it"
		m.damaged(place)
		return nil
	}
	for i := range rows {
		if err := m.refer(ctx, p, &rows[i], index); err != nil {
			return err
		}
	}
	return nil
}

// openLog is a log that was not sealed at the moment of the copied history.
type openLog struct {
	tenant  domain.TenantID
	attempt domain.AttemptID
}

// reopen saves what the copied history still has to seal and the store has sealed since: the
// segments of such a log were gone before they were copied, so they are made again.
func (m *making) reopen(ctx context.Context) error {
	if len(m.open) == 0 {
		return nil
	}
	image, err := m.Archive.Image(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = image.Close() }() // it only read
	image = archive.Across(image, m.reader)
	open := slices.SortedFunc(maps.Keys(m.open), func(a, b openLog) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.attempt, b.attempt))
	})
	var seals map[domain.AttemptID]run.Log
	for i, o := range open {
		if i == 0 || open[i-1].tenant != o.tenant || open[i-1].attempt.Run() != o.attempt.Run() {
			if seals, err = verify.SealsOf(ctx, m.Kinds, image, o.tenant, o.attempt.Run()); err != nil {
				return err
			}
		}
		log, sealed := seals[o.attempt]
		if !sealed || log.Object == "" {
			continue
		}
		ref := logs.Ref{Object: log.Object, Offset: log.Offset, Length: log.Length}
		var unwritten error // of the backup, not of the server's objects
		err := logs.Reopen(ctx, m.Blobs, o.tenant, o.attempt, ref, func(segment []byte) error {
			unwritten = m.segment(ctx, o.tenant, segment)
			return unwritten
		})
		if unwritten != nil || ctx.Err() != nil {
			return errors.Join(unwritten, ctx.Err())
		}
		if err != nil {
			m.damaged(verify.Finding{Code: verify.LogDamaged, Tenant: o.tenant, Stream: o.attempt.Run().Stream(),
				Object: log.Object, Text: err.Error(), Fix: "restore an earlier backup of it"})
		}
	}
	return nil
}

// segment adds a segment that was made again, under a name that no other has.
func (m *making) segment(ctx context.Context, tenant domain.TenantID, segment []byte) error {
	key := logs.ReopenedKey(tenant, m.era, m.reopened)
	for m.copied[key] {
		m.reopened++
		key = logs.ReopenedKey(tenant, m.era, m.reopened)
	}
	m.reopened++
	digest, n, err := m.contents.add(ctx, bytes.NewReader(segment))
	if err != nil {
		return err
	}
	m.manifest.Counts.Objects++
	m.manifest.Counts.ObjectBytes += n
	return m.list.add(entry{Kind: kindObject, Name: key, Bytes: n, Digest: digest})
}

// short is a name by the half of its digest: the index of a large backup must fit memory.
type short [16]byte

func shortOf(name string) short {
	sum := sha256.Sum256([]byte(name))
	return short(sum[:16])
}

// references reads the backup back: every row, and whether every object that history names
// is in the backup with the right digest.
func (m *making) references(ctx context.Context) error {
	index := map[short]domain.Digest{}
	if err := eachEntry(m.Folder, func(e *entry) error {
		if e.Kind == kindObject {
			index[shortOf(e.Name)] = e.Digest
		}
		return nil
	}); err != nil {
		return err
	}
	file, err := os.Open(filepath.Join(m.Folder, recordsFile))
	if err != nil {
		return err
	}
	var rows int64
	r := &recordReader{table: func(*store.Table) error { return ctx.Err() }, row: func(t *store.Table,
		values []any) error {
		if rows++; rows%rowsTold == 0 {
			m.Progress("reading back", rows, m.manifest.Counts.Rows)
		}
		if t.Name == store.TableArchiveObjects {
			return m.referArchived(ctx, values, index)
		}
		if t.Name != store.TableLog {
			return nil
		}
		p, row := store.LogOf(values)
		return m.refer(ctx, p, &row, index)
	}}
	err = r.read(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("read back %s: %w", recordsFile, err)
	}
	return nil
}

func (m *making) refer(ctx context.Context, p domain.PartitionID, row *store.Row, index map[short]domain.Digest) error {
	events := m.events(row)
	if events == nil && row.Count > 0 {
		m.damaged(verify.Finding{Code: verify.RowUnreadable, Partition: p, Position: row.Position, Tenant: row.Tenant,
			Stream: row.Stream, Version: row.Version, Text: "its events can't be decoded", Fix: "restore an earlier backup"})
	}
	for _, event := range events {
		if e, ok := event.(*run.RunRequested); ok && m.Mirrors != nil {
			name := string(row.Tenant) + "/" + string(e.Request.Repository)
			if !m.mirrored[name] {
				m.mirrored[name] = true // it is told once
				m.damaged(verify.Finding{Code: verify.CommitMissing, Tenant: row.Tenant, Stream: row.Stream, Object: name,
					Text: "the mirror with the commits of its runs is not there",
					Fix:  "restore an earlier backup of it, or push and fetch anew"})
			}
		}
		for _, r := range verify.References(row.Tenant, row.Stream, event) {
			place := verify.Finding{Partition: p, Position: row.Position, Tenant: row.Tenant, Stream: row.Stream,
				Version: row.Version, Object: r.Key}
			if m.removed(r.Key, index) {
				m.manifest.Counts.RemovedLogs++
				continue
			}
			have := m.expect(place, r.What, r.Digest, index)
			if !have || r.What != "snapshot" {
				continue
			}
			if err := m.referBelow(ctx, place, r.Digest, index); err != nil {
				return err
			}
		}
	}
	return nil
}

// removed reports whether an object is not in the backup because retention removed it: then the
// record of that is in it.
func (m *making) removed(key string, index map[short]domain.Digest) bool {
	record := logs.RemovalKey(key)
	if record == "" {
		return false
	}
	_, there := index[shortOf(key)]
	_, recorded := index[shortOf(record)]
	return !there && recorded
}

// expect notes damage unless the backup has the object with that digest.
func (m *making) expect(place verify.Finding, what string, digest domain.Digest, index map[short]domain.Digest) bool {
	have, there := index[shortOf(place.Object)]
	switch {
	case !there:
		place.Code, place.Text = verify.ObjectMissing, fmt.Sprintf("the object of the %s is not there", what)
	case have != digest:
		place.Code, place.Text = verify.ObjectDamaged, fmt.Sprintf("the object of the %s digests to %s, not %s", what, have,
			digest)
	default:
		return true
	}
	place.Fix = "restore an earlier backup of it"
	m.damaged(place)
	return false
}

// referBelow does the same for what a snapshot names in its turn.
func (m *making) referBelow(
	ctx context.Context, place verify.Finding, digest domain.Digest, index map[short]domain.Digest,
) error {
	file, err := os.Open(m.contents.path(digest))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(reader{ctx, file})
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	s, err := snapshot.Decode(text)
	if err != nil {
		place.Code, place.Text, place.Fix = verify.ObjectDamaged, err.Error(), "use the version of fairlead that wrote it"
		m.damaged(place)
		return nil
	}
	for _, below := range s.Objects() {
		if below.Valid() {
			place.Object = blob.ObjectKey(place.Tenant, below)
			m.expect(place, "file that a snapshot names", below, index)
		}
	}
	return nil
}
