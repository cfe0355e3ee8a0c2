package order

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/recall"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
)

// Bounds of stored inputs.
const (
	snapshotBytesMax = 48 << 20
	contextBytesMax  = 32 << 20
)

// objectID names an object of a tenant.
type objectID struct {
	tenant domain.TenantID
	digest domain.Digest
}

// Frozen reads a run's contexts from its snapshot.
type Frozen struct {
	Blobs blob.Store

	githubs recall.Of[objectID, json.RawMessage] // by the snapshot
	inputs  recall.Of[objectID, json.RawMessage]
	parts   recall.Of[objectID, []snapshot.Component] // by the snapshot
}

var _ Contexts = (*Frozen)(nil)

// Contexts implements the interface.
func (f *Frozen) Contexts(
	ctx context.Context,
	tenant domain.TenantID,
	q *run.Request,
) (github, inputs json.RawMessage, err error) {
	if github, err = f.github(ctx, tenant, q); err != nil || q.Inputs == "" {
		return github, nil, err
	}
	id := objectID{tenant, q.Inputs}
	if inputs, ok := f.inputs.Get(id); ok {
		return github, inputs, nil
	}
	if inputs, err = ReadObject(ctx, f.Blobs, tenant, q.Inputs, contextBytesMax); err == nil {
		f.inputs.Put(id, inputs, len(inputs))
	}
	return github, inputs, err
}

// Components are the components of a run, resolved before it began.
func (f *Frozen) Components(ctx context.Context, tenant domain.TenantID, q *run.Request) ([]snapshot.Component, error) {
	id := objectID{tenant, q.Snapshot}
	if found, ok := f.parts.Get(id); ok {
		return found, nil
	}
	data, err := ReadObject(ctx, f.Blobs, tenant, q.Snapshot, snapshotBytesMax)
	if err != nil {
		return nil, err
	}
	frozen, err := snapshot.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read snapshot of %s: %w", q.Run, err)
	}
	size := 0
	for _, c := range frozen.Components {
		size += len(c.Name) + len(c.Digest) + len(c.File)
	}
	f.parts.Put(id, frozen.Components, size)
	return frozen.Components, nil
}

func (f *Frozen) github(ctx context.Context, tenant domain.TenantID, q *run.Request) (json.RawMessage, error) {
	id := objectID{tenant, q.Snapshot}
	if github, ok := f.githubs.Get(id); ok {
		return github, nil
	}
	data, err := ReadObject(ctx, f.Blobs, tenant, q.Snapshot, snapshotBytesMax)
	if err != nil {
		return nil, err
	}
	frozen, err := snapshot.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read snapshot of %s: %w", q.Run, err)
	}
	github := frozen.Github
	if frozen.Version == snapshot.VersionOne {
		if github, err = ReadObject(ctx, f.Blobs, tenant, frozen.GithubObject, contextBytesMax); err != nil {
			return nil, err
		}
	}
	f.githubs.Put(id, github, len(github))
	return github, nil
}
