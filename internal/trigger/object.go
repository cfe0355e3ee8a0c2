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

// store returns when every object is durable. One that is there already is the same, unless
// storage has cut it: a run must not be accepted that can never read what it rests on.
func (o *objects) store(ctx context.Context) error {
	all := slices.Sorted(maps.Keys(o.bytes))
	return host.Each(ctx, o.host, len(all), len(all), func(ctx context.Context, i int) error {
		digest, data := all[i], o.bytes[all[i]]
		key, length := blob.ObjectKey(o.tenant, digest), int64(len(data))
		err := o.blobs.Put(ctx, key, bytes.NewReader(data), length)
		if errors.Is(err, blob.ErrExists) {
			var has int64
			if has, err = o.blobs.Size(ctx, key); err == nil && has != length {
				return domain.Reject(domain.CodeObjectDamaged, fmt.Sprintf("The object %s of the run has %d bytes in "+
					"the object store instead of %d: remove it there and try again.", key, has, length))
			}
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, blob.ErrFull):
			return domain.Reject(domain.CodeStorageFull, "The server has no space left for the run's inputs.")
		}
		return fmt.Errorf("put object %s: %w", digest, err)
	})
}
