package fleet

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

const second = time.Second

// hand drives a member by hand and prints what follows.
type hand struct {
	m    *Member
	held map[domain.PartitionID]uint64
}

func newHand(partitions int) *hand {
	return &hand{NewMember("me", 2*second, partitionNames(partitions)), map[domain.PartitionID]uint64{}}
}

func (h *hand) step(in any, now time.Duration) string {
	var out []string
	for _, eff := range h.m.Step(in, h.held, now) {
		text := strings.TrimPrefix(fmt.Sprintf("%T%+v", eff, eff), "fleet.")
		if k, ok := eff.(Kick); ok {
			text = fmt.Sprint("Kick ", len(k.Members))
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// resume gives a member its first lease, and forgets what it wants to take.
func (h *hand) resume(in Renewed, now time.Duration) {
	h.step(Tick{}, 0)
	h.step(in, now)
	clear(h.m.busy)
}

func (h *hand) want(t *testing.T, in any, now time.Duration, want string) {
	t.Helper()
	if got := h.step(in, now); got != want {
		t.Errorf("%T at %v\ngot  %s\nwant %s", in, now, got, want)
	}
}

// renewed is a picture of the time when it was asked for, in which everybody who lives has just
// renewed, and whoever died did long ago.
func renewed(text string, sent time.Duration) Renewed {
	p := picture(text)
	p.Now = noon.Add(sent)
	for i := range p.Members {
		p.Members[i].Until = p.Now.Add(2 * second)
		if !p.Members[i].Live {
			p.Members[i].Until = noon.Add(-second)
		}
	}
	return Renewed{p, sent}
}

// noon is what the store's clock shows when the local clock shows nothing.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// watched is when a lease that was seen at that time is over, unless it is renewed.
func watched(seen time.Duration) time.Duration { return seen + 2*second + 2*second/slower }

func TestAMemberTakesWhatIsFreeAndWhatTheDeadHad(t *testing.T) {
	h := newHand(3)
	h.want(t, Tick{}, 0, "Renew{Draining:false}")
	h.want(t, Tick{}, second, "") // one renewal at a time
	h.want(t, renewed("me gone!:p01,p02", second), second, "Resume{} Take{Partition:p00 Epoch:0}")
	h.held["p00"] = 1
	h.want(t, Done{"p00", true, nil}, second, "Renew{Draining:false}")
	over := watched(second)
	for _, at := range []time.Duration{second, 2 * second, over - 1} {
		h.want(t, renewed("me:p00 gone!:p01,p02", at), at, "")
		h.step(Tick{}, at+second/2)
	}
	h.want(t, renewed("me:p00 gone!:p01,p02", over), over, "Take{Partition:p01 Epoch:1} Take{Partition:p02 Epoch:1}")
	h.held["p01"] = 2
	h.want(t, Done{"p01", true, nil}, over, "")
	// One was too late: somebody else took it. It looks again at once.
	h.want(t, Done{"p02", true, store.ErrFenced}, over, "Renew{Draining:false}")
	h.want(t, renewed("me:p00,p01 you:p02", over), over, "")
}

// The store's clock may be set at any moment, forward and back.
//
// Promises: [FLEET-19].
func TestTheStoresClockEndsNoLeaseAndKeepsNobodyAlive(t *testing.T) {
	for name, set := range map[string]time.Duration{
		"forward": time.Minute, "by days": 50 * time.Hour, "back": -time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHand(2)
			h.resume(renewed("me:p00 you:p01", 0), 0)
			h.held["p00"] = 1
			at := second
			seen := func(you string, until time.Time) Renewed {
				p := renewed("me:p00 "+you, at)
				p.Picture.Now = p.Picture.Now.Add(set)
				other := &p.Picture.Members[1]
				other.Until, other.Live = until, until.After(p.Picture.Now)
				if !other.Live && until.Add(store.MemberKept).Before(p.Picture.Now) {
					p.Picture.Members = p.Picture.Members[:1]
				}
				return p
			}
			last := noon.Add(2 * second) // as it was renewed before the clock was set
			h.step(Tick{}, at)
			h.want(t, seen("you:p01", last), at, "")
			at = watched(0) - 1
			h.step(Tick{}, at)
			h.want(t, seen("you:p01", last), at, "")
			at = watched(0)
			h.step(Tick{}, at)
			h.want(t, seen("you:p01", last), at, "Take{Partition:p01 Epoch:1}")
		})
	}
}

// A picture may be under way for almost a lease: what it does not show may have happened since.
//
// Promises: [FLEET-19].
func TestAnOldPictureEndsNoLease(t *testing.T) {
	h := newHand(2)
	h.resume(renewed("me:p00 you:p01", 0), 0)
	h.held["p00"] = 1
	old := renewed("me:p00 you:p01", 0)
	old.Sent = watched(0) - second/4
	h.step(Tick{}, old.Sent-second/2)
	h.step(Renewed{old.Picture, old.Sent - second/2}, old.Sent-second/2)
	h.step(Tick{}, old.Sent)
	late := watched(0) + second
	h.want(t, old, late, "Renew{Draining:false}") // asked for before the end, and answered after it
	h.want(t, Renewed{old.Picture, late}, late, "Take{Partition:p01 Epoch:1}")
}

// Whoever renewed before the clock was set back, and was seen after it, is waited for a bounded time.
//
// Promises: [FLEET-19].
func TestAClockSetBackKeepsNobodyAliveForLong(t *testing.T) {
	h := newHand(2)
	p := renewed("me:p00 you:p01", 0)
	p.Picture.Members[1].Until = noon.Add(time.Hour)
	h.resume(p, 0)
	h.held["p00"] = 1
	end := TTLMax + TTLMax/slower
	for at := second; at < end; at += second {
		h.step(Tick{}, at)
		p.Sent = at
		h.want(t, p, at, "")
	}
	h.step(Tick{}, end)
	p.Sent = end
	h.want(t, p, end, "Take{Partition:p01 Epoch:1}")
}

// Servers that are given another lease than this one are waited for as long as theirs lasts, once
// it was seen.
func TestALongerLeaseOfAnotherIsRemembered(t *testing.T) {
	h := newHand(2)
	p := renewed("me:p00 you:p01", 0)
	p.Picture.Members[1].Until = noon.Add(10 * second)
	h.resume(p, 0)
	h.held["p00"] = 1
	for at := second; at < 12*second; at += second { // and now the clock stands nine seconds later
		if at == second {
			p.Picture.Now, p.Picture.Members[1].Until = noon.Add(10*second), noon.Add(11*second)
		}
		h.step(Tick{}, at)
		p.Sent = at
		want := ""
		if at >= second+10*second+10*second/slower {
			want = "Take{Partition:p01 Epoch:1}"
		}
		h.want(t, p, at, want)
	}
}

// Nobody but the store can tell of a member that was never seen.
func TestANewMemberWaitsForWhomItNeverSaw(t *testing.T) {
	for name, first := range map[string]Renewed{
		"over": renewed("me gone!:p00", 0), "forgotten": {renewed("me", 0).Picture, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHand(1)
			h.step(Tick{}, 0)
			first.Picture.Partitions = picture("gone:p00").Partitions
			h.want(t, first, 0, "Resume{}")
			h.step(Tick{}, second)
			first.Sent = second
			h.want(t, first, second, "")
			h.step(Tick{}, watched(0))
			first.Sent = watched(0)
			h.want(t, first, watched(0), "Take{Partition:p00 Epoch:1}")
		})
	}
}

