package web

import (
	"fmt"
	"strings"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/dag"
)

// graphView is the drawing of which job needs which. The table of jobs says the same in
// words.
type graphView struct {
	Width, Height int
	ViewBox       string
	Nodes         []nodeView
	Edges         []edgeView
}

type nodeView struct {
	X, Y, Width, Height int
	Name, Full, Href    string
	Status              status
}

type edgeView struct {
	Path string
	Tone string
}

var nodeSize = dag.Size{Width: 148, Height: 30, GapX: 40, GapY: 10}

const (
	graphMargin = 4
	// nodeRunesMax is what fits into a node; the full name is its title.
	nodeRunesMax = 17
)

// graphOf draws runs whose jobs depend on each other; one job, or none that needs
// another, is no graph worth looking at.
func graphOf(run *fairleadv1.Run) graphView {
	jobs := withoutLegs(run.GetJobs())
	places := map[string]int{}
	for i, job := range jobs {
		places[job.GetKey()] = i
	}
	needs := make([][]int, len(jobs))
	edges := 0
	for i, job := range jobs {
		for _, key := range job.GetNeeds() {
			if at, ok := places[key]; ok {
				needs[i] = append(needs[i], at)
				edges++
			}
		}
	}
	if edges == 0 {
		return graphView{}
	}
	drawing := dag.Layout(needs, nodeSize)
	view := graphView{Width: drawing.Width + 2*graphMargin, Height: drawing.Height + 2*graphMargin}
	view.ViewBox = fmt.Sprintf("%d %d %d %d", -graphMargin, -graphMargin, view.Width, view.Height)
	for _, e := range drawing.Edges {
		tone := "wait"
		if from := statusOfJob(jobs[e.From]); from.Tone == "ok" || from.Tone == "soft" || from.Tone == "bad" {
			tone = from.Tone
		}
		view.Edges = append(view.Edges, edgeView{Path: pathOf(e.Points), Tone: tone})
	}
	for i, job := range jobs {
		name := orElse(job.GetName(), job.GetKey())
		if n := len(job.GetLegs()); n > 0 {
			name = fmt.Sprintf("%s ×%d", shorten(name, nodeRunesMax-4), n)
		}
		view.Nodes = append(view.Nodes, nodeView{X: drawing.Nodes[i].X, Y: drawing.Nodes[i].Y,
			Width: nodeSize.Width, Height: nodeSize.Height, Name: shorten(name, nodeRunesMax), Full: name,
			Href: "#job-" + fmt.Sprint(job.GetIndex()), Status: statusOfJob(job)})
	}
	return view
}

// pathOf joins points by curves that leave and arrive level.
func pathOf(points []dag.Point) string {
	var b strings.Builder
	for i, at := range points {
		if i == 0 {
			fmt.Fprintf(&b, "M%d %d", at.X, at.Y)
			continue
		}
		last := points[i-1]
		if last.Y == at.Y {
			fmt.Fprintf(&b, "H%d", at.X)
			continue
		}
		middle := (last.X + at.X) / 2
		fmt.Fprintf(&b, "C%d %d %d %d %d %d", middle, last.Y, middle, at.Y, at.X, at.Y)
	}
	return b.String()
}

func shorten(text string, runesMax int) string {
	runes := []rune(text)
	if len(runes) <= runesMax {
		return text
	}
	return string(runes[:runesMax-1]) + "…"
}
