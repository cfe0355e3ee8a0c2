package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// WireVersion is the form of Wire and WireAck. A server refuses a higher one.
const WireVersion uint32 = 1

// forwardTimeout bounds the wait for the owner elsewhere. Afterwards the outcome is not
// known, as after a lost connection.
const forwardTimeout = 15 * time.Second

// catchUpTimeout bounds how long the answer to a forwarded command waits until this server
// has seen what it led to. It is there to let who asked read its own write, not for truth.
const catchUpTimeout = 2 * time.Second

// ErrUnsent: a command did not leave this server, so nothing happened.
var ErrUnsent = errors.New("command was not sent")

// Wire is an Envelope on its way to another server: the command is in the encoding of its
// stream's kind. A Wire without a command presents a token, and is answered with a
// rejection when the owner does not hold it, or it tells of a claim.
type Wire struct {
	Version   uint32             `json:"version"`
	Partition domain.PartitionID `json:"partition"`
	Tenant    domain.TenantID    `json:"tenant,omitempty"`
	Stream    domain.StreamID    `json:"stream,omitempty"`
	Command   []byte             `json:"command,omitempty"`
	Cause     domain.Cause       `json:"cause,omitzero"`
	Key       *Key               `json:"key,omitempty"`
	Counter   string             `json:"counter,omitempty"`
	Term      Term               `json:"term,omitzero"`
	Before    time.Time          `json:"before,omitzero"`
	Present   domain.Token       `json:"present,omitzero"`
	Claim     *Claim             `json:"claim,omitempty"`
}

// WireAck is the answer. Exactly one is meant: Rejected, and nothing happened; or the rest,
// and it is committed.
type WireAck struct {
	Rejected *domain.Rejection `json:"rejected,omitempty"`
	Token    domain.Token      `json:"token,omitzero"`
	Stream   domain.StreamID   `json:"stream,omitempty"`
	Stamp    uint64            `json:"stamp,omitempty"` // Ack.Version
	Reply    []byte            `json:"reply,omitempty"` // in the encoding of the stream's kind
	Repeat   bool              `json:"repeat,omitempty"`
	Stored   []byte            `json:"stored,omitempty"`
	Refusal  *domain.Rejection `json:"refusal,omitempty"`
}

// forward sends a command to the owner elsewhere. It is forwarded once: an owner that is
// none any more refuses it.
func (e *Engine) forward(ctx context.Context, s *seat, env Envelope, answer func(Ack, error)) error {
	h := s.holding.Load()
	if h == nil || h.Owner == "" || h.Owner == e.cfg.Owner {
		return notOwner()
	}
	kind := e.kinds[env.Stream.Kind()]
	if kind == nil || kind.EncodeCommand == nil || kind.DecodeReply == nil {
		return fmt.Errorf("forward %T to %s: commands of this kind of stream have no wire form", env.Command, env.Stream)
	}
	lowered := env.Command
	if kind.LowerCommand != nil {
		var err error
		if lowered, err = kind.LowerCommand(lowered, e.format.Load()); err != nil {
			return unfinished(err.Error() + ".")
		}
	}
	command, err := kind.EncodeCommand(lowered)
	if err != nil {
		return fmt.Errorf("encode %T for %s: %w", env.Command, env.Stream, err)
	}
	w := Wire{Version: WireVersion, Partition: env.Partition, Tenant: env.Tenant, Stream: env.Stream,
		Command: command, Cause: env.Cause, Key: env.Key, Counter: env.Counter, Term: env.Term,
		Before: env.Before}
	e.cfg.Host.Go(func() { answer(e.exchange(ctx, s, *h, w)) })
	return nil
}