func TestAMemberWaitsForALiveOwnerToGiveBack(t *testing.T) {
	h := newHand(2)
	h.step(Tick{}, 0)
	h.want(t, renewed("me you:p00,p01", 0), 0, "Resume{}")
	if got := Assign(h.m.picture, h.m.partitions)["p01"]; got != "me" {
		t.Fatalf("p01 is %q's", got)
	}
	h.want(t, Kicked{}, 10*time.Millisecond, "Renew{Draining:false}")
	p := renewed("me you:p00", 0)
	released := store.Holding{Ownership: store.Ownership{Partition: "p01", Epoch: 4}}
	p.Picture.Partitions = append(p.Picture.Partitions, released)
	h.want(t, p, 11*time.Millisecond, "Take{Partition:p01 Epoch:4}")
}

func TestAMemberGivesBackWhatIsAnothersAndTellsIt(t *testing.T) {
	h := newHand(2)
	h.resume(renewed("me:p00,p01 you", 0), 0)
	h.held["p00"], h.held["p01"] = 1, 1
	h.step(Kicked{}, 0)
	h.want(t, renewed("me:p00,p01 you", 0), 0, "Release{Partition:p01}")
	h.want(t, Kicked{}, 0, "Renew{Draining:false}")
	h.want(t, renewed("me:p00,p01 you", 0), 0, "") // it is under way
	delete(h.held, "p01")
	h.want(t, Done{"p01", false, nil}, 0, "Kick 1 Renew{Draining:false}")
	// The release did not reach the store: it is tried there again.
	h.want(t, renewed("me:p00,p01 you", 0), 0, "Disown{Partition:p01 Epoch:1}")
	h.want(t, Done{"p01", false, errors.New("away")}, 0, "")
	h.step(Tick{}, second)
	h.want(t, renewed("me:p00 you:p01", second), second, "")
}

