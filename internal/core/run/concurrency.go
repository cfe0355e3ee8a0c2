package run

import (
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// A run or a job may be a member of a concurrency group. It asks for a place and is held until
// the group, a stream of its own, admits it; it gives the place back when it has concluded.
// What is said here of Job group.Whole is said of the run.

// Concurrency is a group that a run joins in each of its rounds, evaluated.
type Concurrency struct {
	Group  string `json:"group"`
	Cancel bool   `json:"cancel_in_progress,omitempty"` // ask whoever runs to stop
	Max    bool   `json:"max,omitempty"`                // all wait, and none is replaced
}

// JobConcurrency is the group that a job joins when its condition holds.
type JobConcurrency struct {
	Concurrency
	// Later: the texts are evaluated when the condition holds; only Max is known before.
	Later bool `json:"later,omitempty"`
}

// Place is where a run or a job is in its group, in one round.
type Place struct {
	Concurrency
	Round      int              `json:"round"`
	Generation uint64           `json:"generation,omitempty"` // 0: the group has not answered
	Ahead      []domain.RunID   `json:"ahead,omitempty"`      // when it joined
	Admitted   bool             `json:"admitted,omitempty"`
	By         *group.Successor `json:"by,omitempty"` // who replaced it, or wants it to stop
	Left       bool             `json:"left,omitempty"`
}

// What a group says of a member.
const (
	PlaceJoined     = "joined"
	PlaceAdmitted   = "admitted"
	PlaceSuperseded = "superseded" // while it waited
	PlaceYield      = "yield"      // while it runs
	PlaceRefused    = "refused"    // too many wait
)

// place is the place of this round of a job, or of the run; nil when it has none.
func (s *State) place(j int) *Place {
	p := s.Place
	if j != group.Whole {
		p = s.Jobs[j].Place
	}
	if p == nil || p.Round != s.Round() {
		return nil
	}
	return p
}

// PlaceOf is the place that a job, or with group.Whole the run, asked for in this round; nil when
// there is none. The result is for reading only.
func (s *State) PlaceOf(j int) *Place { return s.place(j) }

// blocked reports whether no job may begin yet, since the run waits for its group.
func (s *State) blocked() bool {
	p := s.place(group.Whole)
	return p != nil && !p.Admitted
}

// yieldsTo is the newer member of a group that wants the job to stop, or the call that it is of, or
// with group.Whole the run; nil when none does.
func (s *State) yieldsTo(j int) *group.Successor {
	for {
		if p := s.place(j); p != nil && p.By != nil {
			return p.By
		}
		if j == group.Whole {
			return nil
		}
		c, called := s.CallerOf(j)
		if !called {
			return nil
		}
		j = c
	}
}

// yielding reports whether a newer member of a group wants the job to stop, or with group.Whole the
// run.
func (s *State) yielding(j int) bool { return s.yieldsTo(j) != nil }

// around reports whether the group is held by the job's own run or by a call that it is of: there it
// would wait for itself.
func (s *State) around(j int, name string) bool {
	holds := func(j int) bool {
		p := s.place(j)
		return p != nil && group.Same(p.Group, name)
	}
	for c, called := s.CallerOf(j); called; c, called = s.CallerOf(c) {
		if holds(c) {
			return true
		}
	}
	return holds(group.Whole)
}

// evolvePlace keeps what a run knows of its groups.
func (s *State) evolvePlace(e Event) bool {
	j := e.JobIndex()
	if e, ok := e.(*GroupAsked); ok {
		p := &Place{Concurrency: e.Concurrency, Round: s.Round()}
		if j == group.Whole {
			s.Place = p
			s.block(e)
			return true
		}
		s.Jobs[j].Place = p
		s.holdForGroup(s.Jobs[j], e, p)
		return true
	}
	p := s.Place
	if j != group.Whole {
		p = s.Jobs[j].Place
	}
	switch e.(type) {
	case *GroupJoined, *GroupAdmitted, *GroupReplaced, *GroupLeft:
	default:
		return false
	}
	changed := *p
	switch e := e.(type) {
	case *GroupJoined:
		changed.Generation, changed.Ahead = e.Generation, e.Ahead
	case *GroupAdmitted:
		changed.Generation, changed.Admitted = e.Generation, true
	case *GroupReplaced:
		by := e.By
		changed.Generation, changed.By = e.Generation, &by
	case *GroupLeft:
		changed.Left = true
	}
	if j != group.Whole {
		s.Jobs[j].Place = &changed
		if _, joined := e.(*GroupJoined); joined {
			s.holdForGroup(s.Jobs[j], e, &changed)
		}
		return true
	}
	s.Place = &changed
	if e, ok := e.(*GroupReplaced); ok && changed.Admitted {
		s.Desired = domain.DesiredCancel
		s.Cancel = &Cancel{Actor: groupActor(changed.Group), Reason: replacedBy(e.By), At: e.At}
		s.Rounds[len(s.Rounds)-1].Cancel = s.Cancel
	}
	s.block(e)
	return true
}

func groupActor(name string) domain.Actor {
	return domain.Actor{Kind: "group", ID: clip(name, nameBytesMax), Via: "internal"}
}

func replacedBy(by group.Successor) string { return by.Text() + " replaces it" }

func (s *State) holdForGroup(job *Job, e Event, p *Place) {
	job.State, job.HeldUntil = StateHeld, time.Time{}
	s.because(job, e, waitsForGroup(p))
}

func waitsForGroup(p *Place) Reason {
	text := clip(p.Group, nameBytesMax)
	if len(p.Ahead) > 0 {
		var runs []string
		for _, r := range p.Ahead[:min(len(p.Ahead), aheadShown)] {
			runs = append(runs, string(r))
		}
		text += ", behind " + strings.Join(runs, ", ")
		if len(p.Ahead) > aheadShown {
			text += " and others"
		}
	}
	return Reason{Code: ReasonGroup, Message: text}
}

const aheadShown = 5

// block says of the jobs that could begin that the run waits, or that it does not any more.
func (s *State) block(e Event) {
	waits := s.blocked()
	for j, job := range s.Jobs {
		if job.State != StateWaiting || job.Evaluation != nil {
			continue
		}
		g, leg := s.GroupOf(j)
		switch {
		case leg && s.Jobs[g].State != StateExpanded, !leg && s.needs(j), !s.opened(j):
		case waits:
			s.because(job, e, waitsForGroup(s.Place))
		case leg && job.Reason.Code == ReasonGroup:
			s.because(job, e, Reason{Code: ReasonMaxParallel, Jobs: []int{g}})
		case job.Reason.Code == ReasonGroup:
			s.because(job, e, Reason{Code: ReasonNeedsUnfinished, Jobs: s.Skeleton(j).Needs})
		}
	}
}
