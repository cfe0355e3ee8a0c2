package placement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Pool is what Explain knows of a pool, its busy and absent runners included.
type Pool struct {
	Pool    domain.PoolID
	Tiers   []domain.Tier
	Aliases []string
	Runners []Runner
}

// Runner is a registered runner of a pool, or several that have the same labels and are connected
// or not alike.
type Runner struct {
	Runner    domain.RunnerID // empty where it is several
	Labels    []string        // of the runner and of its pool
	Slots     int             // their capacity
	Open      int             // slots that are offered now
	Connected bool            // heard lately
	Count     int             // how many; less than one counts as one
}

// ReasonCode is a stable name of why a head is not placed.
type ReasonCode string

// Reasons, the ones that need a person first.
const (
	ReasonNoRunner  ReasonCode = "no_runner"         // no runner is registered at all
	ReasonNoLabel   ReasonCode = "no_label"          // no runner has Label
	ReasonNoSuchSet ReasonCode = "no_label_set"      // every label exists, but no runner has all of them
	ReasonTier      ReasonCode = "tier_not_accepted" // the pools that fit don't accept Tier
	ReasonAway      ReasonCode = "runners_away"      // the runners that fit are not connected
	ReasonBusy      ReasonCode = "slots_busy"        // they are, and all their slots are taken
	ReasonPlaceable ReasonCode = "placeable"         // nothing is in its way
)

// Reason says why a head is not placed, and what would change it.
type Reason struct {
	Code    ReasonCode
	Label   string          // ReasonNoLabel
	Pools   []domain.PoolID // that fit by their labels
	Tier    domain.Tier
	Runners int // that fit
	Slots   int // of those that are connected
	Ahead   int // jobs that rank higher and compete for the same slots
	Aliases []Alias
}

// Sentence says the reason in words.
func (r Reason) Sentence() string {
	switch r.Code {
	case ReasonNoRunner:
		return "No runner is registered."
	case ReasonNoLabel:
		return fmt.Sprintf("No runner has the label %q, and no pool answers it by an alias.", r.Label)
	case ReasonNoSuchSet:
		return "Each of its labels is offered, but no single runner has all of them."
	case ReasonTier:
		return fmt.Sprintf("Pool %s has the labels but does not accept %s work.", joinPools(r.Pools), r.Tier)
	case ReasonAway:
		return fmt.Sprintf("Pool %s has %s that fits, but none is connected.", joinPools(r.Pools),
			count(r.Runners, "runner"))
	case ReasonBusy:
		return fmt.Sprintf("Pool %s has %s that fits, all busy; %s ahead of it.",
			joinPools(r.Pools), count(r.Slots, "slot"), count(r.Ahead, "job"))
	}
	return fmt.Sprintf("A slot of pool %s is open; %s ahead of it.", joinPools(r.Pools), count(r.Ahead, "job"))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func joinPools(pools []domain.PoolID) string {
	var names []string
	for _, p := range pools {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// fit is a runner that has the head's labels.
type fit struct {
	pool   *Pool
	runner *Runner
}

// Explain says why a head is not placed. queue holds all heads that wait, head itself
// included or not.
func Explain(head Head, queue []Head, pools []Pool, now time.Time) Reason {
	fits, aliases, missing := fitting(head.RunsOn, pools)
	r := Reason{Code: ReasonNoRunner, Tier: head.Tier, Aliases: aliases}
	if len(fits) == 0 {
		switch {
		case missing == nil:
		case missing[0] == "":
			r.Code = ReasonNoSuchSet
		default:
			r.Code, r.Label = ReasonNoLabel, missing[0]
		}
		return r
	}
	accepted := slices.DeleteFunc(slices.Clone(fits),
		func(f fit) bool { return !slices.Contains(f.pool.Tiers, head.Tier) })
	if len(accepted) == 0 {
		r.Code, r.Pools, r.Runners = ReasonTier, poolsOf(fits), runnersOf(fits)
		return r
	}
	r.Pools, r.Runners = poolsOf(accepted), runnersOf(accepted)
	open, connected := 0, 0
	for _, f := range accepted {
		if f.runner.Connected {
			connected++
			r.Slots += f.runner.Slots
			open += f.runner.Open
		}
	}
	r.Ahead = ahead(head, queue, accepted, now)
	switch {
	case connected == 0:
		r.Code = ReasonAway
	case open > r.Ahead:
		r.Code = ReasonPlaceable
	default:
		r.Code = ReasonBusy
	}
	return r
}

// fitting finds the runners that have all labels. When there are none, missing has one
// entry: the label that nobody has, or "" when each is there but not together; it is nil
// when there are no runners at all.
func fitting(runsOn []string, pools []Pool) (fits []fit, aliases []Alias, missing []string) {
	unseen := slices.Clone(runsOn)
	registered := false
	for p := range pools {
		for i := range pools[p].Runners {
			registered = true
			runner := &pools[p].Runners[i]
			has := normal(append(slices.Clone(runner.Labels), string(pools[p].Pool)))
			by, lacks := answer(runsOn, has, pools[p].Aliases)
			if lacks == "" {
				if len(fits) == 0 || len(by) < len(aliases) {
					aliases = by
				}
				fits = append(fits, fit{&pools[p], runner})
			}
			unseen = slices.DeleteFunc(unseen, func(label string) bool {
				_, lacks := answer([]string{label}, has, pools[p].Aliases)
				return lacks == ""
			})
		}
	}
	switch {
	case len(fits) > 0 || !registered:
		return fits, aliases, nil
	case len(unseen) > 0:
		return nil, nil, unseen[:1]
	}
	return nil, nil, []string{""}
}

func runnersOf(fits []fit) (n int) {
	for _, f := range fits {
		n += max(f.runner.Count, 1)
	}
	return n
}

func poolsOf(fits []fit) []domain.PoolID {
	var out []domain.PoolID
	for _, f := range fits {
		out = append(out, f.pool.Pool)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ahead counts the jobs that rank before head and could take a slot that head could take.
func ahead(head Head, queue []Head, fits []fit, now time.Time) int {
	n := 0
	for i := range queue {
		other := &queue[i]
		if other.Job == head.Job || compare(other, &head, now) > 0 {
			continue
		}
		competes := slices.ContainsFunc(fits, func(f fit) bool {
			has := normal(append(slices.Clone(f.runner.Labels), string(f.pool.Pool)))
			_, lacks := answer(other.RunsOn, has, f.pool.Aliases)
			return lacks == "" && slices.Contains(f.pool.Tiers, other.Tier)
		})
		if competes {
			n += max(other.Count, 1)
		}
	}
	return n
}
