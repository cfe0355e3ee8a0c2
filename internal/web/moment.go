package web

import (
	"fmt"
	"time"
)

// parseMoment reads a time of the API; "" and anything unreadable is the zero time,
// which pages show as "not yet".
func parseMoment(text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// span writes a length of time the way people say it: 3.2s, 42s, 1m 23s, 2h 05m, 3d 4h.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%ds", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm %02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd %dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// ago says how long something is past or ahead, coarsely.
func ago(at, now time.Time) string {
	d := now.Sub(at)
	if d < 0 {
		return "in " + coarse(-d)
	}
	if d < 5*time.Second {
		return "just now"
	}
	if d > 30*24*time.Hour {
		return at.Format("2 Jan 2006")
	}
	return coarse(d) + " ago"
}

func coarse(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// moment is a time as a page shows it: relative, with the exact one beside it.
type moment struct {
	Exact string // for machines
	Full  string // for the tooltip
	Text  string // as read at the time of rendering
}

func momentOf(text string, now time.Time) moment {
	at := parseMoment(text)
	if at.IsZero() {
		return moment{}
	}
	return moment{Exact: at.Format("2006-01-02T15:04:05.000Z"),
		Full: at.Format("2006-01-02 15:04:05.000 UTC"), Text: ago(at, now)}
}

// stretch is a duration as a page shows it; while it lasts, scripts keep it counting.
type stretch struct {
	Text  string
	Since string // set while it lasts
}

func stretchOf(from, to string, now time.Time) stretch {
	start := parseMoment(from)
	if start.IsZero() {
		return stretch{}
	}
	end := parseMoment(to)
	if end.IsZero() {
		return stretch{Text: span(now.Sub(start)), Since: start.Format("2006-01-02T15:04:05.000Z")}
	}
	return stretch{Text: span(end.Sub(start))}
}

// bytesText writes a size with the unit people expect.
func bytesText(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// count writes a whole number with thin groups: 1 000 000.
func count(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// plural joins a number with its noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(int64(n)) + " " + many
}
