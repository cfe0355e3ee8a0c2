package fleet

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

func partitionNames(n int) (parts []domain.PartitionID) {
	for i := range n {
		parts = append(parts, domain.PartitionID(fmt.Sprintf("p%02d", i)))
	}
	return parts
}

// picture draws a fleet in one line: "a:p00,p01 b! c~" is a with two partitions, b dead, c
// draining.
func picture(text string) (p store.Picture) {
	for _, word := range strings.Fields(text) {
		name, held, _ := strings.Cut(word, ":")
		m := store.Member{Name: strings.TrimRight(name, "!~"), Live: !strings.Contains(name, "!"),
			Draining: strings.Contains(name, "~")}
		p.Members = append(p.Members, m)
		for _, part := range strings.FieldsFunc(held, func(r rune) bool { return r == ',' }) {
			p.Partitions = append(p.Partitions, store.Holding{Owner: m.Name,
				Ownership: store.Ownership{Partition: domain.PartitionID(part), Epoch: 1}})
		}
	}
	return p
}

func TestAssign(t *testing.T) {
	for _, c := range []struct{ fleet, want string }{
		{"", ""},
		{"a!", ""},
		{"a", "p00=a p01=a p02=a p03=a p04=a p05=a"},
		{"a b", "p00=a p01=b p02=a p03=b p04=a p05=b"},
		// Least moves: who joins gets its share, and nothing else moves.
		{"a:p00,p01,p02,p03,p04,p05 b", "p00=a p01=a p02=a p03=b p04=b p05=b"},
		{"a:p00,p02,p04 b:p01,p03,p05 c", "p00=a p01=b p02=a p03=b p04=c p05=c"},
		// A death moves only what the dead one had.
		{"a:p00,p01 b!:p02,p03 c:p04,p05", "p00=a p01=a p02=a p03=c p04=c p05=c"},
		// A drain is a death in good order.
		{"a:p00,p01 b~:p02,p03 c:p04,p05", "p00=a p01=a p02=a p03=c p04=c p05=c"},
		// The larger share stays with whoever has it.
		{"a:p00 b:p01,p02 c d:p03,p04,p05", "p00=a p01=b p02=b p03=d p04=d p05=c"},
		// When all drain, they keep working until somebody comes.
		{"a~:p00,p01,p02 b~:p03,p04,p05 c!", "p00=a p01=a p02=a p03=b p04=b p05=b"},
	} {
		var got []string
		for _, p := range partitionNames(6) {
			if name := Assign(picture(c.fleet), partitionNames(6))[p]; name != "" {
				got = append(got, string(p)+"="+name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.fleet, strings.Join(got, " "), c.want)
		}
	}
}

// Whatever the picture is: balanced, only candidates, the same whatever the order of what
// is listed, no move that balance does not ask for, and nothing moves once all is as asked.
// Promises: [FLEET-10].
func TestAssignKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := partitionNames(rapid.IntRange(1, 20).Draw(t, "partitions"))
		var p store.Picture
		for i := range rapid.IntRange(0, 6).Draw(t, "members") {
			p.Members = append(p.Members, store.Member{Name: fmt.Sprint("m", i), Live: rapid.Bool().Draw(t, "live"),
				Draining: rapid.Bool().Draw(t, "draining")})
		}
		for _, part := range parts {
			h := store.Holding{Ownership: store.Ownership{Partition: part, Epoch: 1}}
			if n := rapid.IntRange(-2, len(p.Members)).Draw(t, "owner"); n >= 0 {
				h.Owner = fmt.Sprint("m", n) // sometimes one that nobody knows
			}
			if rapid.IntRange(0, 9).Draw(t, "unknown") > 0 {
				p.Partitions = append(p.Partitions, h)
			}
		}
		got := Assign(p, parts)
		names := candidates(p)
		if len(names) == 0 {
			if len(got) > 0 {
				t.Fatalf("nobody lives, and owns %v", got)
			}
			return
		}
		if len(got) != len(parts) {
			t.Fatalf("%d of %d partitions have an owner", len(got), len(parts))
		}
		low, high := len(parts)/len(names), (len(parts)+len(names)-1)/len(names)
		load, held, kept := map[string]int{}, map[string]int{}, map[string]int{}
		for _, part := range parts {
			load[got[part]]++
			if h, _ := p.Holding(part); h.Owner != "" {
				held[h.Owner]++
				if got[part] == h.Owner {
					kept[h.Owner]++
				}
			}
		}
		for _, name := range names {
			if load[name] < low || load[name] > high {
				t.Fatalf("%s has %d of %d: between %d and %d", name, load[name], len(parts), low, high)
			}
			if kept[name] < min(held[name], load[name]) {
				t.Fatalf("%s gave up %d and got others: it had %d and has %d",
					name, held[name]-kept[name], held[name], load[name])
			}
		}
		for name := range load {
			if load[name] > 0 && !has(names, name) {
				t.Fatalf("%s is no candidate", name)
			}
		}
		shuffled := store.Picture{Members: rapid.Permutation(p.Members).Draw(t, "members' order"),
			Partitions: rapid.Permutation(p.Partitions).Draw(t, "partitions' order")}
		if !maps.Equal(got, Assign(shuffled, rapid.Permutation(parts).Draw(t, "order"))) {
			t.Fatal("the order of what is listed matters")
		}
		done := store.Picture{Members: p.Members}
		for _, part := range parts {
			h := store.Holding{Ownership: store.Ownership{Partition: part}, Owner: got[part]}
			done.Partitions = append(done.Partitions, h)
		}
		if !maps.Equal(got, Assign(done, parts)) {
			t.Fatal("it is as asked, and something moves again")
		}
	})
}

func has(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}
