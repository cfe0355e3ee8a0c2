package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"golang.org/x/term"
)

// output is standard output with what it can show.
type output struct {
	io.Writer
	tty    bool // a person looks at a terminal
	colour bool
	fd     int
}

func newOutput(w io.Writer, getenv func(string) string) *output {
	o := &output{Writer: w}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		o.fd = int(file.Fd())
		o.tty = getenv("TERM") != "dumb" && getenv("CI") == ""
		o.colour = o.tty && getenv("NO_COLOR") == ""
	}
	return o
}

// width is that of the terminal now; 0 when there is none.
func (o *output) width() int {
	if !o.tty {
		return 0
	}
	width, _, err := term.GetSize(o.fd)
	if err != nil {
		return 80
	}
	return width
}

// tone is how a word is coloured, by what it means.
type tone int

const (
	plainTone tone = iota
	good
	bad
	warn
	faint
	strong
)

func (o *output) paint(t tone, text string) string {
	if !o.colour || text == "" {
		return text
	}
	style := lipgloss.NewStyle()
	switch t {
	case good:
		style = style.Foreground(lipgloss.Green)
	case bad:
		style = style.Foreground(lipgloss.Red)
	case warn:
		style = style.Foreground(lipgloss.Yellow)
	case faint:
		style = style.Faint(true)
	case strong:
		style = style.Bold(true)
	}
	return style.Render(text)
}

// toneOf colours outcomes, states and findings alike.
func toneOf(word string) tone {
	switch word {
	case "success", "ok", "connected", "confirmed", "live", "owned", "verified":
		return good
	case "failure", "timed_out", "lost", "invalid", "fail", "error", "stopped", "differs", "disabled":
		return bad
	case "cancelled", "soft_failure", "uncertain", "unreachable", "attention", "held", "warn", "silent", "cancel",
		"unowned", "draining", "unsupported", "unknown", "restored":
		return warn
	case "skipped", "superseded", "waiting", "queued", "removed", "gone":
		return faint
	}
	return plainTone
}

func (o *output) word(text string) string { return o.paint(toneOf(text), text) }

// table writes aligned columns. Cells come from anybody and are cleaned; painted says
// which columns hold words to colour.
func (o *output) table(headers []string, rows [][]string, painted ...int) string {
	isPainted := map[int]bool{}
	for _, column := range painted {
		isPainted[column] = true
	}
	t := table.New().Headers(headers...).Wrap(false).BorderTop(false).BorderBottom(false).BorderLeft(false).
		BorderRight(false).BorderHeader(false).BorderColumn(false).StyleFunc(func(row, _ int) lipgloss.Style {
		style := lipgloss.NewStyle().PaddingRight(2)
		if row == table.HeaderRow && o.colour {
			style = style.Faint(true)
		}
		return style
	})
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = clean(cell)
			if isPainted[i] {
				cells[i] = o.word(cells[i])
			}
		}
		t.Row(cells...)
	}
	var out strings.Builder
	width := o.width()
	for line := range strings.Lines(t.Render() + "\n") {
		line = strings.TrimRight(line, " \n")
		if width > 0 && lipgloss.Width(line) > width {
			line = lipgloss.NewStyle().MaxWidth(width).Render(line)
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

// clean makes one line of text that no terminal acts on.
//
// Trust: text may come from anybody.
func clean(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return '\uFFFD'
		}
		return r
	}, text)
}

// moment reads a time of the API.
func moment(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}

// clock is a time of the API for people, in their zone.
func clock(text string) string {
	if at, ok := moment(text); ok {
		return at.Local().Format("2006-01-02 15:04:05")
	}
	return ""
}

// span is how long something took, or takes until now; "" when it did not begin.
func span(from, to string, now time.Time) string {
	begin, ok := moment(from)
	if !ok {
		return ""
	}
	end, ok := moment(to)
	if !ok {
		end = now
	}
	return short(end.Sub(begin))
}

// short writes a duration with as many digits as a person reads.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// dash is what an empty cell shows.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
