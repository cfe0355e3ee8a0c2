package logs

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// Holder is the log gateway of a server that takes turns with others: open while this one
// holds the logs, and otherwise good for reading sealed logs only. Calls that need the logs
// while they are elsewhere answer ErrNotHeld, with domain.ErrRetry.
type Holder struct {
	store  blob.Store
	config Config
	reader *Gateway // reads sealed logs, whoever holds the others

	mu      sync.Mutex
	gateway *Gateway // nil while the logs are elsewhere
	tried   uint64   // the era that Hold tried to open last
	era     uint64   // of the last that was opened
	closing []chan struct{}
}

// NewHolder makes a holder that holds nothing. config's Era and Valid are given to Hold.
func NewHolder(store blob.Store, config Config) *Holder {
	reader := newGateway(context.Background(), store, config)
	reader.closed, reader.abandoned = true, true
	return &Holder{store: store, config: config, reader: reader}
}

// Hold opens the logs for this server: era is the epoch under which it owns what the logs go
// with, and valid says whether it may still speak for them (see Config.Valid).
// When ctx ends before, or a later era was opened meanwhile, nothing is held.
// Preconditions: the holder before has lost its right by now, on its own clock too.
func (h *Holder) Hold(ctx context.Context, era uint64, valid func() bool) error {
	config := h.config
	config.Era, config.Valid = era, valid
	h.mu.Lock()
	config.again = h.tried == era
	h.tried = era
	h.mu.Unlock()
	g, err := Open(ctx, h.store, config)
	if err != nil {
		return err
	}
	h.mu.Lock()
	late := ctx.Err() != nil || era < h.era
	before := g
	if !late {
		before, h.gateway, h.era = h.gateway, g, era
	}
	h.mu.Unlock()
	h.end(before)
	if late {
		return retryable(fmt.Errorf("hold logs in era %d: %w", era, ErrNotHeld))
	}
	return nil
}

// Drop lets go of the logs. Writes under way end in the background, unacknowledged.
func (h *Holder) Drop() {
	h.mu.Lock()
	g := h.gateway
	h.gateway = nil
	h.mu.Unlock()
	h.end(g)
}

func (h *Holder) end(g *Gateway) {
	if g == nil {
		return
	}
	g.Abandon()
	done := make(chan struct{})
	h.mu.Lock()
	h.closing = append(slices.DeleteFunc(h.closing, ended), done)
	h.mu.Unlock()
	host.Or(h.config.Host).Go(func() {
		defer close(done)
		_ = g.Close()
	})
}

// Close is Drop, and waits for writes that are under way.
func (h *Holder) Close() error {
	h.Drop()
	h.mu.Lock()
	closing := slices.Clone(h.closing)
	h.mu.Unlock()
	for _, done := range closing {
		host.Or(h.config.Host).Wait(context.Background(), host.For{News: done, Limit: host.Forever})
	}
	return h.reader.Close()
}

func ended(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Held reports whether the logs are open here.
func (h *Holder) Held() bool { return h.current() != nil }

func (h *Holder) current() *Gateway {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gateway
}

// held is the gateway, or why there is none.
func (h *Holder) held(verb string) (*Gateway, error) {
	if g := h.current(); g != nil {
		return g, nil
	}
	return nil, retryable(fmt.Errorf("%s: %w", verb, ErrNotHeld))
}

// Append is Gateway.Append where the logs are held.
func (h *Holder) Append(ctx context.Context, chunks []Chunk) ([]Ack, error) {
	g, err := h.held("append log chunks")
	if err != nil {
		return nil, err
	}
	return g.Append(ctx, chunks)
}

// Seal is Gateway.Seal where the logs are held.
func (h *Holder) Seal(
	ctx context.Context, tenant domain.TenantID, attempt domain.AttemptID, class domain.Class, end uint64,
) (Ref, error) {
	g, err := h.held("seal log")
	if err != nil {
		return Ref{}, err
	}
	return g.Seal(ctx, tenant, attempt, class, end)
}

// Through is Gateway.Through; 0 where the logs are not held.
func (h *Holder) Through(tenant domain.TenantID, attempt domain.AttemptID) uint64 {
	g := h.current()
	if g == nil {
		return 0
	}
	return g.Through(tenant, attempt)
}

// Recorded is Gateway.Recorded where the logs are held.
func (h *Holder) Recorded(tenant domain.TenantID, attempt domain.AttemptID, ref Ref) {
	if g := h.current(); g != nil {
		g.Recorded(tenant, attempt, ref)
	}
}

// Sealed is Gateway.Sealed where the logs are held.
func (h *Holder) Sealed(ctx context.Context, tenant domain.TenantID, attempt domain.AttemptID) (bool, error) {
	g, err := h.held("find sealed log")
	if err != nil {
		return false, err
	}
	return g.Sealed(ctx, tenant, attempt)
}

// Growing is Gateway.Growing; false where the logs are not held.
func (h *Holder) Growing(tenant domain.TenantID, attempt domain.AttemptID) (Totals, bool) {
	if g := h.current(); g != nil {
		return g.Growing(tenant, attempt)
	}
	return Totals{}, false
}

// Live is Gateway.Live; nothing where the logs are not held.
func (h *Holder) Live() []LiveLog {
	if g := h.current(); g != nil {
		return g.Live()
	}
	return nil
}

// Log is Gateway.Log. A log with a reference can be read anywhere; another one where the
// logs are held, and reading it ends with ErrNotHeld when they move.
func (h *Holder) Log(tenant domain.TenantID, attempt domain.AttemptID, ref *Ref) (*Log, error) {
	g, err := h.held("read log")
	switch {
	case err == nil:
		return g.Log(tenant, attempt, ref)
	case ref != nil:
		return h.reader.Log(tenant, attempt, ref)
	}
	return nil, err
}

// Counters are those of the gateway that is open; zero where none is.
func (h *Holder) Counters() Counters {
	g := h.current()
	if g == nil {
		return Counters{}
	}
	return g.Counters()
}
