package compare

import (
	"fmt"
	"strings"
)

// Kinds of lines.
const (
	Same = "same"
	Cut  = "cut" // its text says what was left out
)

// Line is one line of a comparison. Before and After are its numbers, 0 where it is not.
type Line struct {
	Kind          string
	Before, After int
	Text          string
}

// Lines compares two texts line by line: what changed, with some lines around it.
func Lines(before, after string) []Line {
	if before == after {
		return nil
	}
	a, b := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	s := &script{a: a, b: b}
	for i := range head {
		s.same(i, i)
	}
	s.middle(head, len(a)-tail, len(b)-tail)
	for i := range tail {
		s.same(len(a)-tail+i, len(b)-tail+i)
	}
	return s.shown()
}

// script is how one text becomes the other.
type script struct {
	a, b  []string
	lines []Line
}

func (s *script) same(i, j int) { s.lines = append(s.lines, Line{Same, i + 1, j + 1, clip(s.a[i])}) }

func (s *script) removed(i int) { s.lines = append(s.lines, Line{Removed, i + 1, 0, clip(s.a[i])}) }

func (s *script) added(j int) { s.lines = append(s.lines, Line{Added, 0, j + 1, clip(s.b[j])}) }

func clip(line string) string {
	line = strings.TrimSuffix(line, "\n")
	if len(line) > lineBytes {
		return strings.ToValidUTF8(line[:lineBytes], "") + "…"
	}
	return strings.ToValidUTF8(line, "\uFFFD")
}

// middle compares a[from:endA] with b[from:endB] by the shortest script (E. W. Myers, An O(ND)
// Difference Algorithm and Its Variations, 1986), as long as that is short.
func (s *script) middle(from, endA, endB int) {
	a, b := s.a[from:endA], s.b[from:endB]
	traces, ok := trace(a, b)
	if !ok {
		for i := range a {
			s.removed(from + i)
		}
		for j := range b {
			s.added(from + j)
		}
		return
	}
	var moves []Line // from the end, with places for texts
	x, y := len(a), len(b)
	for d := len(traces) - 1; d >= 0; d-- {
		v, k := traces[d], x-y
		down := k == -d || k != d && v.at(k-1) < v.at(k+1)
		before := k - 1
		if down {
			before = k + 1
		}
		px := v.at(before)
		py := px - before
		for x > max(px, 0) && y > max(py, 0) && (d == 0 || x > px && y > py) {
			x, y = x-1, y-1
			moves = append(moves, Line{Kind: Same, Before: x, After: y})
		}
		if d == 0 {
			break
		}
		if down {
			y--
			moves = append(moves, Line{Kind: Added, After: y})
		} else {
			x--
			moves = append(moves, Line{Kind: Removed, Before: x})
		}
	}
	for i := len(moves) - 1; i >= 0; i-- {
		switch m := moves[i]; m.Kind {
		case Same:
			s.same(from+m.Before, from+m.After)
		case Added:
			s.added(from + m.After)
		default:
			s.removed(from + m.Before)
		}
	}
}

// furthest is how far each diagonal came with one edit less: at(k) is that of diagonal k.
type furthest struct {
	reach []int
	d     int
}

func (f furthest) at(k int) int {
	if i := k + f.d; i >= 0 && i < len(f.reach) {
		return f.reach[i]
	}
	return -1
}

// trace gives, for each number of edits up to that which is needed, how far the diagonals had come
// before; ok is false when more are needed than the bound.
func trace(a, b []string) (out []furthest, ok bool) {
	n, m := len(a), len(b)
	limit := min(n+m, editsMax)
	last := furthest{reach: []int{0}, d: 0} // diagonal 0
	for d := 0; d <= limit; d++ {
		before := last
		out = append(out, before)
		next := furthest{reach: make([]int, 2*d+1), d: d}
		for k := -d; k <= d; k += 2 {
			var x int
			switch {
			case d == 0:
				x = 0
			case k == -d || k != d && before.at(k-1) < before.at(k+1):
				x = before.at(k + 1)
			default:
				x = before.at(k-1) + 1
			}
			y := x - k
			for x < n && y < m && y >= 0 && x >= 0 && a[x] == b[y] {
				x, y = x+1, y+1
			}
			next.reach[k+d] = x
			if x >= n && y >= m {
				return out, true
			}
		}
		last = next
	}
	return nil, false
}

// shown leaves out what is far from any change, and what is over the bound.
func (s *script) shown() []Line {
	near := make([]bool, len(s.lines))
	for i, l := range s.lines {
		if l.Kind == Same {
			continue
		}
		for j := max(i-contextLines, 0); j <= min(i+contextLines, len(s.lines)-1); j++ {
			near[j] = true
		}
	}
	var out []Line
	for i := 0; i < len(s.lines); {
		if near[i] && len(out) < linesMax {
			out = append(out, s.lines[i])
			i++
			continue
		}
		from := i
		for i < len(s.lines) && (!near[i] || len(out) >= linesMax) {
			i++
		}
		what := "equal lines"
		if len(out) >= linesMax {
			what = "further lines, which are not shown"
		}
		out = append(out, Line{Kind: Cut, Text: fmt.Sprintf("%d %s", i-from, what)})
	}
	return out
}