func TestAMemberThatCameBackHasNothingOfItsPast(t *testing.T) {
	h := newHand(2)
	h.step(Tick{}, 0)
	// The name's earlier process had both: one is taken anew, the other given up.
	h.want(t, renewed("me:p00,p01 you", 0), 0, "Resume{} Take{Partition:p00 Epoch:1} Disown{Partition:p01 Epoch:1}")
}

// Promises: [FLEET-9].
func TestAMemberYieldsByItsOwnClockAndIsToldThatItWasReplaced(t *testing.T) {
	h := newHand(1)
	h.resume(renewed("me", second), 1100*time.Millisecond)
	h.held["p00"] = 1
	if h.m.Lease() != 3*second {
		t.Fatalf("the lease counts from before the renewal was sent: %v", h.m.Lease())
	}
	h.want(t, Tick{}, 1500*time.Millisecond, "Renew{Draining:false}")
	h.want(t, NotRenewed{errors.New("away")}, 2*second, "")
	if at := h.m.WakeAt(); at != 2250*time.Millisecond {
		t.Fatalf("tries again at %v", at)
	}
	h.want(t, Tick{}, 2250*time.Millisecond, "Renew{Draining:false}")
	if at := h.m.WakeAt(); at != 3*second {
		t.Fatalf("wakes at %v, the lease's end", at)
	}
	h.want(t, Tick{}, 3*second, "Yield{}")
	p := renewed("me you", 3500*time.Millisecond)
	p.Picture.Partitions = []store.Holding{{Ownership: store.Ownership{Partition: "p00", Epoch: 2}, Owner: "you"}}
	h.want(t, p, 3600*time.Millisecond, "Fence{Partition:p00 Epoch:2}")
	delete(h.held, "p00")
	h.want(t, Kicked{}, 3600*time.Millisecond, "Renew{Draining:false}")
	h.want(t, renewed("me you:p00", 3600*time.Millisecond), 3700*time.Millisecond, "Resume{}")
	// An answer that comes after the lease that it gives has ended gives none.
	h.want(t, Tick{}, 4200*time.Millisecond, "Renew{Draining:false}")
	h.want(t, renewed("me you:p00", 4*second), 7*second, "Yield{} Renew{Draining:false}")
}

