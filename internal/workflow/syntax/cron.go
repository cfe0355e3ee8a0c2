package syntax

import (
	"fmt"
	"strconv"
	"strings"
)

// cronField is one of the five fields of a schedule.
type cronField struct {
	name     string
	low, top int
	words    string // names of values from low on
}

func cronFields() []cronField {
	return []cronField{
		{"minute", 0, 59, ""}, {"hour", 0, 23, ""}, {"day", 1, 31, ""},
		{"month", 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"},
		{"weekday", 0, 6, "sun mon tue wed thu fri sat"},
	}
}

// badCron says what is wrong with a schedule; empty when nothing is. Spaces around it are
// allowed: files with them run elsewhere.
func badCron(text string) string {
	parts := strings.Fields(text)
	fields := cronFields()
	if strings.ContainsAny(text, "\t\r\n") || len(parts) != len(fields) {
		return fmt.Sprintf("it has %d fields", len(parts))
	}
	for i, part := range parts {
		for _, term := range strings.Split(part, ",") {
			if !fields[i].term(term) {
				return fmt.Sprintf("%s is not a %s", Quote(term), fields[i].name)
			}
		}
	}
	return ""
}

// term reports whether a term is a value, a range or either with a step.
func (f cronField) term(text string) bool {
	span, step, stepped := strings.Cut(text, "/")
	if stepped {
		if n, ok := cronNumber(step); !ok || n < max(f.low, 1) || n > f.top {
			return false
		}
	}
	if span == "*" {
		return true
	}
	from, to, ranged := strings.Cut(span, "-")
	low, ok := f.value(from)
	if !ok || !ranged {
		return ok
	}
	high, ok := f.value(to)
	return ok && high >= low
}

func (f cronField) value(text string) (int, bool) {
	for i, word := range strings.Fields(f.words) {
		if strings.EqualFold(word, text) {
			return f.low + i, true
		}
	}
	n, ok := cronNumber(text)
	return n, ok && n >= f.low && n <= f.top
}

func cronNumber(text string) (int, bool) {
	if !all(text, "0123456789") || len(text) > 4 {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// zoneName reports whether text looks like the name of a time zone. Which of them exist is
// known where schedules are kept.
func zoneName(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("/_+-", r)
	}) < 0
}
