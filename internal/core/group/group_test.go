package group

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/codec/codectest"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

var rewrite = flag.Bool("rewrite", false, "write golden files that don't exist yet")

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a group that is lived twice: as decided, and as read back.
type world struct {
	t           *testing.T
	live, again *State
}

func newWorld(t *testing.T) *world { return &world{t, New(), New()} }

func (w *world) do(c Command) (said []string) {
	w.t.Helper()
	before, generation := EncodeState(w.live), w.live.Generation
	d, rejection := Decide(w.live, c, start)
	if rejection != nil {
		return []string{string(rejection.Code)}
	}
	if !bytes.Equal(before, EncodeState(w.live)) {
		w.t.Fatalf("%s: Decide changed the state", c.Name())
	}
	data, err := EncodeEvents(d.Events, codec.Format)
	if err != nil {
		w.t.Fatal(err)
	}
	read, err := DecodeEvents(data)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, e := range d.Events {
		Evolve(w.live, e)
		Evolve(w.again, read[i])
		said = append(said, text(e))
	}
	if err := Check(w.live); err != nil {
		w.t.Fatal(err)
	}
	if w.live.Generation < generation || !bytes.Equal(EncodeState(w.live), EncodeState(w.again)) {
		w.t.Fatalf("%s: generation %d after %d, or what was read is another state", c.Name(), w.live.Generation, generation)
	}
	return said
}

func text(e Event) string {
	switch e := e.(type) {
	case *MemberJoined:
		return "joined " + string(e.Member.Run)
	case *MemberAdmitted:
		return "admitted " + string(e.Member.Run)
	case *MemberSuperseded:
		return "superseded " + string(e.Member.Run) + " by " + string(e.By.Run)
	case *CancelWanted:
		return "cancel " + string(e.Member.Run) + " for " + string(e.By.Run)
	case *MemberLeft:
		return "left " + string(e.Member.Run)
	}
	return e.Name()
}

func key(n int) Key { return Key{Run: domain.RunID(fmt.Sprint("r", n)), Job: Whole, Round: 1} }

func join(n int, cancel, max bool) Join {
	k := key(n)
	return Join{Repository: "rep_a", GroupName: "g", Member: k, Who: Successor{Run: k.Run, Number: uint64(n)},
		Cancel: cancel, Max: max}
}

func (w *world) want(c Command, want ...string) {
	w.t.Helper()
	if said := w.do(c); !slices.Equal(said, want) {
		w.t.Errorf("%s says %q, not %q", c.Name(), said, want)
	}
}

// Promises: [RUN-23].
func TestS24ANewerPendingMemberReplacesTheOlder(t *testing.T) {
	w := newWorld(t)
	w.want(join(1, false, false), "GroupOpened", "joined r1", "admitted r1")
	w.want(join(2, false, false), "joined r2")
	w.want(join(3, false, false), "superseded r2 by r3", "joined r3")
	w.want(join(2, false, false)) // a repeat of one that was replaced stays replaced
	w.want(Leave{Member: key(2)}, "left r2")
	w.want(Leave{Member: key(1)}, "left r1", "admitted r3")
	w.want(Leave{Member: key(1)})
	w.want(Leave{Member: key(3)}, "left r3")
	if Live(w.live) || w.live.Generation != 3 {
		t.Errorf("an empty group is live, or lost its generation %d", w.live.Generation)
	}
}

// A server that was late may ask for what has left: nobody is replaced by it, and nothing is held.
func TestWhoHasLeftDoesNotComeAgain(t *testing.T) {
	w := newWorld(t)
	w.do(join(1, false, false))
	w.do(join(2, false, false))
	w.want(Leave{Member: key(1)}, "left r1", "admitted r2")
	w.want(join(3, false, false), "joined r3")
	w.want(join(1, true, false))
	again := join(1, false, false)
	again.Member.Round = 2
	w.want(again, "superseded r3 by r1", "joined r1")
	for n := 4; n < 4+2*goneMax; n++ {
		w.do(join(n, false, true))
		w.do(Leave{Member: key(n)})
	}
	if len(w.live.Gone) != goneMax {
		t.Errorf("%d keys are remembered", len(w.live.Gone))
	}
}

