package fault

import (
	"context"
	"io"

	"github.com/fairlead-ci/fairlead/internal/blob"
)

// Blobs stands before an object store. Reading from an opened object is a call of its own,
// which can fail when some bytes have come already.
type Blobs struct {
	blob.Store
	gate gate
}

// NewBlobs wraps an object store; port says whose it is.
func NewBlobs(s blob.Store, port Port, plan *Plan) *Blobs {
	return &Blobs{s, gate{plan, port, func(_ string, how How) error {
		if how == Full {
			return blob.ErrFull
		}
		return nil
	}}}
}

var _ blob.Store = (*Blobs)(nil)

// Put implements blob.Store.
func (b *Blobs) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	return b.gate.do(Call{"put", []How{Before, After, Full}}, func() error { return b.Store.Put(ctx, key, r, size) })
}

// Open implements blob.Store.
func (b *Blobs) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	r, err := ask(b.gate, reads("open"), func() (io.ReadCloser, error) { return b.Store.Open(ctx, key, offset, length) })
	if err != nil {
		return nil, err
	}
	return &object{r, b.gate}, nil
}

// Size implements blob.Store.
func (b *Blobs) Size(ctx context.Context, key string) (int64, error) {
	return ask(b.gate, reads("size"), func() (int64, error) { return b.Store.Size(ctx, key) })
}

// List implements blob.Store.
func (b *Blobs) List(ctx context.Context, prefix, after string, limit int) ([]blob.Entry, error) {
	return ask(b.gate, reads("list"), func() ([]blob.Entry, error) { return b.Store.List(ctx, prefix, after, limit) })
}

// Delete implements blob.Store.
func (b *Blobs) Delete(ctx context.Context, key string) error {
	return b.gate.do(writes("delete"), func() error { return b.Store.Delete(ctx, key) })
}

// object is an opened object.
type object struct {
	io.ReadCloser
	gate gate
}

// Read implements io.Reader. A read that is struck after its effect brought bytes.
func (o *object) Read(p []byte) (n int, err error) {
	if !o.gate.plan.strikes(o.gate.port, reads("read")) {
		return o.ReadCloser.Read(p)
	}
	n, _ = o.ReadCloser.Read(p[:min(len(p), 1)])
	return n, o.gate.err("read")
}
