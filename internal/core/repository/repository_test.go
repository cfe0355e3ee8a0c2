package repository

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/codec/codectest"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

var rewrite = flag.Bool("rewrite", false, "write golden files that don't exist yet")

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const testRepository = domain.RepositoryID("rep_00000000000000000000000001")

// world is a repository that is lived twice: as decided, and as read back.
type world struct {
	t            *testing.T
	live, replay *State
}

func newWorld(t *testing.T) *world { return &world{t, New(), New()} }

func (w *world) do(c Command) (string, Decision) {
	w.t.Helper()
	before := EncodeState(w.live)
	d, rejection := Decide(w.live, c, start)
	if !bytes.Equal(before, EncodeState(w.live)) {
		w.t.Fatalf("%s: Decide changed the state", c.Name())
	}
	if rejection != nil {
		return string(rejection.Code), d
	}
	data, err := EncodeEvents(d.Events, codec.Format)
	if err != nil {
		w.t.Fatal(err)
	}
	again, err := DecodeEvents(data)
	if err != nil {
		w.t.Fatal(err)
	}
	var told []string
	for i, e := range d.Events {
		Evolve(w.live, e)
		Evolve(w.replay, again[i])
		told = append(told, tell(e))
		if err := Check(w.live); err != nil {
			w.t.Fatalf("%s: %v", c.Name(), err)
		}
	}
	state := EncodeState(w.live)
	if restored, err := DecodeState(state); err != nil || !bytes.Equal(EncodeState(restored), state) {
		w.t.Fatalf("%s: a checkpoint comes back as another state: %v", c.Name(), err)
	}
	if !bytes.Equal(state, EncodeState(w.replay)) {
		w.t.Fatalf("%s: replay differs\n%+v\n%+v", c.Name(), w.live, w.replay)
	}
	if len(told) == 0 {
		return "nothing new", d
	}
	return strings.Join(told, ", "), d
}

func tell(e Event) string {
	short := func(commit string) string {
		if commit == "" {
			return "nothing"
		}
		return commit[:1]
	}
	switch e := e.(type) {
	case *RefMoved:
		text := fmt.Sprintf("%s %s>%s", strings.TrimPrefix(e.Ref, "refs/"), short(e.Before), short(e.After))
		if e.Protected {
			text += " protected"
		}
		return text
	case *RefRemoved:
		return fmt.Sprintf("%s %s>gone", strings.TrimPrefix(e.Ref, "refs/"), short(e.Before))
	}
	return e.Name()
}

func (w *world) want(c Command, want string) Decision {
	w.t.Helper()
	got, d := w.do(c)
	if got != want {
		w.t.Errorf("%s: got %s, want %s", c.Name(), got, want)
	}
	return d
}

