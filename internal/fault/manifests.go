package fault

import (
	"context"

	"github.com/fairlead-ci/fairlead/internal/dispatch"
	"github.com/fairlead-ci/fairlead/internal/manifest"
)

// Manifests stands before whoever builds manifests.
type Manifests struct {
	of   dispatch.Manifests
	gate gate
}

// NewManifests wraps a builder of manifests.
func NewManifests(of dispatch.Manifests, plan *Plan) *Manifests {
	return &Manifests{of, gate{plan, PortManifests, func(string, How) error { return nil }}}
}

var _ dispatch.Manifests = (*Manifests)(nil)

// Build implements dispatch.Manifests.
func (m *Manifests) Build(ctx context.Context, want dispatch.Order) (*manifest.Manifest, error) {
	return ask(m.gate, reads("build"), func() (*manifest.Manifest, error) { return m.of.Build(ctx, want) })
}
