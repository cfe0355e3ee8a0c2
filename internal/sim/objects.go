package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/host"
)

var errObjectsAway = errors.New("the object store does not answer")

// objects is the object store as one incarnation of a server reaches it.
type objects struct {
	server  *server
	process *process
	reading bool // a stream is being read to its end: what it asks for comes at once
}

func (o *objects) world() *world { return o.server.world }

func (o *objects) travel(ctx context.Context, name string, apply func() error) error {
	w := o.world()
	if w.settingUp || o.reading || o.process.sched.current == nil {
		return apply()
	}
	there, back := w.way(), w.way()
	if w.chance(objectSlow) {
		there += between(w.stream("objects"), time.Second, 20*time.Second)
		w.line(o.server.label(), "!"+string(objectSlow), "%s %s", name, there)
	}
	if w.cut(o.server.name, "blob") {
		o.process.sleep(5 * time.Second)
		return fmt.Errorf("%s: %w", name, errObjectsAway)
	}
	if there < time.Second && w.stream("objects").Float64() < w.swarm.inline {
		return apply()
	}
	var err error
	done := make(chan struct{})
	w.sched.after(there, nil, func() {
		err = apply()
		w.sched.after(back, o.process, func() { close(done) })
	})
	if o.process.Wait(ctx, host.For{News: done, Limit: host.Forever}) == host.Ended {
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	return err
}

// fails says whether a read, a list or a delete fails.
func (o *objects) fails(name, key string) error {
	w := o.world()
	if w.settingUp || o.reading || !w.chance(objectFails) {
		return nil
	}
	w.line(o.server.label(), "!"+string(objectFails), "%s %s", name, key)
	return fmt.Errorf("%s %s: %w", name, key, errObjectsAway)
}

// Put implements blob.Store. A stream is read first: it may be made from other objects as
// it is read.
func (o *objects) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	w := o.world()
	o.reading = true
	content, err := io.ReadAll(r)
	o.reading = false
	if err != nil {
		return fmt.Errorf("put object %s: %w", key, err)
	}
	put := func() error {
		err := w.objects.Put(context.Background(), key, bytes.NewReader(content), size)
		w.line("blob", "=put", "%s %d bytes by %s: %v", key, len(content), o.server.name, err)
		return err
	}
	if w.settingUp {
		return put()
	}
	if w.chance(putDies) {
		if w.stream("objects").IntN(2) == 0 {
			_ = put()
		}
		o.server.crash(putDies)
	}
	switch {
	case w.chance(putFull):
		w.full(&w.objectsFullUntil, "blob")
	case w.chance(putFails):
		w.line(o.server.label(), "!"+string(putFails), "%s", key)
		o.process.sleep(w.way())
		return fmt.Errorf("put object %s: %w", key, errObjectsAway)
	case w.chance(putLate):
		late := between(w.stream("objects"), time.Millisecond, 40*time.Second)
		w.line(o.server.label(), "!"+string(putLate), "%s by %s", key, late)
		w.sched.after(late, nil, func() { _ = put() })
		o.process.sleep(w.way())
		return fmt.Errorf("put object %s: %w", key, errObjectsAway)
	}
	if w.sched.now < w.objectsFullUntil {
		return fmt.Errorf("put object %s: %w", key, blob.ErrFull)
	}
	if err := o.travel(ctx, "put", put); err != nil {
		return err
	}
	if w.chance(putUnknown) {
		w.line(o.server.label(), "!"+string(putUnknown), "%s", key)
		return fmt.Errorf("put object %s: %w", key, errObjectsAway)
	}
	return nil
}

// Open implements blob.Store.
func (o *objects) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := o.fails("open", key); err != nil {
		return nil, err
	}
	var r io.ReadCloser
	err := o.travel(ctx, "open", func() (err error) {
		r, err = o.world().objects.Open(context.Background(), key, offset, length)
		return err
	})
	return r, err
}

// Size implements blob.Store.
func (o *objects) Size(ctx context.Context, key string) (int64, error) {
	if err := o.fails("size", key); err != nil {
		return 0, err
	}
	var n int64
	err := o.travel(ctx, "size", func() (err error) {
		n, err = o.world().objects.Size(context.Background(), key)
		return err
	})
	return n, err
}

// List implements blob.Store.
func (o *objects) List(ctx context.Context, prefix, after string, limit int) ([]blob.Entry, error) {
	if err := o.fails("list", prefix); err != nil {
		return nil, err
	}
	var entries []blob.Entry
	err := o.travel(ctx, "list", func() (err error) {
		entries, err = o.world().objects.List(context.Background(), prefix, after, limit)
		return err
	})
	return entries, err
}

// Delete implements blob.Store.
func (o *objects) Delete(ctx context.Context, key string) error {
	if err := o.fails("delete", key); err != nil {
		return err
	}
	return o.travel(ctx, "delete", func() error {
		err := o.world().objects.Delete(context.Background(), key)
		o.world().line("blob", "-delete", "%s by %s: %v", key, o.server.name, err)
		return err
	})
}

var _ blob.Store = (*objects)(nil)
