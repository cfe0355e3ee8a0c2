package dispatch

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/placement"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// backlog is a board on which so many jobs wait for slots of one runner, in runs of ten.
func backlog(waiting, slots int) (*board, time.Time) {
	b, now := newBoard(Timing{Lease: time.Minute, Abandon: 2 * time.Minute}), time.Unix(1_000_000, 0)
	b.led["pool"] = true
	b.pools["pool"] = &poolView{pool: "pool", tenant: "tnt_a", partition: "pool", tiers: []domain.Tier{domain.TierTrusted}}
	b.agents["rnr_1"] = &agent{Runner: pool.Runner{Runner: "rnr_1", Capacity: slots}, tenant: "tnt_a", pool: "pool",
		polling: true, labels: []string{"linux"}, lastSeen: now, class: b.openings.join("pool", []string{"linux"}, nil)}
	for i := range slots {
		b.agents["rnr_1"].open = append(b.agents["rnr_1"].open, domain.SlotToken(fmt.Sprintf("rnr_1/%d/1", i)))
	}
	b.seat("rnr_1")
	wish := []string{"linux"}
	for i := range waiting / 10 {
		var id [16]byte
		binary.BigEndian.PutUint64(id[:], uint64(i))
		run := domain.RunID(domain.EncodeID(domain.PrefixRun, id))
		for n := range 10 {
			b.addHead(head{tenant: "tnt_a", partition: "main-0", repository: domain.RepositoryID(fmt.Sprint("rep_", i%4)),
				run: run, index: n, class: domain.ClassInteractive, tier: domain.TierTrusted, runsOn: wish,
				since: now.Add(time.Duration(i) * time.Millisecond)})
		}
	}
	return b, now
}

// turn places what it can, lets the jobs go that got a slot as a commit of their leases would, and
// makes as many ready behind all others. The slots are open again at its end.
func turn(b *board, now time.Time) (placed int) {
	for _, p := range b.place(now) {
		placed++
		b.dropHead(p.command.Job)
		b.giveBack(p.command.Slot, p.command.Runner, p.command.Job)
		p.head.since = p.head.since.Add(1000 * time.Hour)
		b.addHead(p.head)
	}
	return placed
}

// A placement costs the same, however many jobs wait behind those that get a slot.
func TestAPlacementCostsTheSameHoweverManyWait(t *testing.T) {
	cost := map[int]float64{}
	for _, waiting := range []int{1000, 100_000} {
		b, now := backlog(waiting, 16)
		cost[waiting] = testing.AllocsPerRun(200, func() {
			if placed := turn(b, now); placed != 16 {
				t.Fatalf("%d placed", placed)
			}
		})
	}
	if cost[100_000] > 1.5*cost[1000] {
		t.Errorf("allocations for a placement of 16 jobs, by jobs that wait: %v", cost)
	}
}

// What is moved in memory when a job comes or goes is bounded: a line is in pieces.
func TestALineIsInPieces(t *testing.T) {
	b, now := backlog(100_000, 16)
	for range 1000 {
		turn(b, now)
	}
	for _, l := range b.lines {
		jobs := 0
		for i, p := range l.jobs {
			if jobs += len(p); len(p) == 0 || len(p) > pieceMax {
				t.Fatalf("piece %d of %d has %d jobs", i, len(l.jobs), len(p))
			}
		}
		if jobs != l.count || len(l.jobs) > 3*l.count/pieceMax+2 {
			t.Errorf("%d jobs of %d in %d pieces", jobs, l.count, len(l.jobs))
		}
	}
}

// boardBytes is what dispatch may keep of a job that waits. It was 113 when this was set.
const boardBytes = 140

// A million waiting jobs are to fit: each takes little on the board.
func TestAWaitingJobTakesLittleOfTheBoard(t *testing.T) {
	const waiting = 200_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b, _ := backlog(waiting, 1)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := float64(after.HeapAlloc-before.HeapAlloc) / waiting; each > boardBytes {
		t.Errorf("%.0f bytes for each of %d waiting jobs, %d are allowed", each, waiting, boardBytes)
	} else {
		t.Logf("%.0f bytes for each of %d waiting jobs", each, waiting)
	}
	runtime.KeepAlive(b)
}

