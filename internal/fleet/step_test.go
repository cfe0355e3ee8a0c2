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

func renewed(text string, sent time.Duration) Renewed {
	p := picture(text)
	for i := range p.Members {
		p.Members[i].Until = p.Now.Add(2 * second)
	}
	return Renewed{p, sent}
}

func TestAMemberTakesWhatIsFreeAndWhatTheDeadHad(t *testing.T) {
	h := newHand(3)
	h.want(t, Tick{}, 0, "Renew{Draining:false}")
	h.want(t, Tick{}, second, "") // one renewal at a time
	h.want(t, renewed("me gone!:p01,p02", second), second, "Resume{} Take{Partition:p00 Epoch:0} "+
		"Take{Partition:p01 Epoch:1} Take{Partition:p02 Epoch:1}")
	h.held["p00"], h.held["p01"] = 1, 2
	h.want(t, Done{"p00", true, nil}, second, "")
	h.want(t, Done{"p01", true, nil}, second, "")
	// One was too late: somebody else took it. It looks again at once.
	h.want(t, Done{"p02", true, store.ErrFenced}, second, "Renew{Draining:false}")
	h.want(t, renewed("me:p00,p01 you:p02", second), second, "")
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
	p.Picture.Members[1].Until = p.Picture.Now.Add(100 * time.Millisecond) // late: it renews every 500 ms
	h.step(p, 50*time.Millisecond)
	if at := h.m.WakeAt(); at != 50*time.Millisecond+100*time.Millisecond+expiryMargin {
		t.Errorf("looks at %v", at)
	}
}
