package placement

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

var rewrite = flag.Bool("rewrite", false, "write what happened into the files that say what should")

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// scene is a scenario's world: heads in a queue, runners in pools.
type scene struct {
	heads []Head
	pools []Pool
	holds map[Share]int
}

// TestScenarios runs the files of testdata: a world, a line of dashes, and who gets what.
// Each is placed twice, the second time with everything in reverse order.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := play(t, string(text))
		if got == string(text) {
			continue
		}
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Errorf("%s: want\n%s\ngot\n%s", file, text, got)
	}
}

func play(t *testing.T, text string) string {
	t.Helper()
	var out []string
	for _, block := range strings.Split(strings.TrimRight(text, "\n"), "\n\n") {
		if strings.HasPrefix(block, "#") {
			out = append(out, block)
			continue
		}
		world, _, _ := strings.Cut(block, "----")
		world = strings.TrimRight(world, "\n")
		s := parse(t, world)
		lines := s.place()
		reversed := s.reversed()
		if again := reversed.place(); !slices.Equal(lines, again) {
			t.Errorf("the order of arrival matters:\n%s\n%s", strings.Join(lines, "\n"), strings.Join(again, "\n"))
		}
		out = append(out, world+"\n----\n"+strings.Join(lines, "\n"))
	}
	return strings.Join(out, "\n\n") + "\n"
}

func parse(t *testing.T, text string) *scene {
	t.Helper()
	s := &scene{holds: map[Share]int{}}
	for _, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		named := map[string]string{}
		for _, f := range fields[2:] {
			name, value, _ := strings.Cut(f, "=")
			named[name] = value
		}
		switch fields[0] {
		case "pool":
			s.pools = append(s.pools, Pool{
				Pool: domain.PoolID(fields[1]), Tiers: tiers(named["tiers"]), Aliases: list(named["aliases"]),
				Reserve: number(named["reserve"], 0),
			})
		case "share":
			s.holds[Share{"t1", domain.RepositoryID(fields[1])}] = number(named["holds"], 0)
		case "runner":
			p := &s.pools[len(s.pools)-1]
			r := Runner{
				Runner: domain.RunnerID(fields[1]), Labels: list(named["labels"]), Slots: number(named["slots"], 1),
				Open: number(named["open"], number(named["slots"], 1)), Connected: named["away"] == "",
			}
			if !r.Connected {
				r.Open = 0
			}
			p.Runners = append(p.Runners, r)
		case "job":
			since := noon.Add(-time.Duration(number(named["waits"], 0)) * time.Second)
			class := domain.Class(named["class"])
			if class == "" {
				class = domain.ClassInteractive
			}
			tier := domain.Tier(named["tier"])
			if tier == "" {
				tier = domain.TierTrusted
			}
			s.heads = append(s.heads, Head{
				Partition: "p1", Tenant: "t1", Repository: domain.RepositoryID(named["repo"]), Run: "run",
				Job: domain.JobID(fields[1]), Class: class, Tier: tier,
				RunsOn: list(named["runs-on"]), Since: since, Count: number(named["count"], 1),
			})
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	return s
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func tiers(text string) []domain.Tier {
	if text == "" {
		return []domain.Tier{domain.TierTrusted}
	}
	var out []domain.Tier
	for _, t := range list(text) {
		out = append(out, domain.Tier(t))
	}
	return out
}

func number(text string, otherwise int) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return otherwise
}

func (s *scene) offers() []Offer {
	var out []Offer
	for _, p := range s.pools {
		for _, r := range p.Runners {
			for n := range r.Open {
				out = append(out, Offer{
					Runner: r.Runner, Pool: p.Pool, Labels: r.Labels, Tiers: p.Tiers, Aliases: p.Aliases,
					Slot: domain.SlotToken(fmt.Sprintf("%s/%d/1", r.Runner, n)),
				})
			}
		}
	}
	return out
}

func (s *scene) reversed() *scene {
	heads := slices.Clone(s.heads)
	slices.Reverse(heads)
	pools := slices.Clone(s.pools)
	slices.Reverse(pools)
	for i := range pools {
		pools[i].Runners = slices.Clone(pools[i].Runners)
		slices.Reverse(pools[i].Runners)
	}
	return &scene{heads, pools, s.holds}
}

func (s *scene) place() []string {
	var lines []string
	placed := map[domain.JobID]int{}
	holds := maps.Clone(s.holds)
	for _, a := range Place(Queues(s.heads), s.offers(), s.shares(), noon) {
		holds[a.Head.Share()]++
		line := fmt.Sprintf("%s -> %s", a.Head.Job, a.Offer.Slot)
		for _, alias := range a.Aliases {
			line += fmt.Sprintf(" (%s as %s)", alias.Label, alias.Pattern)
		}
		lines = append(lines, line)
		placed[a.Head.Job]++
	}
	// Explain is about what is there after placing: assigned slots are taken.
	after := s.after()
	var left []Head
	for _, h := range s.heads {
		if h.Count -= placed[h.Job]; h.Count > 0 {
			left = append(left, h)
		}
	}
	slices.SortFunc(left, func(a, b Head) int { return compare(&a, &b, holds[a.Share()], holds[b.Share()], noon) })
	for i := range left {
		r := Explain(left[i], rivals(left, i), holds, after)
		lines = append(lines, fmt.Sprintf("%s waits: %s %s", left[i].Job, r.Code, r.Sentence()))
	}
	return lines
}

// rivals are the others, each as a line of its own.
func rivals(heads []Head, of int) (out []Rival) {
	for i, h := range heads {
		n := max(h.Count, 1)
		switch {
		case i == of:
		case compare(&heads[i], &heads[of], 1, 1, noon) < 0 || h.Class != heads[of].Class && h.Since.Before(heads[of].Since):
			out = append(out, Rival{Head: h, Before: n})
		default:
			out = append(out, Rival{Head: h, After: n})
		}
	}
	return out
}

func (s *scene) shares() Shares {
	reserve := map[domain.PoolID]int{}
	for _, p := range s.pools {
		reserve[p.Pool] = p.Reserve
	}
	return Shares{Holds: s.holds, Reserve: reserve}
}

func (s *scene) after() []Pool {
	taken := map[domain.RunnerID]int{}
	for _, a := range Place(Queues(s.heads), s.offers(), s.shares(), noon) {
		taken[a.Offer.Runner]++
	}
	pools := slices.Clone(s.pools)
	for i := range pools {
		pools[i].Runners = slices.Clone(pools[i].Runners)
		for r := range pools[i].Runners {
			pools[i].Runners[r].Open -= taken[pools[i].Runners[r].Runner]
		}
	}
	return pools
}
