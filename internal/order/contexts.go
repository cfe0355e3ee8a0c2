package order

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
)

// Bounds of stored inputs.
const (
	snapshotBytesMax = 16 << 20
	contextBytesMax  = 32 << 20
)

// Frozen reads a run's contexts from its snapshot.
type Frozen struct{ Blobs blob.Store }

var _ Contexts = Frozen{}

// Contexts implements the interface.
func (f Frozen) Contexts(
	ctx context.Context,
	tenant domain.TenantID,
	q *run.Request,
) (github, inputs json.RawMessage, err error) {
	data, err := ReadObject(ctx, f.Blobs, tenant, q.Snapshot, snapshotBytesMax)
	if err != nil {
		return nil, nil, err
	}
	frozen, err := snapshot.Decode(data)
	if err != nil {
		return nil, nil, fmt.Errorf("read snapshot of %s: %w", q.Run, err)
	}
	if github, err = ReadObject(ctx, f.Blobs, tenant, frozen.Github, contextBytesMax); err != nil {
		return nil, nil, err
	}
	if q.Inputs != "" {
		inputs, err = ReadObject(ctx, f.Blobs, tenant, q.Inputs, contextBytesMax)
	}
	return github, inputs, err
}