// exchange sends one command and waits for its answer, and then until this server has seen
// what it led to.
func (e *Engine) exchange(ctx context.Context, s *seat, h store.Holding, w Wire) (Ack, error) {
	ctx, cancel := host.Within(ctx, e.cfg.Host, forwardTimeout)
	defer cancel()
	got, err := e.cfg.Forward(ctx, h, w)
	switch {
	case errors.Is(err, ErrUnsent):
		return Ack{}, notOwner()
	case err != nil:
		return Ack{}, fmt.Errorf("forward to owner %s of %s: outcome not known: %w: %w",
			h.Owner, w.Partition, domain.ErrRetry, err)
	case got.Rejected != nil:
		return Ack{}, got.Rejected
	}
	reply, err := e.kinds[w.Stream.Kind()].DecodeReply(got.Reply)
	if err != nil {
		return Ack{}, fmt.Errorf("read reply of %s from %s: it is committed: %w", w.Stream, h.Owner, err)
	}
	return Ack{Shown: e.seen(ctx, s, got.Token), Token: got.Token, Stream: got.Stream, Version: got.Stamp, Reply: reply,
		Repeat: got.Repeat,
		Stored: got.Stored, Refusal: got.Refusal}, nil
}

// seen waits until observers here were shown the partition up to the token, and reports whether
// they were.
func (e *Engine) seen(ctx context.Context, s *seat, token domain.Token) bool {
	c := s.chase.Load()
	return c != nil && c.await(ctx, store.Position(token.Position))
}

// Receive takes a command that another server forwarded. It is decided here or refused
// with not_owner, never forwarded again. An error says that the outcome is not known.
//
// Trust: the caller is a member of the fleet and was authenticated as one.
func (e *Engine) Receive(ctx context.Context, w Wire) (WireAck, error) {
	ack, kind, err := e.receive(ctx, w)
	if r, ok := domain.AsRejection(err); ok {
		return WireAck{Rejected: r}, nil
	}
	if err != nil {
		return WireAck{}, err
	}
	out := WireAck{Token: ack.Token, Stream: ack.Stream, Stamp: ack.Version, Repeat: ack.Repeat, Stored: ack.Stored,
		Refusal: ack.Refusal}
	if kind != nil {
		if out.Reply, err = kind.EncodeReply(ack.Reply); err != nil {
			return WireAck{}, fmt.Errorf("encode reply %T of %s: %w", ack.Reply, w.Stream, err)
		}
	}
	return out, nil
}

func (e *Engine) receive(ctx context.Context, w Wire) (Ack, *Kind, error) {
	if w.Version > WireVersion {
		return Ack{}, nil, unfinished(fmt.Sprintf("The server that owns the partition reads forwarded commands up to "+
			"version %d, and this one has version %d.", WireVersion, w.Version))
	}
	d := e.driver(w.Partition)
	if d == nil || e.yielded.Load() {
		return Ack{}, nil, notOwner()
	}
	if len(w.Command) == 0 {
		if w.Claim != nil {
			e.seats[w.Partition].claim(w.Claim)
			return Ack{}, nil, nil
		}
		if w.Cause.Actor.Kind == actorHolder {
			ctx = HeldBy(ctx, w.Cause.Actor.ID)
		}
		return Ack{}, nil, d.present(ctx, w.Present)
	}
	kind := e.kinds[w.Stream.Kind()]
	if kind == nil || kind.DecodeCommand == nil || kind.EncodeReply == nil {
		return Ack{}, nil, unfinished("The server that owns the partition does not know this kind of stream.")
	}
	command, err := kind.DecodeCommand(w.Command)
	if err != nil {
		e.cfg.Log.Warn("forwarded command is not understood", "stream", w.Stream, "error", err)
		return Ack{}, nil, unfinished("The server that owns the partition does not understand the command.")
	}
	var ack Ack
	var failed error
	answered := make(chan struct{})
	env := Envelope{Tenant: w.Tenant, Partition: w.Partition, Stream: w.Stream, Command: command, Cause: w.Cause,
		Key: w.Key, Counter: w.Counter, Term: w.Term, Before: w.Before}
	err = d.send(ctx, inSubmit{&item{env: env, gone: ctx.Err, answer: func(got Ack, err error) {
		ack, failed = got, err
		close(answered)
	}}})
	if err != nil {
		return Ack{}, nil, err
	}
	if e.cfg.Host.Wait(ctx, host.For{News: answered, Limit: host.Forever}) == host.Ended {
		return Ack{}, nil, fmt.Errorf("submit %T to %s: outcome not known yet: %w", command, w.Stream, ctx.Err())
	}
	return ack, kind, failed
}

func unfinished(why string) *domain.Rejection {
	return domain.Reject(domain.CodeUpgradeUnfinished,
		why+" Servers of two versions run together; try again when the upgrade is finished.")
}
