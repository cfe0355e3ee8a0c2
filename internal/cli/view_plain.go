package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// labelMax is how wide the name of a job before a line of its log may be.
const labelMax = 24

// plainView writes lines: good for pipes and files, and the part of the live view that
// scrolls.
type plainView struct {
	out   *output
	to    io.Writer // where flush writes
	label bool      // several jobs: every line says whose it is
	quiet bool      // no news, only lines of logs
	buf   bytes.Buffer
	width int
	open  string // attempt whose last line has no end yet
	said  map[string]bool
}

func newPlainView(out *output) *plainView {
	return &plainView{out: out, to: out, said: map[string]bool{}}
}

// changed implements view.
func (p *plainView) changed(before, now *fairleadv1.Run) {
	p.label = p.label || len(now.GetJobs()) > 1
	for _, job := range now.GetJobs() {
		p.width = max(p.width, min(utf8.RuneCountInString(job.GetKey()), labelMax))
	}
	for _, item := range newsOf(before, now) {
		p.say(item.job, item.tone, item.text)
	}
}

// say writes a sentence about a job.
func (p *plainView) say(job *fairleadv1.Job, t tone, text string) {
	if p.quiet {
		return
	}
	p.close()
	fmt.Fprintf(&p.buf, "%s %s\n", p.out.paint(strong, clean(job.GetKey())+":"), p.out.paint(t, clean(text)))
}

// idle implements view: it says what is waited for, once.
func (p *plainView) idle(now *fairleadv1.Run) {
	for _, job := range now.GetJobs() {
		waits := job.GetState() == "ready" || job.GetState() == "held"
		if text := job.GetState() + ": " + job.GetReason(); waits && !p.said[job.GetId()+text] {
			p.said[job.GetId()+text] = true
			p.say(job, faint, text)
		}
	}
}

// lines implements view.
func (p *plainView) lines(job *fairleadv1.Job, attempt *fairleadv1.Attempt, pieces []piece) {
	for _, line := range pieces {
		if p.open != "" && p.open != attempt.GetId() {
			p.close()
		}
		if p.open == "" && p.label {
			p.buf.WriteString(p.tag(job))
		}
		switch {
		case line.gap > 0:
			fmt.Fprintf(&p.buf, "[%d bytes of this log are missing: the server's record is damaged here]", line.gap)
		case p.out.tty:
			p.buf.Write(forTerminal(line.text))
		default:
			p.buf.Write(line.text)
		}
		p.open = attempt.GetId()
		if line.end {
			p.close()
		}
	}
}

// tag is what stands before a line when several jobs write.
func (p *plainView) tag(job *fairleadv1.Job) string {
	key := []rune(clean(job.GetKey()))
	if len(key) > labelMax {
		key = append(key[:labelMax-1], '…')
	}
	text := string(key) + strings.Repeat(" ", max(p.width-len(key), 0)) + " | "
	if !p.out.colour {
		return text
	}
	colours := []lipgloss.Style{
		lipgloss.NewStyle().Foreground(lipgloss.Cyan), lipgloss.NewStyle().Foreground(lipgloss.Magenta),
		lipgloss.NewStyle().Foreground(lipgloss.Blue), lipgloss.NewStyle().Foreground(lipgloss.Green),
		lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	}
	return colours[int(job.GetIndex())%len(colours)].Render(text)
}

// close ends a line that has no end of its own.
func (p *plainView) close() {
	if p.open == "" {
		return
	}
	p.open = ""
	if p.out.colour {
		p.buf.WriteString("\x1b[m") // a job's colour must not run into the next line
	}
	p.buf.WriteByte('\n')
}

// note implements view.
func (p *plainView) note(text string) {
	p.close()
	fmt.Fprintf(&p.buf, "%s\n", p.out.paint(faint, clean(text)))
}

// flush implements view.
func (p *plainView) flush() {
	if p.buf.Len() > 0 {
		_, _ = p.to.Write(p.buf.Bytes())
		p.buf.Reset()
	}
}

// forTerminal keeps of a line what a terminal may act on: characters and colours. What
// moves the cursor, sets titles or writes the clipboard is dropped, and of a line that was
// written over itself the last writing is kept.
//
// Trust: line is written by a job.
func forTerminal(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	if at := bytes.LastIndexByte(line, '\r'); at >= 0 {
		line = line[at+1:]
	}
	if bytes.IndexFunc(line, func(r rune) bool { return r < ' ' || r == utf8.RuneError || r >= 0x7f && r < 0xa0 }) < 0 {
		return line
	}
	out := make([]byte, 0, len(line))
	for len(line) > 0 {
		if line[0] == 0x1b {
			n, colour := escape(line)
			if colour {
				out = append(out, line[:n]...)
			}
			line = line[n:]
			continue
		}
		r, n := utf8.DecodeRune(line)
		switch {
		case r == '\t' || r >= ' ' && r < 0x7f || r >= 0xa0 && r != utf8.RuneError:
			out = append(out, line[:n]...)
		case r == utf8.RuneError:
			out = utf8.AppendRune(out, utf8.RuneError)
		}
		line = line[n:]
	}
	return out
}

// escape measures the escape sequence that line begins with, and says whether it is one
// that only sets colours.
func escape(line []byte) (n int, colour bool) {
	if len(line) < 2 {
		return len(line), false
	}
	switch line[1] {
	case '[': // a control sequence ends at its first letter
		for n = 2; n < len(line); n++ {
			if line[n] >= 0x40 && line[n] <= 0x7e {
				digits := bytes.Trim(line[2:n], "0123456789;:")
				return n + 1, line[n] == 'm' && len(digits) == 0
			}
		}
		return len(line), false
	case ']', 'P', '_', '^', 'X': // a string ends at BEL or ESC \
		for n = 2; n < len(line); n++ {
			if line[n] == 0x07 {
				return n + 1, false
			}
			if line[n] == 0x1b {
				return min(n+2, len(line)), false
			}
		}
		return len(line), false
	}
	return 2, false
}
