package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// workKind is a tally whose additions with a number are new work: so many jobs of the repository
// of that number. Negative ones end jobs.
func workKind() *Kind {
	k := tallyKind()
	of := func(n uint64) domain.RepositoryID { return domain.RepositoryID(fmt.Sprint("rep_", n)) }
	k.Begins = func(command any) (domain.RepositoryID, int, bool) {
		c := command.(tallyCommand)
		return of(c.number), c.n, c.number > 0
	}
	k.Open = func(state any) (domain.RepositoryID, int) { s := state.(*tally); return of(s.Number), s.Total }
	k.Opens = func(event any) int { return event.(tallyEvent).N }
	return k
}

// desk drives an owner by hand: lookups are answered at once, appends when they are asked to.
type desk struct {
	t       *testing.T
	owner   *owner
	now     time.Time
	loads   int
	answers map[string]error // by stream
	batch   *store.Batch     // in flight
	stored  map[streamKey]stream
}

func newDesk(t *testing.T, limits Open) *desk {
	d := &desk{t: t, now: time.Unix(1_000_000, 0), answers: map[string]error{}, stored: map[streamKey]stream{},
		owner: newOwner(store.Ownership{Partition: home, Epoch: 1}, map[string]*Kind{"tally": workKind()}, true)}
	d.owner.open.limits = limits
	return d
}

func (d *desk) carry(effects []any) {
	for _, eff := range effects {
		switch eff := eff.(type) {
		case effLoad:
			d.loads++
			kind := d.owner.kinds["tally"]
			s := &stream{key: eff.key, kind: kind, state: kind.New()}
			if held, ok := d.stored[eff.key]; ok {
				state := *held.state.(*tally)
				s.state, s.version, s.stored = &state, held.version, true
			}
			d.carry(d.owner.step(inLoaded{eff.key, s, nil}, d.now))
		case effAnswer:
			name := eff.item.env.Stream.ID()
			if _, twice := d.answers[name]; twice && eff.item.admitted {
				d.t.Errorf("%s is answered twice", name)
			}
			d.answers[name] = eff.err
		case effAppend:
			d.batch = &eff.batch
		}
	}
}

func (d *desk) submit(stream string, c tallyCommand) {
	env := envelope(stream, c)
	d.carry(d.owner.step(inSubmit{&item{env: env}}, d.now))
}

// commit decides a batch and says what becomes of it. It lists the streams in their order.
func (d *desk) commit(err error) (streams []string) {
	d.carry(d.owner.flush(d.now))
	if d.batch == nil {
		return nil
	}
	for _, r := range d.batch.Rows {
		if s := d.owner.streams[streamKey{r.Tenant, r.Stream}]; err == nil {
			state := *s.state.(*tally)
			d.stored[s.key] = stream{state: &state, version: s.version}
		}
		streams = append(streams, r.Stream.ID())
	}
	d.batch = nil
	d.carry(d.owner.step(inAppended{err}, d.now))
	return streams
}

// What serves running work is decided with the next batch, however much new work waits, and a
// batch takes a bounded piece of new work.
// Promises: [CMD-17].
func TestNewWorkIsBehindWhatServesRunningWork(t *testing.T) {
	d := newDesk(t, Open{})
	d.submit("running", tallyCommand{do: "add", n: 1})
	d.commit(nil)
	for i := range 900 {
		d.submit(fmt.Sprint("new-", i), tallyCommand{do: "add", n: 10, number: 1})
	}
	if d.loads > lookahead+1 {
		t.Errorf("%d streams are looked up at once", d.loads)
	}
	d.commit(nil) // in flight when the report comes
	d.submit("running", tallyCommand{do: "add", n: 1})
	got := d.commit(nil)
	if len(got) == 0 || got[0] != "running" || len(got)-1 > beginJobs/10 {
		t.Errorf("the batch has %d streams, the first is %v", len(got), got[:min(len(got), 1)])
	}
	for range 900 {
		d.commit(nil)
	}
	if len(d.answers) != 901 {
		t.Errorf("%d answers", len(d.answers))
	}
}

// New work is begun by turns of the repositories that it is for.
// Promises: [CMD-17].
func TestNewWorkIsBegunByTurns(t *testing.T) {
	d := newDesk(t, Open{})
	for i := range freshOfShare {
		d.submit(fmt.Sprint("flood-", i), tallyCommand{do: "add", n: 10, number: 1})
	}
	d.submit("other", tallyCommand{do: "add", n: 10, number: 2})
	for batches := 1; ; batches++ {
		d.commit(nil)
		if _, done := d.answers["other"]; done {
			if most := aheadJobs/beginJobs + 3; batches > most {
				t.Errorf("it was begun with batch %d; what is looked up already makes %d", batches, most)
			}
			return
		}
		if batches > 1000 {
			t.Fatal("it is never begun")
		}
	}
}