// Others may have seen the end of a lease that its member has renewed since, and take what it
// held at any later moment. So it answers for that no more.
//
// Promises: [FLEET-18].
func TestALeaseThatRanOutTakesEverythingWithIt(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *hand){
		"noticed":                        func(t *testing.T, h *hand) { h.want(t, Tick{}, 3*second, "Yield{}") },
		"found out when the answer came": func(*testing.T, *hand) {},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHand(2)
			h.resume(renewed("me:p00 you:p01", second), second)
			h.held["p00"] = 1
			h.step(Tick{}, 2*second)
			end(t, h)
			first := h.step(renewed("me:p00 you:p01", 2900*time.Millisecond), 3100*time.Millisecond)
			if !strings.HasSuffix(first, "Release{Partition:p00}") || strings.Contains(first, "Resume") {
				t.Errorf("a new lease begins with %q", first)
			}
			if h.m.Lease() != 0 {
				t.Error("there is a lease while the past is given back")
			}
			h.want(t, Tick{}, 3500*time.Millisecond, "Renew{Draining:false}")
			h.want(t, renewed("me:p00 you:p01", 3500*time.Millisecond), 3500*time.Millisecond, "") // under way
			delete(h.held, "p00")
			h.want(t, Done{"p00", false, nil}, 3600*time.Millisecond, "Kick 1 Renew{Draining:false}")
			free := renewed("me you:p01", 3600*time.Millisecond)
			free.Picture.Partitions = append(free.Picture.Partitions,
				store.Holding{Ownership: store.Ownership{Partition: "p00", Epoch: 1}})
			h.want(t, free, 3700*time.Millisecond, "Resume{} Take{Partition:p00 Epoch:1}")
		})
	}
}

// What is taken while the lease runs out is given back too.
func TestWhatIsTakenWhileTheLeaseRunsOutIsGivenBack(t *testing.T) {
	h := newHand(1)
	h.step(Tick{}, 0)
	h.want(t, renewed("me", 0), 0, "Resume{} Take{Partition:p00 Epoch:0}")
	h.step(Tick{}, second)
	h.want(t, Tick{}, 2*second, "Yield{}")
	h.want(t, renewed("me:p00", 2*second), 2*second, "") // nobody knows yet what becomes of it
	h.held["p00"] = 1
	h.want(t, Done{"p00", true, nil}, 2*second, "Renew{Draining:false}")
	h.want(t, renewed("me:p00", 2*second), 2*second, "Release{Partition:p00}")
}

func TestWhoseNameIsTakenYieldsAtOnce(t *testing.T) {
	h := newHand(1)
	h.step(Tick{}, 0)
	h.step(renewed("me:p00", 0), 0)
	h.step(Tick{}, second)
	h.want(t, NotRenewed{fmt.Errorf("renew: %w", store.ErrNameTaken)}, second, "Yield{}")
}

// Promises: [FLEET-15].
func TestADrainGivesEverythingBackAndTakesNothing(t *testing.T) {
	h := newHand(3)
	h.resume(renewed("me:p00,p01 you:p02", 0), 0)
	h.held["p00"], h.held["p01"] = 1, 1
	h.want(t, Drain{}, 0, "Renew{Draining:true}")
	h.want(t, renewed("me~:p00,p01 you:p02", 0), 0, "Release{Partition:p00} Release{Partition:p01}")
	delete(h.held, "p00")
	h.want(t, Done{"p00", false, nil}, 0, "Kick 1 Renew{Draining:true}")
	delete(h.held, "p01")
	h.want(t, Done{"p01", false, nil}, 0, "Kick 1")
	// Alone, and so the only candidate: it takes nothing back all the same.
	h.want(t, renewed("me~ you!:p02", 0), 0, "Renew{Draining:true}")
	if !h.m.Idle() {
		t.Error("something is under way")
	}
}

func TestALateMemberIsLookedAtWhenItsLeaseEnds(t *testing.T) {
	h := newHand(1)
	h.step(Tick{}, 0)
	p := renewed("me you:p00", 0)
	h.step(p, 50*time.Millisecond)
	over := watched(50 * time.Millisecond)
	p.Sent = over - 100*time.Millisecond // and it has not renewed
	h.step(Tick{}, p.Sent)
	h.step(p, p.Sent)
	if at := h.m.WakeAt(); at != over+expiryMargin {
		t.Errorf("looks at %v", at)
	}
}