// BenchmarkWaiting is a placement of 16 jobs, the commit of their leases, and 16 jobs that become
// ready, while so many others wait.
func BenchmarkWaiting(b *testing.B) {
	for _, waiting := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("jobs=", waiting), func(b *testing.B) {
			board, now := backlog(waiting, 16)
			b.ReportAllocs()
			for b.Loop() {
				turn(board, now)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/job")
		})
	}
}

// A backlog of one repository keeps another's first job waiting for one slot's turn, and of batch
// work the last slots of a pool are kept.
// Promises: [RUN-18].
func TestABacklogLeavesOthersTheirTurn(t *testing.T) {
	b, now := backlog(1000, 2*reserveOf)
	first := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{255}))
	b.place(now) // all slots are lent
	b.addHead(head{tenant: "tnt_a", partition: "main-0", repository: "rep_new", run: first, class: domain.ClassBatch,
		tier: domain.TierTrusted, runsOn: []string{"linux"}, since: now.Add(time.Hour)})
	var w *waiting
	for slot, job := range b.lent {
		w = b.waits(first.Job(0))
		r := placement.Explain(ptr(w.head()).placement(), b.rivals(w), b.shares.holds, b.fleet("tnt_a", now))
		if r.Code != placement.ReasonBusy || r.Ahead != 0 {
			t.Errorf("it is told %+v", r)
		}
		b.dropHead(job)
		b.giveBack(slot, "rnr_1", job)
		break
	}
	// One slot is open, and two are kept from batch: the others' work goes on.
	if got := b.place(now); len(got) != 1 || got[0].head.repository == "rep_new" {
		t.Fatalf("placed %+v", got)
	}
	for slot, job := range b.lent {
		b.dropHead(job)
		b.giveBack(slot, "rnr_1", job)
	}
	// Nobody has a slot: the more urgent ones of four repositories get one each, and then it has its first.
	if got := b.place(now); len(got) < 5 || got[4].head.repository != "rep_new" {
		t.Errorf("it is not the fifth of %d", len(got))
	}
}

func ptr[T any](v T) *T { return &v }

// The reserve of a pool goes by the runners that are there.
func TestThePoolsReserveGoesByTheRunnersThatAreThere(t *testing.T) {
	b, now := backlog(10, 3*reserveOf)
	if n := b.reserves(now)["pool"]; n != 3 {
		t.Errorf("of %d slots %d are kept", 3*reserveOf, n)
	}
	b.agents["rnr_1"].polling = false
	if n := b.reserves(now)["pool"]; n != 3 {
		t.Errorf("%d are kept a moment later", n)
	}
	if n := b.reserves(now.Add(time.Second))["pool"]; n != 0 {
		t.Errorf("%d are kept of a runner that is gone", n)
	}
}

// A renewal that crossed the result of its own attempt is told from all others without the run.
func TestARenewalThatCrossedItsResultIsKnown(t *testing.T) {
	b, now := newBoard(Timing{}), time.Unix(1_000_000, 0)
	run1 := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1}))
	reported, lost := run1.Job(0).Attempt(1), run1.Job(1).Attempt(1)
	b.close("tnt_a", "main-0", reported, &run.Attempt{Epoch: 3, Runner: "rnr_1", Report: "sha256:x", ConcludedAt: now})
	b.close("tnt_a", "main-0", lost, &run.Attempt{Epoch: 3, Runner: "rnr_1", ConcludedAt: now})
	if !b.crossed("rnr_1", reported, 3) || b.crossed("rnr_1", reported, 2) || b.crossed("rnr_2", reported, 3) ||
		b.crossed("rnr_1", lost, 3) {
		t.Error("a renewal is taken for one that crossed its result, or not")
	}
}
