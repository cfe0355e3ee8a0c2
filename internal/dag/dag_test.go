package dag_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairlead-ci/fairlead/internal/dag"
)

var size = dag.Size{Width: 100, Height: 20, GapX: 40, GapY: 10}

// A diamond has three layers, and its long edge bends around the middle one.
func TestLayoutOfADiamond(t *testing.T) {
	d := dag.Layout([][]int{nil, {0}, {0}, {1, 2, 0}}, size)
	if d.Nodes[0].X != 0 || d.Nodes[1].X != 140 || d.Nodes[2].X != 140 || d.Nodes[3].X != 280 {
		t.Fatalf("layers are wrong: %v", d.Nodes)
	}
	if d.Width != 380 {
		t.Fatalf("width is %d, want 380", d.Width)
	}
	for _, e := range d.Edges {
		if e.From == 0 && e.To == 3 && len(e.Points) != 4 {
			t.Fatalf("the long edge has no bend: %v", e.Points)
		}
	}
}

func TestLayoutOfNothing(t *testing.T) {
	if d := dag.Layout(nil, size); d.Width != 0 || d.Height != 0 {
		t.Fatalf("an empty graph takes %d x %d", d.Width, d.Height)
	}
}

// Whatever the graph, even with cycles and edges to nowhere: the layout ends, is the
// same each time, keeps nodes right of their needs and never lets two overlap.
func TestLayoutHoldsForEveryGraph(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(0, 24).Draw(r, "nodes")
		needs := make([][]int, n)
		for i := range needs {
			needs[i] = rapid.SliceOfN(rapid.IntRange(-1, n), 0, 4).Draw(r, "needs")
		}
		d := dag.Layout(needs, size)
		if diff := cmp.Diff(d, dag.Layout(needs, size)); diff != "" {
			r.Fatalf("two layouts of one graph differ: %s", diff)
		}
		for _, e := range d.Edges {
			if d.Nodes[e.From].X >= d.Nodes[e.To].X {
				r.Fatalf("node %d is not right of %d", e.To, e.From)
			}
		}
		for i := range d.Nodes {
			if d.Nodes[i].Y+size.Height > d.Height || d.Nodes[i].X+size.Width > d.Width {
				r.Fatalf("node %d is outside of the drawing", i)
			}
			for j := range i {
				if d.Nodes[i].X == d.Nodes[j].X && abs(d.Nodes[i].Y-d.Nodes[j].Y) < size.Height {
					r.Fatalf("nodes %d and %d overlap", i, j)
				}
			}
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
