package cli

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// A log that arrives in any pieces gives the same lines, and nothing is lost or twice.
func TestSplitterGivesTheSameLinesHoweverALogArrives(t *testing.T) {
	text := "one\n\ntwo " + strings.Repeat("x", 3*lineBytesMax) + "\nlast"
	for _, size := range []int{1, 2, 7, lineBytesMax - 1, lineBytesMax, lineBytesMax + 1, len(text)} {
		if size < 7 && len(text) > 1000 {
			continue // slow, and the same as in the short text below
		}
		checkSplit(t, text, size)
	}
	for size := 1; size < 12; size++ {
		checkSplit(t, "a\nbc\n\ndef", size)
	}
}

func checkSplit(t *testing.T, text string, size int) {
	t.Helper()
	var s splitter
	var pieces []piece
	for at := 0; at < len(text); at += size {
		pieces = append(pieces, s.add([]byte(text[at:min(at+size, len(text))]), int64(at))...)
	}
	pieces = append(pieces, s.rest()...)
	var got strings.Builder
	for _, p := range pieces {
		if p.offset != int64(got.Len()) {
			t.Fatalf("size %d: piece at %d says offset %d", size, got.Len(), p.offset)
		}
		if len(p.text) > lineBytesMax {
			t.Fatalf("size %d: a piece of %d bytes", size, len(p.text))
		}
		got.Write(p.text)
		if p.end {
			got.WriteByte('\n')
		}
	}
	if got.String() != text {
		t.Errorf("size %d: %d bytes, want %d", size, got.Len(), len(text))
	}
}

func TestSplitterMarksAGap(t *testing.T) {
	var s splitter
	pieces := slices.Concat(s.add([]byte("ab"), 0), s.add([]byte("cd\n"), 10))
	if len(pieces) != 3 || string(pieces[0].text) != "ab" || pieces[1].gap != 8 || string(pieces[2].text) != "cd" {
		t.Errorf("%+v", pieces)
	}
}

// What a job prints can colour a terminal and nothing else.
func TestATerminalGetsTextAndColours(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                             "plain",
		"\x1b[31;1mred\x1b[0m":              "\x1b[31;1mred\x1b[0m",
		"\x1b[2J\x1b[Hclear":                "clear",
		"\x1b]0;title\x07text":              "text",
		"\x1b]52;c;aGk=\x1b\\text":          "text",
		"\x1b[?25lhidden":                   "hidden",
		"\x1b[>4;1mkeys":                    "keys",
		"10%\r50%\r100%\r":                  "100%",
		"tab\there":                         "tab\there",
		"bell\x07 back\x08":                 "bell back",
		"bad \xff utf8":                     "bad \uFFFD utf8",
		"c1 \u009b31m":                      "c1 31m",
		"\x1b":                              "",
		"\x1b[":                             "",
		"\x1bcreset":                        "reset",
		"\x1bPq" + strings.Repeat("x", 100): "",
		"ünïcode ✓":                         "ünïcode ✓",
	} {
		if got := string(forTerminal([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzForTerminal(f *testing.F) {
	f.Add([]byte("\x1b[31mx\x1b]0;t\x07"))
	f.Fuzz(func(t *testing.T, in []byte) {
		out := forTerminal(in)
		rest := out
		for len(rest) > 0 {
			if rest[0] == 0x1b {
				n, colour := escape(rest)
				if !colour {
					t.Fatalf("%q lets %q through", in, rest[:n])
				}
				rest = rest[n:]
				continue
			}
			if rest[0] < ' ' && rest[0] != '\t' && rest[0] != '\n' || rest[0] == 0x7f {
				t.Fatalf("%q lets %q through", in, rest[:1])
			}
			rest = rest[1:]
		}
	})
}

func TestCleanMakesOneLine(t *testing.T) {
	if got := clean("a\nb\x1b[31m\u202ec\xff"); got != "a b\uFFFD[31m\uFFFDc\uFFFD" {
		t.Errorf("%q", got)
	}
}

func TestDurationsForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{-1: "0 s", 12 * time.Millisecond: "12 ms",
		1500 * time.Millisecond: "1.5 s",
		42 * time.Second:        "42 s", 61 * time.Second: "1m1s", time.Hour + time.Second: "1h0m1s"} {
		if got := short(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}

func liveRun(version uint64, state, outcome string, attempts ...*fairleadv1.Attempt) *fairleadv1.Run {
	return &fairleadv1.Run{Run: "run_x", Version: version, Summary: &fairleadv1.RunSummary{Round: 1},
		Jobs: []*fairleadv1.Job{{Id: "job_x_0", Key: "test", State: state, Outcome: outcome, Round: 1,
			Reason: "It waits for a runner.",
			Steps:  []string{"build", "unit"}, Attempts: attempts}}}
}

// screen is what was written since it was last looked at.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (s *screen) Write(content []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(content)
}

func (s *screen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.buf.Reset()
	return s.buf.String()
}

// The live view scrolls lines above rows that it draws anew, and leaves none behind.
func TestLiveViewDrawsRowsBelowTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		screen := &screen{}
		v := newLiveView(&output{Writer: screen, tty: true}, func() int { return 60 })
		drawn := func() string {
			synctest.Wait()
			return screen.take()
		}
		waiting := liveRun(1, "ready", "")
		v.changed(nil, waiting)
		v.flush()
		if got, want := drawn(), "test  ready  It waits for a runner.\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		attempt := &fairleadv1.Attempt{Id: "a", Number: 1, Round: 1, RunnerName: "m",
			Started:   time.Now().Format(time.RFC3339Nano),
			Requested: &fairleadv1.Requested{Desired: "run"}, Observed: &fairleadv1.Observation{State: "running"},
			Steps: []*fairleadv1.Step{{Index: 1, Name: "unit " + strings.Repeat("long ", 20), Started: "x"}}}
		running := liveRun(2, "active", "", attempt)
		v.changed(waiting, running)
		v.lines(running.GetJobs()[0], attempt, []piece{{text: []byte("partial")}})
		v.flush()
		got := drawn()
		if !strings.HasPrefix(got, "\x1b[1A\r\x1b[Jtest: attempt 1 on m\npartial\ntest  running  2/2 unit long") {
			t.Errorf("got %q", got)
		}
		for line := range strings.Lines(got) {
			if len(strings.TrimPrefix(line, "\x1b[1A\r\x1b[J")) > 61 {
				t.Errorf("a row of %d characters would wrap: %q", len(line), line)
			}
		}
		time.Sleep(1100 * time.Millisecond) // of the bubble: the clock draws the time anew
		if got := drawn(); !strings.HasPrefix(got, "\x1b[1A\r\x1b[Jtest  running") {
			t.Errorf("the clock drew %q", got)
		}
		v.changed(running, liveRun(3, "concluded", "success", attempt))
		v.flush()
		v.close()
		if got := drawn(); !strings.HasPrefix(got, "\x1b[1A\r\x1b[Jtest: success") || strings.Contains(got, "running") {
			t.Errorf("got %q", got)
		}
	})
}