// More new work than can be begun in time is refused at once, with a time to come back; commands
// that serve running work are not.
// Promises: [CMD-16, CMD-17].
func TestTooMuchNewWorkIsRefusedWithATimeToComeBack(t *testing.T) {
	d := newDesk(t, Open{})
	shed := func(stream string, number uint64) bool {
		d.submit(stream, tallyCommand{do: "add", n: 1, number: number})
		r, no := domain.AsRejection(d.answers[stream])
		if no && (r.Code != domain.CodeOverloaded || r.RetryAfter < time.Second) {
			t.Fatalf("%+v", r)
		}
		return no
	}
	taken := 0
	for i := range 2 * (freshOfShare + lookahead) {
		if !shed(fmt.Sprint("flood-", i), 1) {
			taken++
		}
	}
	if taken != freshOfShare+aheadJobs && taken != freshOfShare+lookahead {
		t.Errorf("%d commands of one repository wait", taken)
	}
	if shed("other", 2) {
		t.Error("another repository's is refused")
	}
	d.submit("running", tallyCommand{do: "add", n: 1})
	for _, s := range d.commit(nil) {
		if s == "running" {
			return
		}
	}
	t.Error("the report is not in the next batch")
}

// Where it is known how long it takes, time counts: what can't be begun within it is refused.
func TestNewWorkThatWouldWaitForTooLongIsRefused(t *testing.T) {
	d := newDesk(t, Open{})
	for i := range 600 {
		d.submit(fmt.Sprint("big-", i), tallyCommand{do: "add", n: beginJobs, number: 1}) // one fills a batch
	}
	for range 12 {
		d.commit(nil)
		d.now = d.now.Add(500 * time.Millisecond) // two in a second
	}
	d.submit("late", tallyCommand{do: "add", n: 1, number: 1})
	r, no := domain.AsRejection(d.answers["late"])
	if !no || r.Code != domain.CodeOverloaded || r.RetryAfter != retryMost {
		t.Errorf("with %d before it at two in a second: %v", d.owner.fresh.count, d.answers["late"])
	}
	d.submit("other", tallyCommand{do: "add", n: 1, number: 2})
	if d.answers["other"] != nil {
		t.Errorf("another repository's turn comes at once: %v", d.answers["other"])
	}
}

// Open jobs are counted as history has them, whatever becomes of a batch, and bound what may be begun.
// Promises: [CMD-16].
func TestOpenJobsAreBounded(t *testing.T) {
	d := newDesk(t, Open{Jobs: 100, OfRepository: 60})
	counted := func(want int) {
		t.Helper()
		if d.owner.open.all != want {
			t.Fatalf("%d jobs are open, want %d", d.owner.open.all, want)
		}
	}
	refused := func(stream string, c tallyCommand) bool {
		t.Helper()
		delete(d.answers, stream)
		d.submit(stream, c)
		d.commit(nil)
		r, no := domain.AsRejection(d.answers[stream])
		if no && (r.Code != domain.CodeTooManyOpenJobs || r.RetryAfter <= 0) {
			t.Fatalf("%+v", r)
		}
		return no
	}
	if refused("a", tallyCommand{do: "add", n: 50, number: 1}) ||
		!refused("b", tallyCommand{do: "add", n: 20, number: 1}) {
		t.Error("a repository may have 60")
	}
	counted(50)
	if refused("c", tallyCommand{do: "add", n: 50, number: 2}) ||
		!refused("d", tallyCommand{do: "add", n: 1, number: 3}) {
		t.Error("all may have 100")
	}
	counted(100)
	d.submit("a", tallyCommand{do: "add", n: -30})
	d.commit(store.ErrFull)
	counted(100) // it did not happen, and the stream is loaded anew
	d.submit("a", tallyCommand{do: "add", n: -30})
	d.commit(nil)
	counted(70)
	if refused("e", tallyCommand{do: "add", n: 30, number: 1}) {
		t.Error("what has ended does not count")
	}
}

// Whatever waits is answered when the partition ends.
func TestNewWorkIsAnsweredWhenThePartitionEnds(t *testing.T) {
	d := newDesk(t, Open{})
	for i := range 2 * lookahead {
		d.submit(fmt.Sprint(i), tallyCommand{do: "add", n: 1, number: 1})
	}
	d.carry(d.owner.step(inStop{reason: notOwner()}, d.now))
	if len(d.answers) != 2*lookahead || d.owner.fresh.count+len(d.owner.toBegin)+d.owner.looking+d.owner.ahead != 0 {
		t.Errorf("%d answers, %d wait", len(d.answers), d.owner.fresh.count)
	}
}

// Timers that come due at the same moment, such as the queue deadlines of a flood, keep no report
// waiting: a batch takes a bounded piece of them, and what serves running work goes first.
// Promises: [CMD-17].
func TestManyTimersAtOnceKeepNoReportWaiting(t *testing.T) {
	d := newDesk(t, Open{})
	const streams = 3000
	for i := range streams {
		s := &stream{key: streamKey{"tnt_a", domain.StreamID(fmt.Sprint("tally/", i))}, kind: d.owner.kinds["tally"],
			state: &tally{Total: 1, Ring: d.now}, version: 1, stored: true}
		d.owner.adopt(s)
	}
	rung := 0
	for batches := 0; rung < streams; batches++ {
		d.carry(d.owner.step(inTick{}, d.now))
		name := fmt.Sprint("report-", batches)
		d.submit(name, tallyCommand{do: "add", n: 1})
		got := d.commit(nil)
		if got[0] != name || len(got)-1 > wakesMax {
			t.Fatalf("batch %d has %d timers, and begins with %s", batches, len(got)-1, got[0])
		}
		rung += len(got) - 1
		if batches > streams {
			t.Fatal("they never end")
		}
	}
}
