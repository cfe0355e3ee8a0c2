package canned

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Log is the log of one attempt. Lines are made when they are asked for, so that a log
// of a million lines costs nothing.
type Log struct {
	Lines  int64
	Sealed bool
	Steps  []*fairleadv1.StepRange
	Line   func(n int64) *fairleadv1.Line
	Text   func(n int64) string // the text alone, for searching a long log; nil: from Line
}

func (l Log) text(n int64) string {
	if l.Text != nil {
		return l.Text(n)
	}
	return l.Line(n).GetText()
}

// ReadLines reads a window.
func (w *World) ReadLines(_ context.Context, in *fairleadv1.ReadLinesRequest) (*fairleadv1.ReadLinesResponse, error) {
	log, ok := w.log(in.GetAttempt())
	if !ok {
		return nil, missing()
	}
	if log.Line == nil {
		return nil, fmt.Errorf("read log %s: segment 7 is damaged", in.GetAttempt())
	}
	from := in.GetFrom()
	if from < 0 {
		from = max(0, log.Lines+from)
	}
	out := &fairleadv1.ReadLinesResponse{TotalLines: log.Lines, TotalBytes: log.Lines * 64, Sealed: log.Sealed,
		Steps: log.Steps}
	most := int64(in.GetCount())
	if most == 0 {
		most = 200
	}
	for n := from; n < log.Lines && n < from+most; n++ {
		line := log.Line(n)
		line.Number = n
		for _, step := range log.Steps {
			if n >= step.GetFirstLine() {
				line.Step = step.GetStep()
			}
		}
		out.Lines = append(out.Lines, line)
	}
	return out, nil
}

// SearchLog looks for plain text.
func (w *World) SearchLog(_ context.Context, in *fairleadv1.SearchLogRequest) (*fairleadv1.SearchLogResponse, error) {
	log, ok := w.log(in.GetAttempt())
	if !ok {
		return nil, missing()
	}
	out := &fairleadv1.SearchLogResponse{}
	if log.Line == nil {
		return out, nil
	}
	for n := in.GetFrom(); n < log.Lines; n++ {
		if !strings.Contains(log.text(n), in.GetText()) {
			continue
		}
		if len(out.GetLines()) == int(in.GetLimit()) {
			out.Next = n
			break
		}
		out.Lines = append(out.Lines, n)
	}
	return out, nil
}

func (w *World) log(attempt string) (Log, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	log, ok := w.logs[attempt]
	return log, ok
}

// Raw writes a log's bytes, for the gallery's stand-in of the raw download.
func (w *World) Raw(attempt string, write func(string) bool) bool {
	log, ok := w.log(attempt)
	if !ok || log.Line == nil {
		return false
	}
	for n := range log.Lines {
		if !write(log.text(n) + "\n") {
			break
		}
	}
	return true
}

// Grow adds lines to a log that is still open, and seals it when it is long enough.
func (w *World) Grow(attempt string, lines, most int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.logs[attempt]
	log.Lines += lines
	if log.Lines >= most {
		log.Sealed = true
	}
	w.logs[attempt] = log
	w.tell()
}

const (
	red, green, dim, bold, reset = "\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
)

// textLog is a log of fixed lines that start at a time.
func textLog(start time.Time, sealed bool, steps [][]string) Log {
	var all []string
	var ranges []*fairleadv1.StepRange
	for i, step := range steps {
		ranges = append(ranges, &fairleadv1.StepRange{Step: int32(i), FirstLine: int64(len(all)), Lines: int64(len(step))})
		all = append(all, step...)
	}
	return Log{Lines: int64(len(all)), Sealed: sealed, Steps: ranges, Line: func(n int64) *fairleadv1.Line {
		line := &fairleadv1.Line{Text: all[n], Stream: "stdout", Offset: n * 64, Bytes: int64(len(all[n])),
			At: stampOf(start.Add(time.Duration(n) * 137 * time.Millisecond))}
		if mark, ok := strings.CutPrefix(all[n], "mark "); ok {
			line.Mark, line.Text = mark, ""
		}
		return line
	}}
}

// testLog is what a test run prints: a group, colours, a failure with an annotation.
func testLog(start time.Time, failed bool) Log {
	checkout := []string{
		"fetching c7f2a91b from the server", "HEAD is now at c7f2a91b Round prices half to even",
	}
	build := []string{"::group::go build ./...", "go: downloading nothing, all modules are cached"}
	for i := range 24 {
		build = append(build, fmt.Sprintf("%scompile%s internal/shop/part%02d", dim, reset, i))
	}
	build = append(build, "::endgroup::", "built in 3.2s")
	test := []string{bold + "go test ./..." + reset}
	for i := range 18 {
		test = append(test, fmt.Sprintf("%sok%s  \tshop/part%02d\t0.%03ds", green, reset, i, 17*i%999))
	}
	test = append(test, "progress  10%\rprogress  60%\rprogress 100%", "::warning::cart_test.go uses a deprecated clock")
	if failed {
		test = append(test, "--- "+red+"FAIL"+reset+": TestRounding (0.02s)",
			"    price_test.go:41: got 0.125, want 0.12",
			"::error file=price_test.go,line=41::TestRounding: got 0.125, want 0.12",
			red+"FAIL"+reset+"\tshop/price\t0.031s", "mark gap:lost_by_runner", "exit status 1")
	} else {
		test = append(test, green+"PASS"+reset)
	}
	return textLog(start, true, [][]string{checkout, build, test})
}

// hostileLog is what somebody prints who wants to own the page.
func hostileLog(start time.Time) Log {
	return textLog(start, true, [][]string{{
		`<script>alert(1)</script><img src=x onerror=alert(2)>`, "::group::<b>bold</b>\" onmouseover=\"alert(3)",
		"\x1b]8;;javascript:alert(4)\x07click me\x1b]8;;\x07", "\x1b[31;1m<i>red</i>\x1b[0m\x1b[2J\x1b[H",
		"right \u202eto left\u202c and \x00 nul", "invalid \xff\xfe utf-8", strings.Repeat("x", 9000),
		"::error::" + strings.Repeat("long error ", 400), "mark truncated:<script>alert(5)</script>",
		"::endgroup::", "mark something:else", "mark truncated:step_bytes",
	}})
}

// millionLog is a log as long as logs get.
func millionLog(start time.Time) Log {
	const total = 1_000_000
	text := func(n int64) string {
		switch {
		case n == 777_776:
			return "::error::the needle in the haystack"
		case n%1000 == 999:
			return "::endgroup::"
		case n%1000 == 500:
			return "::group::five hundred lines from " + strconv.FormatInt(n+1, 10)
		}
		return dim + strconv.FormatInt(n, 10) + reset + " the quick brown fox jumps over line " + strconv.FormatInt(n+1, 10)
	}
	return Log{Lines: total, Sealed: true, Text: text, Steps: []*fairleadv1.StepRange{{Step: 0, FirstLine: 0, Lines: 3},
		{Step: 1, FirstLine: 3, Lines: 499_997}, {Step: 2, FirstLine: 500_000, Lines: 500_000}},
		Line: func(n int64) *fairleadv1.Line {
			return &fairleadv1.Line{Text: text(n), Offset: n * 64, Bytes: int64(len(text(n))),
				At: stampOf(start.Add(time.Duration(n) * time.Millisecond))}
		}}
}

func stampOf(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000Z") }

func identifier(prefix string, n byte) string {
	return domain.EncodeID(prefix, [16]byte{1, 0x95, 0x8f, 2, n, 3, 0x70, n, 0x80, 4, 5, 6, 7, 8, 9, n})
}