// News keep the three facts apart, and say each once.
func TestNewsOfAnAttempt(t *testing.T) {
	begun := &fairleadv1.Attempt{Number: 1, Round: 1, RunnerName: "m", Requested: &fairleadv1.Requested{Desired: "run"},
		Observed: &fairleadv1.Observation{State: "running"}}
	asked := &fairleadv1.Attempt{Number: 1, Round: 1,
		Requested: &fairleadv1.Requested{Desired: "cancel", By: "user admin"},
		Observed:  &fairleadv1.Observation{State: "unreachable"}, Uncertain: true, NextStep: "Wait."}
	lost := &fairleadv1.Attempt{Number: 1, Round: 1, Requested: asked.Requested, Observed: asked.Observed, Outcome: "lost",
		FailureClass: "runner_lost", Message: "No result came."}
	var got []string
	for _, pair := range [][2]*fairleadv1.Run{
		{nil, liveRun(1, "active", "", begun)},
		{liveRun(1, "active", "", begun), liveRun(2, "active", "", asked)},
		{liveRun(2, "active", "", asked), liveRun(2, "active", "", asked)},
		{liveRun(2, "active", "", asked), liveRun(3, "ready", "", lost)},
		{liveRun(3, "ready", "", lost), liveRun(4, "concluded", "cancelled", lost)},
	} {
		for _, item := range newsOf(pair[0], pair[1]) {
			got = append(got, item.text)
		}
	}
	want := []string{
		"attempt 1 on m",
		"attempt 1: cancellation requested by user admin; it has not stopped yet",
		"attempt 1: its runner is unreachable, so what happens there is not known",
		"attempt 1 is uncertain: it has no result. Wait.",
		"attempt 1: lost (runner_lost): No result came.",
		"cancelled: It waits for a runner.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestGitIsJudgedByWhatItSays(t *testing.T) {
	for answer, status := range map[string]string{"git version 2.39.5\n": findOK, "git version 2.47.1.windows.1": findOK,
		"git version 3.0.0": findOK, "git version 2.38.4": findFail, "git version 1.99": findFail, "hub 1": findWarn} {
		if got := judgeGit(answer, "install"); got.Status != status {
			t.Errorf("%q: %+v", answer, got)
		}
	}
}