func TestS24AQueueOfAllIsFirstInFirstOut(t *testing.T) {
	w := newWorld(t)
	for n := 1; n <= 3; n++ {
		w.do(join(n, false, true))
	}
	w.want(Leave{Member: key(1)}, "left r1", "admitted r2")
	w.want(Leave{Member: key(2)}, "left r2", "admitted r3")
	for n := 4; n < 4+PendingMax; n++ {
		w.do(join(n, false, true))
	}
	w.want(join(1000, false, true), "MemberRefused")
	w.do(Leave{Member: key(2)})
	w.want(join(1000, false, true)) // a repeat of what was turned away, though there is room now
}

// Promises: [RUN-23].
func TestS25TheRunningMemberIsAskedToCancelAndKeepsItsPlaceUntilItHas(t *testing.T) {
	w := newWorld(t)
	w.do(join(1, true, false))
	w.want(join(2, true, false), "joined r2", "cancel r1 for r2")
	w.want(join(3, true, false), "superseded r2 by r3", "joined r3")
	w.want(Leave{Member: key(1)}, "left r1", "admitted r3")
}

func TestAnyOrderOfCommandsKeepsTheRules(t *testing.T) {
	for seed := range uint64(200) {
		r, w := rand.New(rand.NewPCG(seed, 1)), newWorld(t)
		for range 60 {
			n := 1 + r.IntN(30)
			if r.IntN(2) == 0 {
				w.do(Leave{Member: key(n)})
				continue
			}
			w.do(join(n, r.IntN(3) == 0, r.IntN(3) == 0))
		}
		for n := range 31 {
			w.do(Leave{Member: key(n)})
		}
		if Live(w.live) {
			t.Fatalf("seed %d: %d members are left", seed, len(w.live.Members))
		}
	}
}

func TestNamesCountWithoutCaseWithinARepository(t *testing.T) {
	if Stream("rep_a", "Deploy") != Stream("rep_a", "deploy") || Stream("rep_a", "x") == Stream("rep_b", "x") {
		t.Error("the streams of groups are mixed up")
	}
	if Wrong("") == "" || Wrong("a") != "" || Wrong("\xff") == "" || Wrong(string(make([]byte, NameBytesMax+1))) == "" {
		t.Error("a wrong name is right")
	}
}

// Promises: [FORMAT-1].
func TestStoredForms(t *testing.T) {
	for _, name := range form.Names() {
		zero, _ := form.New(name)
		sample := sampleOf(zero)
		data, err := EncodeEvents([]Event{sample}, codec.Format)
		if err != nil {
			t.Fatal(err)
		}
		codectest.Packed(t, fmt.Sprintf("testdata/event/%s.%d.hex", name, formatGroups), data, *rewrite)
		if again, err := DecodeEvents(data); err != nil || text(again[0]) != text(sample) {
			t.Errorf("%s comes back as another event: %v", name, err)
		}
		if _, err := Lower(sample, formatGroups-1); err == nil {
			t.Errorf("servers without groups read %s", name)
		}
	}
	s := codectest.Sample(State{})
	codectest.Packed(t, fmt.Sprintf("testdata/state/%d.hex", StateEncoding), EncodeState(&s), *rewrite)
}

func sampleOf(e Event) Event {
	switch e.(type) {
	case *GroupOpened:
		v := codectest.Sample(GroupOpened{})
		return &v
	case *MemberJoined:
		v := codectest.Sample(MemberJoined{})
		return &v
	case *MemberAdmitted:
		v := codectest.Sample(MemberAdmitted{})
		return &v
	case *MemberSuperseded:
		v := codectest.Sample(MemberSuperseded{})
		return &v
	case *CancelWanted:
		v := codectest.Sample(CancelWanted{})
		return &v
	case *MemberLeft:
		v := codectest.Sample(MemberLeft{})
		return &v
	}
	v := codectest.Sample(MemberRefused{})
	return &v
}

// Promises: [FORMAT-5].
func TestCommandsBetweenServers(t *testing.T) {
	codectest.Form[Command]{
		Source: "command.go", Before: "func (", After: ") Name() string",
		Zero:   []Command{Join{}, Leave{}, Wake{}},
		Encode: EncodeCommand, Decode: DecodeCommand, Folder: "testdata/command", Rewrite: *rewrite,
	}.Check(t)
}
