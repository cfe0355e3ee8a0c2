// Package dag lays out a graph of jobs in layers from left to right: every job stands
// right of everything it needs, and the order in a layer keeps lines from crossing.
//
// It is deliberately only geometry: it knows no job, no colour and no markup, and it
// does not look for the best drawing, only for a calm one in bounded time.
//
// Invariants: the same graph always has the same layout (ties are broken by index); a
// node is right of all its predecessors; no two nodes overlap; a cycle or an edge to
// nowhere is ignored rather than followed, because the caller's data may be hostile.
//
// Read next: internal/web/graph.go
package dag

import (
	"cmp"
	"slices"
)

// Size is the space one node takes, and the space between nodes.
type Size struct {
	Width, Height int
	GapX, GapY    int
}

// Point is a place on the drawing.
type Point struct{ X, Y int }

// Edge is a line from one node to another through the gaps between the nodes of the
// layers it passes. Points begin at the right side of From and end at the left of To.
type Edge struct {
	From, To int
	Points   []Point
}

// Drawing is a finished layout. Nodes holds the upper left corner of each node.
type Drawing struct {
	Nodes         []Point
	Edges         []Edge
	Width, Height int
}

// sweeps is how often layers are sorted by their neighbours; more changes little.
const sweeps = 6

// vertex is a node, or a bend where a long edge passes a layer.
type vertex struct {
	layer     int
	order     int
	rank      float64 // mean place of its neighbours
	prev      []int
	next      []int
	bend      bool
	y         int
	lastOrder int
}

// Layout places nodes 0..len(needs)-1; needs[i] lists the nodes that i needs.
func Layout(needs [][]int, size Size) Drawing {
	layers := layering(needs)
	vertices := make([]vertex, len(needs))
	for i := range vertices {
		vertices[i].layer = layers[i]
	}
	type chain struct {
		from, to int
		bends    []int
	}
	var chains []chain
	for to, froms := range needs {
		seen := map[int]bool{}
		for _, from := range froms {
			if from < 0 || from >= len(needs) || layers[from] >= layers[to] || seen[from] {
				continue // nowhere, part of a cycle, or said twice
			}
			seen[from] = true
			c := chain{from: from, to: to}
			last := from
			for layer := layers[from] + 1; layer < layers[to]; layer++ {
				vertices = append(vertices, vertex{layer: layer, bend: true})
				bend := len(vertices) - 1
				link(vertices, last, bend)
				c.bends = append(c.bends, bend)
				last = bend
			}
			link(vertices, last, to)
			chains = append(chains, c)
		}
	}
	columns := order(vertices)
	height := place(vertices, columns, size)
	d := Drawing{Nodes: make([]Point, len(needs)), Height: height}
	if len(columns) > 0 {
		d.Width = len(columns)*(size.Width+size.GapX) - size.GapX
	}
	x := func(v int) int { return vertices[v].layer * (size.Width + size.GapX) }
	for i := range d.Nodes {
		d.Nodes[i] = Point{x(i), vertices[i].y}
	}
	for _, c := range chains {
		middle := size.Height / 2
		e := Edge{From: c.from, To: c.to, Points: []Point{{x(c.from) + size.Width, vertices[c.from].y + middle}}}
		for _, bend := range c.bends {
			e.Points = append(e.Points, Point{x(bend), vertices[bend].y + middle},
				Point{x(bend) + size.Width, vertices[bend].y + middle})
		}
		e.Points = append(e.Points, Point{x(c.to), vertices[c.to].y + middle})
		d.Edges = append(d.Edges, e)
	}
	return d
}

func link(vertices []vertex, from, to int) {
	vertices[from].next = append(vertices[from].next, to)
	vertices[to].prev = append(vertices[to].prev, from)
}

// layering gives each node the length of the longest path that leads to it. Nodes on a
// cycle stop counting where the cycle closes.
func layering(needs [][]int) []int {
	layers := make([]int, len(needs))
	state := make([]int8, len(needs)) // 0 new, 1 open, 2 done
	var visit func(int) int
	visit = func(i int) int {
		if state[i] != 0 {
			return layers[i] // done, or a cycle: the depth so far
		}
		state[i] = 1
		for _, need := range needs[i] {
			if need >= 0 && need < len(needs) && state[need] != 1 {
				layers[i] = max(layers[i], visit(need)+1)
			}
		}
		state[i] = 2
		return layers[i]
	}
	for i := range needs {
		visit(i)
	}
	return layers
}

// order sorts each column by the mean place of its neighbours, forth and back, and
// returns the columns from left to right.
func order(vertices []vertex) [][]int {
	var columns [][]int
	for i := range vertices {
		for len(columns) <= vertices[i].layer {
			columns = append(columns, nil)
		}
		vertices[i].order = len(columns[vertices[i].layer])
		columns[vertices[i].layer] = append(columns[vertices[i].layer], i)
	}
	for sweep := range sweeps {
		forth := sweep%2 == 0
		for n := range columns {
			column := columns[n]
			if !forth {
				column = columns[len(columns)-1-n]
			}
			for _, v := range column {
				near := vertices[v].next
				if forth {
					near = vertices[v].prev
				}
				vertices[v].rank, vertices[v].lastOrder = mean(vertices, near, vertices[v].order), vertices[v].order
			}
			slices.SortStableFunc(column, func(a, b int) int {
				return cmp.Or(cmp.Compare(vertices[a].rank, vertices[b].rank),
					cmp.Compare(vertices[a].lastOrder, vertices[b].lastOrder), cmp.Compare(a, b))
			})
			for at, v := range column {
				vertices[v].order = at
			}
		}
	}
	return columns
}

func mean(vertices []vertex, near []int, otherwise int) float64 {
	if len(near) == 0 {
		return float64(otherwise)
	}
	sum := 0
	for _, v := range near {
		sum += vertices[v].order
	}
	return float64(sum) / float64(len(near))
}

// place gives every vertex its height: as near to the middle of its predecessors as the
// order of its column allows. Bends take less room than nodes.
func place(vertices []vertex, columns [][]int, size Size) int {
	bottom := 0
	for _, column := range columns {
		wish := make([]int, len(column))
		for at, v := range column {
			if len(vertices[v].prev) == 0 {
				if at > 0 {
					wish[at] = wish[at-1] + size.Height + size.GapY
				}
				continue
			}
			sum := 0
			for _, p := range vertices[v].prev {
				sum += vertices[p].y
			}
			wish[at] = sum / len(vertices[v].prev)
		}
		low := 0
		for at, v := range column {
			y := max(wish[at], low)
			vertices[v].y = y
			low = y + size.Height + size.GapY
			if vertices[v].bend {
				low = y + size.Height/2 + size.GapY
			}
			bottom = max(bottom, y+size.Height)
		}
	}
	return bottom
}
