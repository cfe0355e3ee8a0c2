package logs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// Most logs are a few lines, and an object costs two syncs and an inode whatever is in it. So
// short sealed logs of a tenant that end at about the same time lie behind each other in one
// object, a bundle. Each of them is a complete Zstandard file of its own; its reference says
// where it lies. A bundle is named by the digest of its bytes: written twice it is there once.

// earlierBundleKey names a bundle of an earlier release, which put all classes and days into one.
func earlierBundleKey(tenant string, digest domain.Digest) string {
	sum := digest.Hex()
	return tenant + "/log-bundles/" + sum[:2] + "/" + sum
}

// BundleDigest is the digest that a bundle's bytes must have, by its name; "" for an object
// that is no bundle.
func BundleDigest(key string) domain.Digest {
	tenant, _, _ := strings.Cut(key, "/")
	digest := domain.Digest("sha256:" + key[strings.LastIndexByte(key, '/')+1:])
	if !digest.Valid() {
		return ""
	}
	if l, ok := lotOf(key); ok && l.bundleKey(digest) == key || earlierBundleKey(tenant, digest) == key {
		return digest
	}
	return ""
}

// bundleOf says for whose logs a bundle is: retention removes bundles whole, so no two classes
// share one.
type bundleOf struct {
	tenant domain.TenantID
	class  domain.Class
}

// bundler collects the logs of one tenant and class for the next bundle. It is a step function: add and
// the end of a write or a rest are its inputs, what next gives is to be written.
type bundler struct {
	queue   []*bundled
	bytes   int
	writing bool
	resting bool
}

// bundled is a sealed log on its way into a bundle.
type bundled struct {
	ref  Ref
	data []byte
	done chan struct{} // closed when ref is whole, or err says why not
	err  error
}

// next gives what to write now, or nothing.
func (b *bundler) next() (logs []*bundled) {
	if len(b.queue) == 0 || b.writing || b.resting && b.bytes < bundleBytes {
		return nil
	}
	size, n := 0, 0
	for n < len(b.queue) && size < bundleBytes {
		size += len(b.queue[n].data)
		n++
	}
	logs, b.queue = slices.Clone(b.queue[:n]), slices.Delete(b.queue, 0, n)
	b.bytes -= size
	b.writing, b.resting = true, true
	return logs
}

// share puts a sealed log into the next bundle of its tenant and class and waits until that is durable.
func (g *Gateway) share(ctx context.Context, l *live, class domain.Class, ref Ref, data []byte) (Ref, error) {
	it := &bundled{ref: ref, data: data, done: make(chan struct{})}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return Ref{}, retryable(ErrClosed)
	}
	of := bundleOf{l.tenant, class}
	b := g.bundles[of]
	if b == nil {
		b = &bundler{}
		g.bundles[of] = b
	}
	b.queue = append(b.queue, it)
	b.bytes += len(data)
	g.pumpBundles(of, b)
	g.mu.Unlock()
	if g.config.Host.Wait(ctx, host.For{News: it.done, Limit: host.Forever}) == host.Ended {
		return Ref{}, fmt.Errorf("seal log of %s: %w", l.attempt, ctx.Err())
	}
	return it.ref, it.err
}

// pumpBundles starts the write that the bundler wants. The caller holds mu.
func (g *Gateway) pumpBundles(of bundleOf, b *bundler) {
	logs := b.next()
	if logs == nil {
		return
	}
	g.config.Host.After(bundleRest, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		b.resting = false
		if !g.closed {
			g.pumpBundles(of, b)
		}
	})
	g.begin(func() { g.writeBundle(of, b, logs) })
}

// writeBundle writes a bundle, then answers everybody whose log is in it.
func (g *Gateway) writeBundle(of bundleOf, b *bundler, logs []*bundled) {
	stream := &gather{}
	sum, at := sha256.New(), int64(0)
	for _, it := range logs {
		it.ref.Offset = at
		at += int64(len(it.data))
		stream.pieces = append(stream.pieces, it.data)
		_, _ = sum.Write(it.data)
	}
	digest := domain.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil)))
	key := lotAt(of.tenant, of.class, g.config.Now()).bundleKey(digest)
	ctx, cancel := host.Within(g.ctx, g.config.Host, g.config.WriteTimeout)
	err := g.putBundle(ctx, key, stream, at)
	cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.counters.Bundles++
	}
	for _, it := range logs {
		it.ref.Object, it.err = key, err
		close(it.done)
	}
	b.writing = false
	if !g.closed {
		g.pumpBundles(of, b)
	}
}

func (g *Gateway) putBundle(ctx context.Context, key string, stream *gather, size int64) error {
	if !g.writes.Take(ctx) {
		return retryable(fmt.Errorf("write sealed logs: %w", ctx.Err()))
	}
	defer g.writes.Leave()
	err := g.store.Put(ctx, key, stream, size)
	if err == nil || errors.Is(err, blob.ErrExists) {
		return nil
	}
	return retryable(fmt.Errorf("write sealed logs: %w", err))
}

// dropBundles answers everybody whose log waits for a bundle that will not come: the logs are
// closed or given away, and whoever holds them next seals them. The caller holds mu.
func (g *Gateway) dropBundles() {
	for _, b := range g.bundles {
		for _, it := range b.queue {
			it.err = retryable(ErrClosed)
			close(it.done)
		}
		b.queue, b.bytes = nil, 0
	}
}

// recorded asks history for a log's reference.
func (g *Gateway) recorded(ctx context.Context, id logID) (*Ref, error) {
	if g.config.Recorded == nil {
		return nil, nil
	}
	ref, err := g.config.Recorded(ctx, id.tenant, id.attempt)
	if err != nil {
		return nil, retryable(fmt.Errorf("find the record of the log of %s: %w", id.attempt, err))
	}
	return ref, nil
}

// recent remembers the references of logs whose seal was recorded last.
type recent struct {
	refs  map[logID]Ref
	order []logID // a ring once it is full
	next  int
}

func (r *recent) find(id logID) (*Ref, bool) {
	ref, ok := r.refs[id]
	if !ok {
		return nil, false
	}
	return &ref, true
}

func (r *recent) add(id logID, ref Ref) {
	if _, known := r.refs[id]; known {
		return
	}
	if len(r.order) < recentMax {
		r.order = append(r.order, id)
	} else {
		delete(r.refs, r.order[r.next])
		r.order[r.next] = id
		r.next = (r.next + 1) % recentMax
	}
	r.refs[id] = ref
}
