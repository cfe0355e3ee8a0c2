package trigger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/recall"
)

// objects collects what a run rests on, then stores all of it side by side.
type objects struct {
	host   host.Host
	blobs  blob.Store
	tenant domain.TenantID
	bytes  map[domain.Digest][]byte
	whole  *recall.Of[string, struct{}] // keys of objects that were found to be what they should be
	healed func(key string)
}

func (t *Triggers) newObjects(tenant domain.TenantID) *objects {
	return &objects{t.cfg.Host, t.cfg.Blobs, tenant, make(map[domain.Digest][]byte), &t.remembered.whole,
		func(key string) { t.cfg.Log.Warn("an object with other bytes was replaced", "object", key) }}
}

func (o *objects) add(data []byte) domain.Digest {
	digest := domain.DigestOf(data)
	o.bytes[digest] = data
	return digest
}

// store returns when every object is durable. One that is there already is the same, unless storage
// has cut or changed it: then it is replaced, since its bytes are at hand. A run must not be accepted
// that can never read what it rests on, and runs that are asked for alike rest on the same objects.
func (o *objects) store(ctx context.Context) error {
	all := slices.Sorted(maps.Keys(o.bytes))
	return host.Each(ctx, o.host, len(all), len(all), func(ctx context.Context, i int) error {
		digest, data := all[i], o.bytes[all[i]]
		err := o.put(ctx, blob.ObjectKey(o.tenant, digest), data)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, blob.ErrFull):
			return domain.Reject(domain.CodeStorageFull, "The server has no space left for the run's inputs.")
		}
		return fmt.Errorf("put object %s: %w", digest, err)
	})
}

func (o *objects) put(ctx context.Context, key string, data []byte) error {
	err := o.blobs.Put(ctx, key, bytes.NewReader(data), int64(len(data)))
	if !errors.Is(err, blob.ErrExists) {
		return err
	}
	if same, err := o.same(ctx, key, data); same || err != nil {
		return err
	}
	if err := o.blobs.Delete(ctx, key); err != nil {
		return err
	}
	o.healed(key)
	err = o.blobs.Put(ctx, key, bytes.NewReader(data), int64(len(data)))
	if errors.Is(err, blob.ErrExists) { // somebody else replaced it at the same moment
		return nil
	}
	return err
}

// same compares an object with its bytes: its length each time, the bytes once in a process.
func (o *objects) same(ctx context.Context, key string, data []byte) (bool, error) {
	has, err := o.blobs.Size(ctx, key)
	if err != nil || has != int64(len(data)) {
		return false, err
	}
	if _, known := o.whole.Get(key); known {
		return true, nil
	}
	r, err := o.blobs.Open(ctx, key, 0, -1)
	if err != nil {
		return false, err
	}
	there, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return false, err
	}
	if bytes.Equal(there, data) {
		o.whole.Put(key, struct{}{}, len(key))
		return true, nil
	}
	return false, nil
}
