package cron

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// Occurrence is one time that a schedule is due.
type Occurrence struct {
	At time.Time // in UTC
	// ID is the wall time in the schedule's zone, "2026-03-29T02:30". It stays the same when
	// rules of the zone change between planning and running. The second pass of an hour that
	// clocks repeat has a + at its end, so the order of ids is not that of occurrences.
	ID string
}

const (
	// horizonDays is how far to look: the 29th of February may be eight years away.
	horizonDays = 9 * 366
	// reach is more than any zone is away from UTC.
	reach = 15 * time.Hour
)

// Next is the first occurrence after a time. ok is false when there is none within nine years.
//
// When clocks go forward, what is due in the hour that is left out is due once, as the clocks
// have moved. When they go back, what is due in the hour that is repeated is due the first
// time only. A spec of every hour follows the clock instead: nothing is due in an hour that
// does not exist, and all of it again in one that is repeated.
func (s Spec) Next(after time.Time, zone *time.Location) (next Occurrence, ok bool) {
	local := after.In(zone)
	// A day early: clocks that go back at midnight repeat the evening before.
	day := time.Date(local.Year(), local.Month(), local.Day()-1, 0, 0, 0, 0, time.UTC)
	for range horizonDays {
		if s.onDay(day) {
			if o, ok := s.ofDay(day, after, zone); ok {
				return o, true
			}
		}
		day = day.AddDate(0, 0, 1)
	}
	return Occurrence{}, false
}

func (s Spec) onDay(day time.Time) bool {
	if s.months>>int(day.Month())&1 == 0 {
		return false
	}
	inMonth, inWeek := s.days>>day.Day()&1 == 1, s.weekdays>>int(day.Weekday())&1 == 1
	if s.anyDay || s.anyWeekday {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// ofDay is the first occurrence after a time among those of a day of the calendar.
func (s Spec) ofDay(day, after time.Time, zone *time.Location) (Occurrence, bool) {
	early := day.Add(-reach).In(zone)
	_, offset := early.Zone()
	_, until := early.ZoneBounds()
	even := until.IsZero() || until.After(day.Add(24*time.Hour+reach)) // no clock is set on that day
	var all []Occurrence
	for wall := range s.walls(day) {
		if !even {
			all = s.at(all, wall, zone)
		} else if at := inOffset(wall, offset); at.After(after) {
			return Occurrence{at, idOf(wall)}, true
		}
	}
	slices.SortStableFunc(all, func(a, b Occurrence) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	for _, o := range all {
		if o.At.After(after) {
			return o, true
		}
	}
	return Occurrence{}, false
}

// walls goes through the times of a day that a clock shows, in order.
func (s Spec) walls(day time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for hour := range 24 {
			if s.hours>>hour&1 == 0 {
				continue
			}
			for minute := range 60 {
				wall := day.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
				if s.minutes>>minute&1 == 1 && !yield(wall) {
					return
				}
			}
		}
	}
}

func idOf(wall time.Time) string { return wall.Format("2006-01-02T15:04") }

// at appends what is due at one wall time, which is given as if it were in UTC.
func (s Spec) at(out []Occurrence, wall time.Time, zone *time.Location) []Occurrence {
	early, late := wall.Add(-reach).In(zone), wall.Add(reach).In(zone)
	_, before := early.Zone()
	_, behind := late.Zone()
	id := idOf(wall)
	first, second := inOffset(wall, before), inOffset(wall, behind)
	if before == behind {
		return append(out, Occurrence{first, id})
	}
	exists, again := shows(first, wall, zone), shows(second, wall, zone)
	switch {
	case exists && again && s.everyHour():
		return append(out, Occurrence{first, id}, Occurrence{second, id + "+"})
	case exists:
		return append(out, Occurrence{first, id})
	case again:
		return append(out, Occurrence{second, id})
	case s.everyHour():
		return out
	}
	_, moved := early.ZoneBounds()
	return append(out, Occurrence{moved.UTC(), id})
}

func inOffset(wall time.Time, seconds int) time.Time {
	return wall.Add(-time.Duration(seconds) * time.Second)
}

// shows reports whether clocks in the zone show a wall time at that time.
func shows(at, wall time.Time, zone *time.Location) bool {
	_, offset := at.In(zone).Zone()
	return at.Add(time.Duration(offset) * time.Second).Equal(wall)
}
