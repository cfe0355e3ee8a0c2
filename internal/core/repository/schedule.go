package repository

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Bounds of schedules, and what happens at each: the command is rejected.
const (
	// SchedulesMax is how many schedules a repository has at most.
	SchedulesMax      = 1000
	pathBytesMax      = 1024
	cronBytesMax      = 1000
	zoneBytesMax      = 64
	messageBytesMax   = 1000
	occurrenceIDBytes = 32
)

// What an occurrence that was missed while nobody looked is worth.
const (
	CatchUpLatest = "latest" // the last one is started, however late; the default
	CatchUpAll    = "all"    // each is started
	CatchUpNone   = "none"   // none is started
)

// Outcomes of an occurrence.
const (
	OccurrenceStarted = "started" // Run is what it started
	OccurrenceMissed  = "missed"  // it was passed over, as the policy has it
	OccurrenceRefused = "refused" // it could not be started; Message says why
)

// Schedule is one entry of on.schedule, in a workflow of the default branch. Workflow, cron
// and zone together are what it is; they may move within the file.
type Schedule struct {
	Workflow string `json:"workflow"` // path of the file
	Cron     string `json:"cron"`
	Zone     string `json:"zone,omitempty"` // an IANA name; empty is UTC
	CatchUp  string `json:"catch_up"`
	// NextID and NextAt are the occurrence that is awaited, or due and not settled: its wall
	// time in the zone, and its time. Who has the rules of time zones works them out.
	NextID string    `json:"next_id"`
	NextAt time.Time `json:"next_at"`
	// Last is how the one before ended; nil before the first.
	Last *Settled `json:"last,omitempty"`
}

// Settled is how an occurrence ended.
type Settled struct {
	ID      string       `json:"id"`
	At      time.Time    `json:"at"` // when it was settled
	Outcome string       `json:"outcome"`
	Run     domain.RunID `json:"run,omitempty"`
	Message string       `json:"message,omitempty"`
	Missed  int          `json:"missed,omitempty"` // occurrences before it that were passed over with it
}

// Order sorts schedules by what they are.
func (one Schedule) Order(b Schedule) int {
	return cmp.Or(strings.Compare(one.Workflow, b.Workflow), strings.Compare(one.Cron, b.Cron),
		strings.Compare(one.Zone, b.Zone))
}

func (s *State) schedule(of Schedule) (int, bool) {
	return slices.BinarySearchFunc(s.Schedules, of, Schedule.Order)
}

// FormatSchedules is the event format that brought schedules.
const FormatSchedules = 4

// FormatComponents is the event format that brought policies about references.
const FormatComponents = 5

// Lower gives an event as readers of a format understand it. Of schedules they know nothing,
// so the command is refused until they are gone; nobody sends one before.
func Lower(e Event, format uint32) (Event, error) {
	switch e.(type) {
	case *SchedulesDefined, *OccurrenceSettled:
		if format < FormatSchedules {
			return nil, codec.ErrFormat
		}
	case *Withdrew, *Reinstated:
		return lowerWithdrawal(e, format)
	case *ComponentsSet:
		if format < FormatComponents {
			return nil, codec.ErrFormat
		}
	}
	return e, nil
}

func define(s *State, c DefineSchedules, now time.Time) (Decision, *domain.Rejection) {
	switch {
	case c.Commit != s.Tip("refs/heads/"+s.DefaultBranch):
		return Decision{}, nil
	case len(c.Schedules) > SchedulesMax:
		return Decision{}, &domain.Rejection{Code: domain.CodeTooLarge, Field: "schedules",
			Message: fmt.Sprintf("The repository has %d schedules; the limit is %d.", len(c.Schedules), SchedulesMax)}
	}
	merged := make([]Schedule, 0, len(c.Schedules))
	for i, one := range c.Schedules {
		if i > 0 && c.Schedules[i-1].Order(one) >= 0 {
			return refuse("schedules", "Schedules are sorted and named once; %q is not.", one.Cron)
		}
		one.Last = nil
		if at, ok := s.schedule(one); ok {
			was := s.Schedules[at]
			one.NextID, one.NextAt, one.Last = was.NextID, was.NextAt, was.Last
		}
		one.NextAt = domain.PlainTime(one.NextAt)
		if why := one.Wrong(); why != "" {
			return refuse("schedules", "A schedule %s.", why)
		}
		merged = append(merged, one)
	}
	same := func(a, b Schedule) bool { return a.Order(b) == 0 && a.CatchUp == b.CatchUp }
	if slices.EqualFunc(s.Schedules, merged, same) && c.Commit == s.SchedulesOf {
		return Decision{}, nil
	}
	return happened(&SchedulesDefined{Base{now}, c.Commit, merged})
}

