package placement

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Head is the front of a partition's queue: jobs that ask for the same.
type Head struct {
	Partition domain.PartitionID
	Tenant    domain.TenantID
	// Repository is whose share of the slots the jobs count against.
	Repository domain.RepositoryID
	Run        domain.RunID
	Job        domain.JobID // the first of them
	Class      domain.Class
	Tier       domain.Tier
	RunsOn     []string  // labels that one runner must have, all of them; none: any runner
	Since      time.Time // when Job became ready
	Count      int       // how many jobs; less than one counts as one
}

// wish is what the jobs ask of a runner, as a key.
func (h *Head) wish() string { return string(h.Tier) + "\x00" + strings.Join(h.RunsOn, "\x01") }

// Offer is an open slot of a runner.
type Offer struct {
	Runner  domain.RunnerID
	Pool    domain.PoolID
	Labels  []string      // of the runner and of its pool
	Tiers   []domain.Tier // that the pool accepts
	Slot    domain.SlotToken
	Aliases []string // patterns of further labels that the pool answers, such as "linux-*"
}

// Alias says that a pool answered a label by one of its patterns, which is weaker than
// having the label: people are told.
type Alias struct {
	Label   string
	Pattern string
}

// Assignment gives a slot to a job of a head.
type Assignment struct {
	Head    Head
	Nth     int // which of the head's jobs, from 0
	Offer   Offer
	Aliases []Alias // labels that were answered by a pattern, in the head's order
}

// AliasText is the labels of Aliases, as a lease carries them; empty when there are none.
func (a Assignment) AliasText() string {
	var labels []string
	for _, alias := range a.Aliases {
		labels = append(labels, alias.Label)
	}
	return strings.Join(labels, ",")
}

// Shares is what Place must know of slots beside the open ones.
type Shares struct {
	Holds map[Share]int // slots that each has now
	// Reserve is how many slots of a pool are kept from jobs of the class batch.
	Reserve map[domain.PoolID]int
}

// Place assigns open slots to waiting jobs, in the order that compare gives. Heads that find no
// slot are left out; Explain says why. now bounds ages, so that a partition whose clock runs
// ahead gains nothing.
//
// It costs what there are queues, open slots and jobs that get one: how many jobs wait behind
// the first of a queue does not matter.
func Place(queues []Queue, offers []Offer, s Shares, now time.Time) []Assignment {
	f := newFleet(offers, s.Reserve)
	r := rank(queues, s.Holds, now)
	var out []Assignment
	for len(out) < f.slots {
		h := r.first()
		if h == nil {
			break
		}
		o, aliases, ok := f.take(&h.Head)
		if !ok {
			r.drop()
			continue
		}
		out = append(out, Assignment{Head: h.Head, Nth: h.nth, Offer: offers[o], Aliases: aliases})
		r.placed()
	}
	return out
}

// fleet is the open slots, grouped by what a job can tell apart.
type fleet struct {
	groups  []*group
	byLabel map[string][]int // groups whose runners have the label
	aliased []int            // groups whose pools answer by patterns
	options map[string]*options
	slots   int                   // that were offered
	spare   map[domain.PoolID]int // open slots that batch may have
}

// group is the open slots of a pool whose runners have the same labels.
type group struct {
	pool    domain.PoolID
	labels  []string // lower case, sorted
	tiers   []domain.Tier
	aliases []string
	open    []int // offers, best first
}

// options are the groups that can serve a requirement, best first.
type options struct{ list []option }

type option struct {
	group   int
	aliases []Alias
}

func newFleet(offers []Offer, reserve map[domain.PoolID]int) *fleet {
	f := &fleet{byLabel: map[string][]int{}, options: map[string]*options{}, spare: map[domain.PoolID]int{}}
	for pool, n := range reserve { // tidy:unordered each is set by itself
		f.spare[pool] = -n
	}
	index := map[string]int{}
	for _, i := range spread(offers) {
		o := &offers[i]
		f.slots++
		f.spare[o.Pool]++
		labels := normal(append(slices.Clone(o.Labels), string(o.Pool)))
		key := strings.Join([]string{
			string(o.Pool), strings.Join(labels, "\x01"), joinTiers(o.Tiers), strings.Join(o.Aliases, "\x01"),
		}, "\x00")
		g, ok := index[key]
		if !ok {
			g = len(f.groups)
			index[key] = g
			f.groups = append(f.groups, &group{pool: o.Pool, labels: labels, tiers: o.Tiers, aliases: o.Aliases})
			for _, label := range labels {
				f.byLabel[label] = append(f.byLabel[label], g)
			}
			if len(o.Aliases) > 0 {
				f.aliased = append(f.aliased, g)
			}
		}
		f.groups[g].open = append(f.groups[g].open, i)
	}
	return f
}

