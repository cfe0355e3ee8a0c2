package mutation

import (
	"context"
	"strings"
	"testing"
)

// quickWorlds bounds the share of the suite that runs with the tests. Its mutations are found
// within a few worlds; make sim-mutations runs all of them to their ends.
const quickWorlds = 30

// The lines of the table that are marked quick are broken for real, one by one, and found.
func TestQuickShareIsCaught(t *testing.T) {
	root, err := Root(".")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	var share []Mutation
	for _, m := range all {
		if m.Quick {
			m.Worlds = min(m.Worlds, quickWorlds)
			share = append(share, m)
		}
	}
	var progress strings.Builder
	r, err := Run(context.Background(), Options{Root: root, Mutations: share, Jobs: 2, Progress: &progress})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", progress.String())
	for _, p := range r.Problems {
		t.Error(p)
	}
	if r.Caught() != len(share) {
		t.Errorf("%d of %d caught", r.Caught(), len(share))
	}
}