// refs reads "main:a dev:b gone:-": branches with commits of one repeated digit.
func refs(text string) []Ref {
	var out []Ref
	for _, pair := range strings.Fields(text) {
		name, commit, _ := strings.Cut(pair, ":")
		if commit == "-" {
			commit = ""
		}
		out = append(out, Ref{"refs/heads/" + name, strings.Repeat(commit, 40)})
	}
	slices.SortFunc(out, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func polled(text string) ObserveRefs {
	return ObserveRefs{Source: SourcePoll, Complete: true, Refs: refs(text)}
}

func pushed(text string) ObserveRefs { return ObserveRefs{Source: SourcePush, Refs: refs(text)} }

func registration() Register {
	return Register{
		Tenant: domain.DefaultTenant, Repository: testRepository, RepoName: "shop", URL: "https://git.example/shop.git",
		DefaultBranch: "main", Poll: true, ProtectedRefs: []string{"refs/heads/release/*"},
	}
}

// Promises: [SRC-6].
func TestRegisteringRunsNoHistory(t *testing.T) {
	w := newWorld(t)
	w.want(polled("main:a"), "not_found")
	w.want(registration(), "RepositoryRegistered")
	w.want(registration(), "nothing new")
	w.want(polled("main:a old:b"), "RefsRecorded")
	w.want(polled("main:a old:b"), "nothing new")
	d := w.want(polled("main:c new:d release/1:e"),
		"heads/main a>c protected, heads/new nothing>d, heads/old b>gone, heads/release/1 nothing>e protected")
	if reply := d.Reply.(ObserveReply); reply != (ObserveReply{Moved: 3, Removed: 1}) {
		t.Errorf("reply %+v", reply)
	}
	w.want(pushed("new:f"), "heads/new d>f")
	w.want(pushed("new:f"), "nothing new")
	w.want(pushed("new:-"), "heads/new f>gone")
	w.want(pushed("new:-"), "nothing new")
	if w.live.Tip("refs/heads/main") != strings.Repeat("c", 40) || w.live.Tip("refs/heads/none") != "" {
		t.Error("wrong tips")
	}
}

func TestAPushIsNews(t *testing.T) {
	w := newWorld(t)
	c := registration()
	c.URL, c.Poll = "", false
	w.want(c, "RepositoryRegistered")
	w.want(SetPolling{Poll: true}, "invalid_argument")
	w.want(pushed("main:a"), "heads/main nothing>a protected")
	w.want(pushed("main:b"), "heads/main a>b protected")
	w.want(polled("dev:1 main:c"), "heads/main b>c protected, RefsRecorded")
	w.want(polled("dev:1 main:c"), "nothing new")
}

func TestPollingAndForgetting(t *testing.T) {
	w := newWorld(t)
	w.want(registration(), "RepositoryRegistered")
	w.want(SetPolling{Poll: true}, "nothing new")
	w.want(SetPolling{Poll: false}, "PollingSet")
	w.want(Wake{}, "nothing new")
	if _, ok := NextWake(w.live); ok || !Live(w.live) {
		t.Error("a registered repository is live and wakes never")
	}
	w.want(Forget{}, "RepositoryForgotten")
	w.want(polled("main:a"), "not_found")
	w.want(registration(), "already_exists") // an identifier is never used again
	if Live(w.live) {
		t.Error("a forgotten repository is live")
	}
}

func TestRegistrationIsChecked(t *testing.T) {
	for name, change := range map[string]func(*Register){
		"tenant":     func(c *Register) { c.Tenant = "" },
		"id":         func(c *Register) { c.Repository = "rep_1" },
		"name":       func(c *Register) { c.RepoName = "a\nb" },
		"url":        func(c *Register) { c.URL = "https://x\x00" },
		"password":   func(c *Register) { c.URL = "ssh://ada:hunter2@git.example/x" },
		"token":      func(c *Register) { c.URL = "https://token@git.example/x" },
		"branch":     func(c *Register) { c.DefaultBranch = "-rf" },
		"no address": func(c *Register) { c.URL = "" },
		"pattern":    func(c *Register) { c.ProtectedRefs = []string{"main"} },
		"patterns":   func(c *Register) { c.ProtectedRefs = slices.Repeat([]string{"refs/heads/x"}, 101) },
		"stars":      func(c *Register) { c.ProtectedRefs = []string{"refs/heads/" + strings.Repeat("*", 9)} },
	} {
		c := registration()
		change(&c)
		if got, _ := newWorld(t).do(c); got != "invalid_argument" {
			t.Errorf("bad %s: %s", name, got)
		}
	}
	for _, url := range []string{"", "/srv/git/shop.git", "git@git.example:shop.git", "ssh://git@git.example/shop.git"} {
		c := registration()
		c.URL, c.Poll = url, false
		if got, _ := newWorld(t).do(c); got != "RepositoryRegistered" {
			t.Errorf("%q: %s", url, got)
		}
	}
}

func TestObservationsAreChecked(t *testing.T) {
	w := newWorld(t)
	w.want(registration(), "RepositoryRegistered")
	commit := strings.Repeat("a", 40)
	for name, c := range map[string]ObserveRefs{
		"source":   {Source: "rumour"},
		"unsorted": {Source: SourcePoll, Refs: []Ref{{"refs/heads/b", commit}, {"refs/heads/a", commit}}},
		"twice":    {Source: SourcePoll, Refs: []Ref{{"refs/heads/a", commit}, {"refs/heads/a", commit}}},
		"commit":   {Source: SourcePoll, Refs: []Ref{{"refs/heads/a", "HEAD"}}},
		"short":    {Source: SourcePoll, Refs: []Ref{{"refs/heads/a", "abc"}}},
		"ref":      {Source: SourcePoll, Refs: []Ref{{"refs/heads/../x", commit}}},
		"option":   {Source: SourcePoll, Refs: []Ref{{"--upload-pack=x", commit}}},
	} {
		if got, _ := w.do(c); got != "invalid_argument" {
			t.Errorf("bad %s: %s", name, got)
		}
	}
	if got, _ := w.do(ObserveRefs{Source: SourcePoll, Refs: make([]Ref, refsMax+1)}); got != "too_large" {
		t.Errorf("too many refs: %s", got)
	}
}

func TestValidRef(t *testing.T) {
	for name, want := range map[string]bool{
		"refs/heads/main": true, "refs/tags/v1.0": true, "refs/heads/a/b-c_d": true, "refs/heads/ü": true,
		"main": false, "refs/heads/": false, "refs/heads//a": false, "refs/heads/.a": false, "refs/heads/a.lock": false,
		"refs/heads/a.":   false,
		"refs/heads/a..b": false, "refs/heads/a@{b": false, "refs/heads/a b": false, "refs/heads/a\x7f": false,
		"refs/heads/-a": false,
	} {
		if got := validRef(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}

// TestObservationsTellTheWholeDifference: whatever is observed, the refs are then those.
func TestObservationsTellTheWholeDifference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	w := newWorld(t)
	w.want(registration(), "RepositoryRegistered")
	w.want(polled(""), "RefsRecorded")
	for range 200 {
		var text []string
		for _, name := range []string{"a", "b", "c", "main"} {
			if r.IntN(3) > 0 {
				text = append(text, fmt.Sprintf("%s:%d", name, r.IntN(3)))
			}
		}
		c := polled(strings.Join(text, " "))
		w.do(c)
		if !slices.Equal(w.live.Refs, c.Refs) {
			t.Fatalf("observed %v, known %v", c.Refs, w.live.Refs)
		}
		w.want(c, "nothing new")
	}
}

// TestStoredEvents pins the stored form of every event; see testdata/event.
// Promises: [FORMAT-1].
func TestStoredEvents(t *testing.T) {
	base := Base{start}
	actor := domain.Actor{Kind: "user", ID: "ada", Via: "admin_token"}
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	for _, e := range []Event{
		&RepositoryRegistered{base, actor, domain.DefaultTenant, testRepository, "shop", "/srv/shop.git", "main", true,
			[]string{"refs/tags/*"}},
		&RefsRecorded{base, []Ref{{"refs/heads/main", a}}},
		&RefMoved{base, "refs/heads/main", a, b, true, SourcePoll, actor},
		&RefRemoved{base, "refs/heads/old", a, SourcePush, actor},
		&PollingSet{base, actor, true},
		&RepositoryForgotten{base, actor},
		&ComponentsSet{base, actor, "lock"},
		&SchedulesDefined{base, a, []Schedule{{".github/workflows/night.yml", "30 2 * * *", "Europe/Berlin", CatchUpLatest,
			"2026-01-02T02:30", start.Add(25*time.Hour + 30*time.Minute), &Settled{"2026-01-01T02:30", start, OccurrenceMissed,
				"", "late", 3}}}},
		&OccurrenceSettled{base, ".github/workflows/night.yml", "30 2 * * *", "Europe/Berlin", "2026-01-01T02:30",
			OccurrenceStarted, "run_00000000000000000000000001", "told", 2, "2026-01-02T02:30", start.Add(25 * time.Hour)},
		&Withdrew{base, Withdrawal{".github/workflows/ci.yml", "", a, domain.DigestOf(nil), "bad release", actor, "req_1",
			start}},
		&Reinstated{base, "", "acme/tool@" + a, "mended", actor, "req_2"},
	} {
		text, err := EncodeEvents([]Event{e}, codec.FormatPacked-1)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, fmt.Sprintf("testdata/event/%s.1.json", e.Name()), text)
		data, err := EncodeEvents([]Event{e}, codec.Format)
		if err != nil {
			t.Fatal(err)
		}
		codectest.Packed(t, fmt.Sprintf("testdata/event/%s.3.hex", e.Name()), data, *rewrite)
		for _, data := range [][]byte{text, data} {
			if again, err := DecodeEvents(data); err != nil || !reflect.DeepEqual(again, []Event{e}) {
				t.Errorf("%s comes back as another event: %v", e.Name(), err)
			}
		}
	}
	if _, err := DecodeEvents([]byte(`[{"t":"RepositoryTeleported","d":{}}]`)); err == nil {
		t.Error("decoded an unknown event")
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	want, err := os.ReadFile(file)
	if os.IsNotExist(err) && *rewrite {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		err = os.WriteFile(file, pretty.Bytes(), 0o644)
		want = pretty.Bytes()
	}
	if err != nil || !bytes.Equal(want, pretty.Bytes()) {
		t.Errorf("%s: what is stored is for ever; a changed form is a new version (%v)\n%s", file, err, pretty.Bytes())
	}
}
