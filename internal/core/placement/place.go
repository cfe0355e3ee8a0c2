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
	Run       domain.RunID
	Job       domain.JobID // the first of them
	Class     domain.Class
	Tier      domain.Tier
	RunsOn    []string  // labels that one runner must have, all of them; none: any runner
	Since     time.Time // when Job became ready
	Count     int       // how many jobs; less than one counts as one
}

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

// Place assigns open slots to waiting jobs, most urgent first. Heads that find no slot are
// left out; Explain says why. now bounds ages, so that a partition whose clock runs ahead
// gains nothing.
func Place(heads []Head, offers []Offer, now time.Time) []Assignment {
	f := newFleet(offers)
	var out []Assignment
	for _, i := range order(heads, now) {
		for nth := range max(heads[i].Count, 1) {
			o, aliases, ok := f.take(&heads[i])
			if !ok {
				break
			}
			out = append(out, Assignment{Head: heads[i], Nth: nth, Offer: offers[o], Aliases: aliases})
		}
	}
	return out
}

// fleet is the open slots, grouped by what a job can tell apart.
type fleet struct {
	groups  []*group
	byLabel map[string][]int // groups whose runners have the label
	aliased []int            // groups whose pools answer by patterns
	options map[string]*options
}

// group is the open slots of a pool whose runners have the same labels.
type group struct {
	pool    domain.PoolID
	labels  []string // lower case, sorted
	tiers   []domain.Tier
	aliases []string
	open    []int // offers, best first
}

// options are the groups that can serve a requirement, best first. Groups only get
// emptier, so those that are used up are dropped for good.
type options struct{ list []option }

type option struct {
	group   int
	aliases []Alias
}

func newFleet(offers []Offer) *fleet {
	f := &fleet{byLabel: map[string][]int{}, options: map[string]*options{}}
	index := map[string]int{}
	for _, i := range spread(offers) {
		o := &offers[i]
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
	for len(opts.list) > 0 {
		first := opts.list[0]
		if g := f.groups[first.group]; len(g.open) > 0 {
			offer, g.open = g.open[0], g.open[1:]
			return offer, first.aliases, true
		}
		opts.list = opts.list[1:]
	}
	return 0, nil, false
}

// optionsFor finds the groups for a requirement, once. Runners that have every label go
// before those that answer by a pattern, and runners with little else to offer before
// those that others may need.
func (f *fleet) optionsFor(h *Head) *options {
	key := string(h.Tier) + "\x00" + strings.Join(h.RunsOn, "\x01")
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
