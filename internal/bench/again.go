package bench

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect/v2"

	"github.com/fairlead-ci/fairlead/api/client"
)

// Patience with a server that can't do something now, as a runner has it.
const (
	againFor   = 2 * time.Minute
	againFirst = 100 * time.Millisecond
	againMost  = 5 * time.Second
)

// retries counts calls that were made again, by what they were refused with.
type retries struct {
	mu  sync.Mutex
	why map[string]int
}

// again makes a call until it is not refused with something that passes. What else goes wrong is the
// measurement's end; so is a refusal that lasts.
func (r *retries) again(ctx context.Context, call func() error) error {
	begun := time.Now()
	for rest := againFirst; ; rest = min(2*rest, againMost) {
		err := call()
		if err == nil || ctx.Err() != nil || !passes(err) || time.Since(begun) > againFor {
			return err
		}
		r.note(err)
		pause(ctx, max(client.RetryAfter(err), rest/2+rand.N(rest)))
	}
}

// passes reports whether a runner would ask again.
func passes(err error) bool {
	return client.Retryable(err) || connect.CodeOf(err) == connect.CodeUnavailable
}

func (r *retries) note(err error) {
	code := connect.CodeOf(err).String()
	if refusal := client.Refusal(err); refusal != nil {
		code = refusal.GetCode()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why == nil {
		r.why = map[string]int{}
	}
	r.why[code]++
}

// count is how many there were, and of what.
func (r *retries) count() (sum int, of string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(r.why)) {
		sum += r.why[code]
		parts = append(parts, fmt.Sprintf("%s %d", code, r.why[code]))
	}
	return sum, strings.Join(parts, ", ")
}

// Pace of what prepares a measurement.
const (
	paceSlow = 100 * time.Millisecond // an answer that took longer says that the machine is behind
	paceLow  = 5 * time.Millisecond
	paceHigh = 500 * time.Millisecond
)

// pace rests between calls that prepare a measurement, so that a machine that is behind can do what
// must not be late, such as renewing leases. It doubles the rest at a slow answer, once for all calls
// that were under way together, and shortens it a little at each quick one.
type pace struct {
	mu     sync.Mutex
	rest   time.Duration
	raised time.Time // when it was made longer last
	most   time.Duration
}

// next is how long to rest before the next call.
func (p *pace) next() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rest
}

// answered takes in how long a call took, and whether it was refused on its way.
func (p *pace) answered(begun, now time.Time, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !refused && now.Sub(begun) <= paceSlow:
		if p.rest -= p.rest / 16; p.rest < time.Millisecond {
			p.rest = 0
		}
	case begun.After(p.raised):
		p.rest, p.raised = min(max(2*p.rest, paceLow), paceHigh), now
		p.most = max(p.most, p.rest)
	}
}
