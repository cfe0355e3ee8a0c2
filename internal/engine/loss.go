package engine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// actorHolder is the kind of actor that a server names when it passes on a token which is
// not held: its ID says in words who was told.
const actorHolder = "holder"

type holderKey struct{}

// holderMax bounds the words, in bytes.
const holderMax = 120

// HeldBy says who presents a token, as "Runner build-1": the reason for which a partition
// stops names whoever holds the highest position that is missing.
func HeldBy(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, holderKey{}, domain.Clip(who, holderMax))
}

func holderOf(ctx context.Context) string {
	if who, ok := ctx.Value(holderKey{}).(string); ok && who != "" {
		return who
	}
	return "Somebody"
}

// self is this server as a holder of what its store once showed.
func (e *Engine) self() string {
	if e.cfg.Owner == "" {
		return "This server"
	}
	return "Server " + e.cfg.Owner
}

// historyLost is the refusal; held is the end of what is stored now, which is beyond the
// token where other history was written in the place of what is lost.
func historyLost(who string, token domain.Token, held store.Position) *domain.Rejection {
	holds := fmt.Sprintf("this server holds %d", held)
	if token.Position <= uint64(held) {
		holds = "this server holds other history there, up to " + strconv.FormatUint(uint64(held), 10)
	}
	return domain.Reject(domain.CodeHistoryLost, fmt.Sprintf(
		"%s holds an acknowledgement of position %d of partition %s, and %s: "+
			"acknowledged history is missing. The partition is stopped. To go on without it: "+
			"fairlead admin accept-loss %s --position %d",
		who, token.Position, token.Partition, holds, token.Partition, token.Position))
}

// vouchedBy reports whether a token that was compared with the store answers for another
// one. Within an epoch there is one owner and one history. A token of an earlier epoch may
// be of a history that was lost since, and is looked up.
func vouchedBy(token, verified domain.Token) bool {
	return token.Epoch == verified.Epoch && token.Position <= verified.Position
}

// vouching is the token to keep of two that the store holds. The store compares position and
// digest, and whoever presents a token names its epoch: one that no owner had yet, above epoch,
// must not answer for what that owner will give out.
func vouching(old, token domain.Token, epoch uint64) domain.Token {
	if token.Epoch > epoch {
		return old
	}
	if token.Epoch > old.Epoch || token.Epoch == old.Epoch && token.Position > old.Position {
		return token
	}
	return old
}

// epoch is that of the partition's owner as this server knows it; 0: it knows of none.
func (s *seat) epoch() uint64 {
	if h := s.holding.Load(); h != nil {
		return h.Epoch
	}
	return 0
}

// quarantined tells people that a stream can't be read, and how to learn more.
func quarantined(err error) *domain.Rejection {
	return domain.Reject(domain.CodeStreamQuarantined, fmt.Sprintf(
		"What is stored of this can't be read: %v. Everything else goes on; fairlead admin verify tells more.", err))
}

// lossPoll is how often a partition that was stopped asks whether it may go on: a person
// waits for it.
const lossPoll = time.Second

// watchLosses lets partitions go on that were stopped for lost history, or fenced by the
// record of a loss, once somebody has accepted it.
func (e *Engine) watchLosses() {
	for host.Pause(e.run, e.cfg.Host, lossPoll) {
		for _, p := range e.order {
			d := e.driver(p)
			if d == nil {
				continue
			}
			status := d.snapshot()
			if status.Stopped == nil {
				continue
			}
			losses, err := e.cfg.Store.Losses(e.run, p)
			if err != nil {
				continue // asked again soon
			}
			for i := range losses {
				if losses[i].Kind == store.LossAccepted && losses[i].Epoch > status.Epoch {
					e.afterLoss(e.run, e.seats[p], d, &losses[i])
					break
				}
			}
		}
	}
}

// afterLoss ends an owner of before the loss and begins anew with what there is.
func (e *Engine) afterLoss(ctx context.Context, s *seat, d *driver, loss *store.Loss) {
	if !s.turn.Take(ctx) {
		return
	}
	same := s.driver.Load() == d
	if same {
		e.retire(s, d)
		s.mu.Lock()
		s.seen, s.verified, s.claimed = domain.Token{}, domain.Token{}, nil
		s.mu.Unlock()
		if e.fleet() {
			e.follow(s) // whoever drives the fleet takes it again
		}
	}
	s.turn.Leave()
	if !same {
		return
	}
	e.cfg.Log.Warn("partition goes on after a loss that was accepted", "partition", s.partition,
		"through", loss.Through, "held", loss.Held, "by", loss.Actor, "note", loss.Note)
	if e.fleet() {
		return
	}
	err := e.seize(ctx, s, func() (store.Ownership, error) {
		return e.cfg.Store.Acquire(ctx, s.partition, e.cfg.Owner)
	})
	if err != nil && ctx.Err() == nil {
		e.cfg.Log.Error("partition could not be taken again; start the server anew", "partition", s.partition, "error", err)
	}
}
