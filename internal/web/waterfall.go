package web

import (
	"fmt"
	"slices"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// waterfallView is time from left to right, one row per job, one lane per attempt.
// Every round starts at the left edge, so a rerun of yesterday's run stays readable
// and rounds can be compared.
type waterfallView struct {
	Ticks  []tickView
	Rows   []waterfallRow
	Legend []legendView
	Total  string
}

type tickView struct{ X, Text, Anchor string }

type legendView struct{ Kind, Word string }

type waterfallRow struct {
	Name, Href, Anchor string
	Status             status
	Lanes              []laneView
	Height             int
	Took               stretch
	Reason, EndsBy     string
	Label              string // the whole row in words, for who can't see it
}

type laneView struct {
	Y    int
	Old  bool
	Bars []barView
}

type barView struct {
	X, W  string
	Kind  string
	Tone  string // of the attempt's outcome
	Title string
	Live  bool
}

// segmentWords names the kinds of a stretch of time, in the order of the legend.
var segmentWords = []legendView{
	{"needs", "waiting for needs"}, {"held", "held"}, {"no_runner", "no runner"}, {"backoff", "retry back-off"},
	{"preparing", "preparing"}, {"running", "running, then in the colour of its outcome"},
	{"finishing", "finishing"}, {"uncertain", "uncertain"},
}

const (
	laneHeight = 12
	laneGap    = 3
	rowPadding = 8
	// barLeastPermille keeps the shortest stretch visible.
	barLeastPermille = 3
)

// placed is a segment with its lane and its place on the time axis.
type placed struct {
	segment  *fairleadv1.Segment
	from, to time.Duration
	lane     laneKey
	live     bool
}

type laneKey struct{ round, attempt int32 }

func waterfallOf(run *fairleadv1.Run, now time.Time) waterfallView {
	starts := roundStarts(run)
	var view waterfallView
	var longest time.Duration
	jobs := grouped(run.GetJobs())
	rows := make([][]placed, len(jobs))
	kinds := map[string]bool{}
	for i, job := range jobs {
		rows[i] = placeSegments(job, starts, now)
		for _, s := range rows[i] {
			longest = max(longest, s.to)
			kinds[s.segment.GetKind()] = true
		}
	}
	longest = max(longest, time.Second)
	for i, job := range jobs {
		view.Rows = append(view.Rows, waterfallRowOf(run, job, rows[i], longest, now))
	}
	for _, word := range segmentWords {
		if kinds[word.Kind] {
			view.Legend = append(view.Legend, word)
		}
	}
	view.Ticks, view.Total = ticksOf(longest), span(longest)
	return view
}

// roundStarts are the origins of the time axis, one per round.
func roundStarts(run *fairleadv1.Run) []time.Time {
	starts := []time.Time{parseMoment(run.GetSummary().GetCreated())}
	for _, round := range run.GetRounds() {
		if round.GetNumber() > 1 {
			starts = append(starts, parseMoment(round.GetOpened()))
		}
	}
	return starts
}

// placeSegments puts each segment into the lane of its attempt. A wait belongs to the
// attempt that it led to.
func placeSegments(job *fairleadv1.Job, starts []time.Time, now time.Time) []placed {
	var out []placed
	next := map[int]int32{} // round -> number of the attempt that follows
	for _, s := range slices.Backward(job.GetSegments()) {
		from, to := parseMoment(s.GetFrom()), parseMoment(s.GetTo())
		if from.IsZero() {
			continue
		}
		live := to.IsZero()
		if live {
			to = now
		}
		round := 0
		for i, start := range starts {
			if !from.Before(start) {
				round = i
			}
		}
		attempt := s.GetAttempt()
		if attempt == 0 {
			attempt = next[round]
		}
		next[round] = attempt
		origin := starts[round]
		out = append(out, placed{segment: s, from: max(0, from.Sub(origin)), to: max(0, to.Sub(origin)),
			lane: laneKey{int32(round + 1), attempt}, live: live})
	}
	slices.Reverse(out)
	return out
}

func waterfallRowOf(run *fairleadv1.Run, job *fairleadv1.Job, segments []placed, longest time.Duration,
	now time.Time) waterfallRow {
	row := waterfallRow{
		Name: orElse(job.GetName(), job.GetKey()), Href: "/runs/" + run.GetRun() + "/jobs/" + job.GetId(),
		Anchor: fmt.Sprintf("row-%d", job.GetIndex()), Status: statusOfJob(job), EndsBy: job.GetEndsBy(),
	}
	if row.Status.Key != "success" { // success needs no reason on the overview
		row.Reason = job.GetReason()
	}
	if last := latest(job); last != nil && (last.GetConcluded() != "" || last.GetOutcome() == "") {
		row.Took = stretchOf(last.GetStarted(), last.GetConcluded(), now)
	}
	lanes := map[laneKey]int{}
	for _, s := range segments {
		if _, known := lanes[s.lane]; !known {
			lanes[s.lane] = len(row.Lanes)
			row.Lanes = append(row.Lanes, laneView{Y: rowPadding/2 + len(row.Lanes)*(laneHeight+laneGap)})
		}
		lane := &row.Lanes[lanes[s.lane]]
		word := wordOfSegment(s.segment.GetKind())
		title := fmt.Sprintf("%s for %s", word, span(s.to-s.from))
		if s.segment.GetReason() != "" {
			title += ": " + s.segment.GetReason()
		}
		if row.Label != "" {
			row.Label += "; "
		}
		if s.lane.attempt > 0 {
			title = fmt.Sprintf("attempt %d, %s", s.lane.attempt, title)
		}
		row.Label += title
		lane.Bars = append(lane.Bars, barView{X: percent(s.from, longest, 0), Tone: toneOfAttempt(job, s.lane.attempt),
			W: percent(s.to-s.from, longest, barLeastPermille), Kind: classOfSegment(s.segment.GetKind()),
			Title: title, Live: s.live})
	}
	for i := range row.Lanes {
		row.Lanes[i].Old = i < len(row.Lanes)-1
	}
	row.Height = max(1, len(row.Lanes))*(laneHeight+laneGap) - laneGap + rowPadding
	row.Label = orElse(row.Label, "not started")
	return row
}

// toneOfAttempt colours work by what came of it.
func toneOfAttempt(job *fairleadv1.Job, number int32) string {
	for _, a := range job.GetAttempts() {
		if a.GetNumber() == number && a.GetOutcome() != "" {
			return statusOfAttempt(a).Tone
		}
	}
	return "live"
}

func wordOfSegment(kind string) string {
	for _, word := range segmentWords {
		if word.Kind == kind && kind != "running" {
			return word.Word
		}
	}
	return kind
}

// classOfSegment keeps what the server does not know out of the class attribute.
func classOfSegment(kind string) string {
	for _, word := range segmentWords {
		if word.Kind == kind {
			return "seg-" + kind
		}
	}
	return "seg-other"
}

func percent(part, whole time.Duration, leastPermille int) string {
	permille := float64(part) / float64(whole) * 1000
	return fmt.Sprintf("%.2f%%", max(permille, float64(leastPermille))/10)
}

// ticksOf marks round times on the axis: at most six, at least two.
func ticksOf(longest time.Duration) []tickView {
	step := time.Second
	for _, next := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
		30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 3 * time.Hour, 6 * time.Hour, 24 * time.Hour} {
		step = next
		if longest/step <= 5 {
			break
		}
	}
	if longest/step > 5 { // days and weeks
		step = (longest / 5).Round(24 * time.Hour)
	}
	var ticks []tickView
	for at := time.Duration(0); at <= longest; at += step {
		anchor := "middle"
		if at == 0 {
			anchor = "start"
		} else if longest-at < step/4 {
			anchor = "end"
		}
		ticks = append(ticks, tickView{percent(at, longest, 0), tickText(at), anchor})
	}
	return ticks
}

func tickText(at time.Duration) string {
	switch {
	case at < time.Minute:
		return fmt.Sprintf("%ds", at/time.Second)
	case at < time.Hour && at%time.Minute == 0:
		return fmt.Sprintf("%dm", at/time.Minute)
	}
	return span(at)
}