// Wrong says what keeps a schedule from being one; empty when nothing does. One that is wrong
// would keep all others of its repository from being defined.
func (one Schedule) Wrong() string {
	switch {
	case !plain(one.Workflow, pathBytesMax), !plain(one.Cron, cronBytesMax),
		one.Zone != "" && !plain(one.Zone, zoneBytesMax):
		return "has a workflow, a text and a zone that can be printed, within bounds"
	case one.CatchUp != CatchUpLatest && one.CatchUp != CatchUpAll && one.CatchUp != CatchUpNone:
		return "catches up latest, all or none"
	}
	return wrongOccurrence(one.NextID, one.NextAt)
}

func wrongOccurrence(id string, at time.Time) string {
	if !plain(id, occurrenceIDBytes) || at.IsZero() {
		return "has an occurrence that comes next, with its time"
	}
	return ""
}

func settle(s *State, c SettleOccurrence, now time.Time) (Decision, *domain.Rejection) {
	at, ok := s.schedule(c.Schedule)
	if !ok || s.Schedules[at].NextID != c.Schedule.NextID {
		return Decision{}, nil
	}
	one, next := s.Schedules[at], domain.PlainTime(c.NextAt)
	switch {
	case now.Before(one.NextAt):
		return refuse("schedule", "The occurrence %s is not due yet.", one.NextID)
	case !next.After(one.NextAt) || c.NextID == one.NextID || wrongOccurrence(c.NextID, next) != "":
		return refuse("next_id", "%q does not come after the occurrence %s.", domain.Clip(c.NextID, nameBytesMax),
			one.NextID)
	case c.Settled.Missed < 0 || (c.Settled.ID == one.NextID) != (c.Settled.Missed == 0) ||
		c.Settled.ID == c.NextID || !plain(c.Settled.ID, occurrenceIDBytes):
		return refuse("id", "%q is neither the occurrence that is due nor one behind it that comes before the next.",
			domain.Clip(c.Settled.ID, nameBytesMax))
	case (c.Settled.Outcome == OccurrenceStarted) != (c.Settled.Run != ""):
		return refuse("outcome", "What was started has a run, and nothing else has.")
	case !slices.Contains([]string{OccurrenceStarted, OccurrenceMissed, OccurrenceRefused}, c.Settled.Outcome):
		return refuse("outcome", "An occurrence is started, missed or refused.")
	}
	return happened(&OccurrenceSettled{Base{now}, one.Workflow, one.Cron, one.Zone, c.Settled.ID, c.Settled.Outcome,
		c.Settled.Run, domain.Clip(c.Settled.Message, messageBytesMax), c.Settled.Missed, c.NextID, next})
}

func (s *State) settled(e *OccurrenceSettled) {
	if at, ok := s.schedule(Schedule{Workflow: e.Workflow, Cron: e.Cron, Zone: e.Zone}); ok {
		one := &s.Schedules[at]
		one.Last = &Settled{e.ID, e.At, e.Outcome, e.Run, e.Message, e.Missed}
		one.NextID, one.NextAt = e.NextID, e.NextAt
	}
}

func checkSchedules(s *State) error {
	for i, one := range s.Schedules {
		if why := one.Wrong(); why != "" || i > 0 && s.Schedules[i-1].Order(one) >= 0 {
			return fmt.Errorf("check repository %s: schedule %d of %s: %s", s.Repository, i, one.Workflow, why)
		}
	}
	return nil
}