// spread orders offers so that taking them one by one always takes from the runner with
// the most slots left, ties by identifier: load spreads, and the order of arrival is
// forgotten.
func spread(offers []Offer) []int {
	byID := make([]int, len(offers))
	for i := range byID {
		byID[i] = i
	}
	slices.SortFunc(byID, func(a, b int) int {
		return cmp.Or(cmp.Compare(offers[a].Runner, offers[b].Runner), cmp.Compare(offers[a].Slot, offers[b].Slot))
	})
	byID = slices.CompactFunc(byID, func(a, b int) bool { return offers[a].Slot == offers[b].Slot }) // offered twice
	left := make([]int, len(offers))
	for i := len(byID) - 1; i >= 0; i-- {
		left[byID[i]] = 1
		if i+1 < len(byID) && offers[byID[i]].Runner == offers[byID[i+1]].Runner {
			left[byID[i]] = left[byID[i+1]] + 1
		}
	}
	slices.SortStableFunc(byID, func(a, b int) int { return cmp.Compare(left[b], left[a]) })
	return byID
}

func (f *fleet) take(h *Head) (offer int, aliases []Alias, ok bool) {
	opts := f.optionsFor(h)
	for len(opts.list) > 0 && len(f.groups[opts.list[0].group].open) == 0 {
		opts.list = opts.list[1:] // groups only get emptier
	}
	for i := range opts.list {
		o := &opts.list[i]
		g := f.groups[o.group]
		if len(g.open) == 0 || h.Class == domain.ClassBatch && f.spare[g.pool] <= 0 {
			continue // kept for those that are more urgent
		}
		offer, g.open = g.open[0], g.open[1:]
		f.spare[g.pool]--
		return offer, o.aliases, true
	}
	return 0, nil, false
}

// optionsFor finds the groups for a requirement, once. Runners that have every label go
// before those that answer by a pattern, and runners with little else to offer before
// those that others may need.
func (f *fleet) optionsFor(h *Head) *options {
	key := h.wish()
	if opts, ok := f.options[key]; ok {
		return opts
	}
	opts := &options{}
	for _, g := range f.candidates(h.RunsOn) {
		group := f.groups[g]
		aliases, missing := answer(h.RunsOn, group.labels, group.aliases)
		if missing == "" && slices.Contains(group.tiers, h.Tier) {
			opts.list = append(opts.list, option{g, aliases})
		}
	}
	slices.SortFunc(opts.list, func(a, b option) int {
		x, y := f.groups[a.group], f.groups[b.group]
		return cmp.Or(
			cmp.Compare(len(a.aliases), len(b.aliases)), cmp.Compare(len(x.labels), len(y.labels)),
			cmp.Compare(len(x.tiers), len(y.tiers)), cmp.Compare(x.pool, y.pool), slices.Compare(x.labels, y.labels),
			slices.Compare(x.aliases, y.aliases), slices.Compare(x.tiers, y.tiers), cmp.Compare(a.group, b.group),
		)
	})
	f.options[key] = opts
	return opts
}

// candidates narrows the groups down by the rarest label; patterns are looked at besides.
func (f *fleet) candidates(runsOn []string) []int {
	if len(runsOn) == 0 {
		all := make([]int, len(f.groups))
		for i := range all {
			all[i] = i
		}
		return all
	}
	rarest := f.byLabel[strings.ToLower(runsOn[0])]
	for _, label := range runsOn[1:] {
		if with := f.byLabel[strings.ToLower(label)]; len(with) < len(rarest) {
			rarest = with
		}
	}
	all := slices.Concat(rarest, f.aliased)
	slices.Sort(all)
	return slices.Compact(all)
}

// answer matches wanted labels against those that a runner has (lower case, sorted) and
// the patterns of its pool. missing is the first label that neither yields.
func answer(wanted, has, patterns []string) (aliases []Alias, missing string) {
	for _, label := range wanted {
		if _, ok := slices.BinarySearch(has, strings.ToLower(label)); ok {
			continue
		}
		i := slices.IndexFunc(patterns, func(pattern string) bool { return matches(pattern, label) })
		if i < 0 {
			return nil, label
		}
		aliases = append(aliases, Alias{Label: label, Pattern: patterns[i]})
	}
	return aliases, ""
}

// matches compares a label with a pattern in which * stands for any text. Case does not
// count in labels.
func matches(pattern, label string) bool {
	pattern, label = strings.ToLower(pattern), strings.ToLower(label)
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == label
	}
	rest, ok := strings.CutPrefix(label, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}

func normal(labels []string) []string {
	for i := range labels {
		labels[i] = strings.ToLower(labels[i])
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

func joinTiers(tiers []domain.Tier) string {
	var out []string
	for _, t := range tiers {
		out = append(out, string(t))
	}
	return strings.Join(out, "\x01")
}
