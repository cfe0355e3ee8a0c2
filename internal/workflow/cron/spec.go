package cron

import (
	"fmt"
	"math/bits"
	"strings"
)

// Spec is a parsed text of five fields. The zero value is due never.
type Spec struct {
	minutes, hours, days, months, weekdays uint64 // bit n: the value n is in the field
	anyDay, anyWeekday                     bool   // the field is *
}

// Error says what is wrong with a text, and where.
type Error struct {
	Offset, Length int // bytes of the text
	Message        string
	Hint           string // may be empty
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// textMax bounds a text. GitHub has no bound of its own; the longest sensible one has 300.
const textMax = 1_000

// field is one of the five places.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

func fields() []field {
	return []field{
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day of the month", 1, 31, nil},
		{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
		{"day of the week", 0, 6, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
	}
}

// Parse reads the five fields minute, hour, day of the month, month and day of the week, as
// POSIX has them with GitHub's additions: names of months and days in any case, and steps. If
// both kinds of days are restricted, either is enough. Blanks around the text are ignored.
//
// Trust: text may come from anybody. The error is an *Error.
func Parse(text string) (Spec, error) {
	if len(text) > textMax {
		return Spec{}, &Error{0, len(text), fmt.Sprintf("the schedule is longer than %d characters", textMax), ""}
	}
	words, offsets := split(text)
	if err := countFields(text, words); err != nil {
		return Spec{}, err
	}
	var sets [5]uint64
	for i, f := range fields() {
		set, err := f.parse(words[i])
		if err != nil {
			err.Offset, err.Length = offsets[i], len(words[i])
			err.Message = fmt.Sprintf("the %s %q is not valid: %s", f.name, words[i], err.Message)
			return Spec{}, err
		}
		sets[i] = set
	}
	s := Spec{sets[0], sets[1], sets[2], sets[3], sets[4], words[2] == "*", words[4] == "*"}
	if s.never() {
		return Spec{}, &Error{offsets[2], offsets[3] + len(words[3]) - offsets[2],
			"no month of the schedule has such a day, so it is never due", "April, June, September and November have " +
				"30 days, February 28 or 29"}
	}
	return s, nil
}

// split gives the words between blanks, and where they begin.
func split(text string) (words []string, offsets []int) {
	at := 0
	for at < len(text) {
		if text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r' {
			at++
			continue
		}
		end := at
		for end < len(text) && !strings.ContainsRune(" \t\n\r", rune(text[end])) {
			end++
		}
		words, offsets = append(words, text[at:end]), append(offsets, at)
		at = end
	}
	return words, offsets
}

func countFields(text string, words []string) error {
	const five = "minute, hour, day of the month, month and day of the week, as in \"30 5 * * 1-5\""
	switch {
	case len(words) == 5:
		return nil
	case len(words) == 1 && strings.HasPrefix(words[0], "@"):
		return &Error{0, len(text), fmt.Sprintf("%q is not a schedule of five fields", words[0]), spelled(words[0])}
	case len(words) == 6:
		return &Error{0, len(text), "the schedule has 6 fields; five are " + five, "there is no field for seconds or years"}
	}
	return &Error{0, len(text), fmt.Sprintf("the schedule has %d fields; it needs five: %s", len(words), five), ""}
}

// spelled is what a short form of other programs stands for.
func spelled(short string) string {
	switch strings.ToLower(short) {
	case "@hourly":
		return `write "0 * * * *"`
	case "@daily", "@midnight":
		return `write "0 0 * * *"`
	case "@weekly":
		return `write "0 0 * * 0"`
	case "@monthly":
		return `write "0 0 1 * *"`
	case "@yearly", "@annually":
		return `write "0 0 1 1 *"`
	}
	return ""
}

func (f field) parse(text string) (uint64, *Error) {
	var set uint64
	for _, part := range strings.Split(text, ",") {
		one, err := f.part(part)
		if err != nil {
			return 0, err
		}
		set |= one
	}
	return set, nil
}

// part reads one element of a list: *, a value or a range, each with or without a step.
func (f field) part(text string) (uint64, *Error) {
	span, stepText, stepped := strings.Cut(text, "/")
	from, to, single, err := f.span(span)
	if err != nil {
		return 0, err
	}
	step := 1
	if stepped {
		if step, err = f.step(stepText); err != nil {
			return 0, err
		}
		if single {
			to = f.max
		}
	}
	var set uint64
	for v := from; v <= to; v += step {
		set |= 1 << v
	}
	return set, nil
}

func (f field) span(text string) (from, to int, single bool, err *Error) {
	if text == "*" {
		return f.min, f.max, false, nil
	}
	low, high, ranged := strings.Cut(text, "-")
	if from, err = f.value(low); err != nil {
		return 0, 0, false, err
	}
	if !ranged {
		return from, from, true, nil
	}
	if to, err = f.value(high); err != nil {
		return 0, 0, false, err
	}
	if to < from {
		return 0, 0, false, &Error{Message: fmt.Sprintf("the range %s-%s goes down", low, high),
			Hint: fmt.Sprintf("write it as two: %s-%d,%d-%s", low, f.max, f.min, high)}
	}
	return from, to, false, nil
}

// value reads a number or a name.
func (f field) value(text string) (int, *Error) {
	if text == "" {
		return 0, &Error{Message: "a value is missing"}
	}
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	n, ok := number(text)
	switch {
	case !ok && f.names != nil:
		return 0, &Error{Message: fmt.Sprintf("%q is neither a number nor one of %s", text,
			strings.ToUpper(strings.Join(f.names, ", ")))}
	case !ok:
		return 0, &Error{Message: fmt.Sprintf("%q is not a number", text)}
	case n == 7 && f.max == 6:
		return 0, &Error{Message: "days of the week go from 0 to 6", Hint: "Sunday is 0"}
	case n < f.min || n > f.max:
		return 0, &Error{Message: fmt.Sprintf("%s is not between %d and %d", text, f.min, f.max)}
	}
	return n, nil
}

func (f field) step(text string) (int, *Error) {
	n, ok := number(text)
	if !ok || n < max(f.min, 1) || n > f.max {
		return 0, &Error{Message: fmt.Sprintf("the step after / must be a number between %d and %d", max(f.min, 1), f.max)}
	}
	return n, nil
}

// number reads digits only: no sign, no fraction, leading zeros allowed.
func number(text string) (int, bool) {
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' || n > 1_000 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, text != ""
}

// never reports whether the days exist in none of the months.
func (s Spec) never() bool {
	if !s.anyWeekday || s.anyDay {
		return false
	}
	for month := 1; month <= 12; month++ {
		if s.months>>month&1 == 1 && bits.TrailingZeros64(s.days) <= longest(month) {
			return false
		}
	}
	return true
}

// longest is the most days that a month can have.
func longest(month int) int {
	switch month {
	case 2:
		return 29
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// everyHour reports whether the spec goes by the clock's minutes alone, day and night: such a
// one goes on evenly when clocks are set, instead of being due at a time of the day.
func (s Spec) everyHour() bool { return s.hours == 1<<24-1 }

// ShortestGap is the least number of minutes between two times that it is due within a day.
func (s Spec) ShortestGap() int {
	const day = 24 * 60
	gap, first, last := day, -1, -1
	for at := range day {
		if s.hours>>(at/60)&1 == 0 || s.minutes>>(at%60)&1 == 0 {
			continue
		}
		if first < 0 {
			first = at
		} else {
			gap = min(gap, at-last)
		}
		last = at
	}
	return min(gap, first+day-last)
}
