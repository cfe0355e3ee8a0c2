package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Pool is what Explain knows of a pool, its busy and absent runners included.
type Pool struct {
	Pool    domain.PoolID
	Tiers   []domain.Tier
	Aliases []string
	Runners []Runner
	Reserve int // slots kept from jobs of the class batch
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
	ReasonReserved  ReasonCode = "slots_reserved"    // what is open is kept for more urgent classes
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
	Ahead   int // jobs that go before it and compete for the same slots
	Others  int // of these, jobs of other repositories
	Reserve int // slots kept for more urgent classes
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
		return fmt.Sprintf("Pool %s has %s that fits, all busy; %s.", joinPools(r.Pools), count(r.Slots, "slot"), r.ahead())
	case ReasonReserved:
		return fmt.Sprintf("Pool %s keeps %s open for work that is more urgent than batch; %s.",
			joinPools(r.Pools), count(r.Reserve, "slot"), r.ahead())
	}
	return fmt.Sprintf("A slot of pool %s is open; %s.", joinPools(r.Pools), r.ahead())
}

func (r Reason) ahead() string {
	text := count(r.Ahead, "job") + " ahead of it"
	if r.Others > 0 {
		text += fmt.Sprintf(", %d of other repositories", r.Others)
	}
	return text
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

// Rival is what Explain knows of a line of waiting jobs that ask for the same and are of one
// share and class.
type Rival struct {
	Head       // of any of them
	Before int // how many of them became ready before the job that is explained
	After  int // how many after it
}

// Explain says why a head is not placed. rivals are the lines that wait, its own included; it
// is in none of their counts itself.
func Explain(head Head, rivals []Rival, holds map[Share]int, pools []Pool) Reason {
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
	open, spare, connected := 0, 0, 0
	for _, f := range accepted {
		if f.runner.Connected {
			connected++
			r.Slots += f.runner.Slots
			open += f.runner.Open
		}
	}
	spare = open
	if head.Class == domain.ClassBatch {
		for _, p := range poolsOf(accepted) {
			spare -= reserveOf(p, pools)
		}
		r.Reserve = open - spare
	}
	r.Ahead, r.Others = ahead(&head, rivals, holds, accepted)
	switch {
	case connected == 0:
		r.Code = ReasonAway
	case open > 0 && spare <= 0:
		r.Code = ReasonReserved
	case spare > r.Ahead:
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

func reserveOf(id domain.PoolID, pools []Pool) int {
	for i := range pools {
		if pools[i].Pool == id {
			return pools[i].Reserve
		}
	}
	return 0
}

// ahead counts the jobs that go before head and could take a slot that head could take, and those
// among them that are of other repositories. Slots go round, so that of a long line of another
// share only as many go before it as its own share has slots by then.
func ahead(head *Head, rivals []Rival, holds map[Share]int, slots []fit) (all, others int) {
	mine := head.Share()
	turn := holds[mine] // slots of its own share when its turn comes
	var rest []*Rival
	known := map[string]bool{} // by what is asked for
	for i := range rivals {
		r := &rivals[i]
		wish := r.wish()
		fits, ok := known[wish]
		if !ok {
			fits = competes(r, slots)
			known[wish] = fits
		}
		if !fits {
			continue
		}
		switch own := r.Share() == mine; {
		case own && r.Class.Rank() > head.Class.Rank():
			all += r.Before + r.After
		case own && r.Class == head.Class:
			all += r.Before
		case !own:
			rest = append(rest, r)
		}
	}
	turn += all
	byShare := map[Share]*turns{}
	for _, r := range rest {
		t := byShare[r.Share()]
		if t == nil {
			t = &turns{holds: holds[r.Share()]}
			byShare[r.Share()] = t
		}
		t.add(r, head)
	}
	for _, t := range byShare { // tidy:unordered a sum
		others += t.before(head, turn)
	}
	return all + others, others
}

// turns is what another share has that waits.
type turns struct {
	holds           int
	rollback        int // goes before everything
	higher          int // of a higher class, rollbacks included
	same, sameOlder int // of the same class, and those that became ready earlier
	lower           int
}

func (t *turns) add(r *Rival, head *Head) {
	n := r.Before + r.After
	switch d := r.Class.Rank() - head.Class.Rank(); {
	case d > 0:
		t.higher += n
		if r.Class == domain.ClassRollback {
			t.rollback += n
		}
	case d == 0:
		t.same, t.sameOlder = t.same+n, t.sameOlder+r.Before
	default:
		t.lower += n
	}
}

// before is how many of them go before a job of another share that has so many slots when the
// job's turn comes.
func (t *turns) before(head *Head, turn int) int {
	if head.Class == domain.ClassRollback { // among rollbacks, as among any class
		return t.among(turn)
	}
	switch {
	case turn == 0 && t.holds > 0:
		return t.rollback
	case turn == 0 && t.higher+t.sameOlder > 0:
		return max(t.rollback, 1) // the first of another share that has nothing either
	case turn == 0:
		return 0
	}
	n := t.higher + t.among(turn-t.higher)
	if n == 0 && t.holds == 0 && t.lower > 0 {
		return 1 // its first, whatever its class
	}
	return n
}

// among is how many of the same class go before one whose share has turn slots.
func (t *turns) among(turn int) int {
	n := turn - t.holds // those that get a slot while their share has fewer
	if t.sameOlder > max(n, 0) && n >= 0 {
		n++ // with as many, the older goes first
	}
	return min(max(n, 0), t.same)
}

func competes(r *Rival, fits []fit) bool {
	return slices.ContainsFunc(fits, func(f fit) bool {
		has := normal(append(slices.Clone(f.runner.Labels), string(f.pool.Pool)))
		_, lacks := answer(r.RunsOn, has, f.pool.Aliases)
		return lacks == "" && slices.Contains(f.pool.Tiers, r.Tier)
	})
}
