package trigger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// objects collects what a run rests on, then stores all of it side by side.
type objects struct {
	host   host.Host
	blobs  blob.Store
	tenant domain.TenantID
	bytes  map[domain.Digest][]byte
}

func newObjects(h host.Host, blobs blob.Store, tenant domain.TenantID) *objects {
	return &objects{h, blobs, tenant, make(map[domain.Digest][]byte)}
}

func (o *objects) add(data []byte) domain.Digest {
	digest := domain.DigestOf(data)
	o.bytes[digest] = data
	return digest
}

// store returns when every object is durable. One that is there already is the same.
func (o *objects) store(ctx context.Context) error {
	all := slices.Sorted(maps.Keys(o.bytes))
	return host.Each(ctx, o.host, len(all), len(all), func(ctx context.Context, i int) error {
		digest, data := all[i], o.bytes[all[i]]
		err := o.blobs.Put(ctx, blob.ObjectKey(o.tenant, digest), bytes.NewReader(data), int64(len(data)))
		switch {
		case err == nil || errors.Is(err, blob.ErrExists):
			return nil
		case errors.Is(err, blob.ErrFull):
			return domain.Reject(domain.CodeStorageFull, "The server has no space left for the run's inputs.")
		}
		return fmt.Errorf("put object %s: %w", digest, err)
	})
}
