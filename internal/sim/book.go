package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/reactor"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger"
)

// book is what the world saw: the history as it was committed, and everything that anybody
// was promised. It believes no server: histories are decoded from the bytes that the store
// took, promises are noted where they arrived.
type book struct {
	world    *world
	kinds    map[string]*engine.Kind
	checks   []checker
	events   int
	coverage Coverage

	epochs  map[domain.PartitionID]uint64
	streams map[domain.StreamID]*history
	order   []domain.StreamID // of birth
	pinned  map[string]bool
	runners map[domain.RunnerID]*machine

	promises promises
}

// history is a stream, rebuilt from the bytes in the store.
type history struct {
	tenant    domain.TenantID
	partition domain.PartitionID
	id        domain.StreamID
	kind      *engine.Kind
	state     any
	version   uint64
}

func (h *history) run() *run.State { s, _ := h.state.(*run.State); return s }

// promises are what clients and runners were told.
type promises struct {
	runs    []acceptedRun
	cancels []domain.RunID
	tokens  []domain.Token
	results map[string]domain.Digest // by attempt: the acknowledged report
	chunks  map[string]uint64        // by attempt: acknowledged through
	printed map[string]map[uint64]string
	pushes  map[string]domain.RunID // by repository and commit
}

// acceptedRun is a run that a client was promised.
type acceptedRun struct {
	client string
	key    string
	remote *remote
	run    domain.RunID
	token  domain.Token
}

// seen is a committed event of a run, with the state before it.
type seen struct {
	history *history
	before  *run.State
	event   run.Event
	version uint64
	job     int      // -1: it is about the run
	number  int      // of the attempt, 0: none
	states  []string // of all jobs, before the row
	existed bool     // the run did, before the row
}

func (e *seen) attempt() domain.AttemptID {
	return domain.RunID(e.history.id.ID()).Job(e.job).Attempt(e.number)
}

func newBook(w *world) *book {
	b := &book{world: w, kinds: map[string]*engine.Kind{}, epochs: map[domain.PartitionID]uint64{},
		streams: map[domain.StreamID]*history{}, pinned: map[string]bool{},
		runners: map[domain.RunnerID]*machine{}, coverage: Coverage{}, checks: checkers(w),
		promises: promises{results: map[string]domain.Digest{}, chunks: map[string]uint64{},
			printed: map[string]map[uint64]string{}, pushes: map[string]domain.RunID{}}}
	for _, k := range projection.Kinds() {
		b.kinds[k.Name] = k
	}
	return b
}

// acquired notes a new owner's epoch.
func (b *book) acquired(own store.Ownership) {
	for i := range b.checks {
		if f := b.checks[i].acquired; f != nil {
			f(own)
		}
	}
	b.epochs[own.Partition] = max(b.epochs[own.Partition], own.Epoch)
}

// committed takes a batch that the store took.
func (b *book) committed(batch *store.Batch) {
	for i := range b.checks {
		if f := b.checks[i].batch; f != nil {
			f(batch)
		}
	}
	for i := range batch.Rows {
		b.row(batch, &batch.Rows[i])
	}
}

func (b *book) row(batch *store.Batch, row *store.Row) {
	h := b.streams[row.Stream]
	if h == nil {
		kind := b.kinds[row.Stream.Kind()]
		h = &history{tenant: row.Tenant, partition: batch.Partition, id: row.Stream, kind: kind, state: kind.New()}
		b.streams[row.Stream] = h
		b.order = append(b.order, row.Stream)
	}
	events, err := h.kind.DecodeEvents(row.Events)
	if err != nil {
		b.world.violation(checkGapless, "row %d of %s can't be decoded: %v", row.Position, batch.Partition, err)
		return
	}
	first := row.Version - uint64(len(events)) + 1
	var states []string
	existed := false
	if s := h.run(); s != nil {
		states, existed = statesOf(s), s.Exists()
	}
	for n, e := range events {
		b.events++
		version := first + uint64(n)
		if version != h.version+1 {
			b.world.violation(checkGapless, "%s: version %d follows %d", row.Stream, version, h.version)
			return
		}
		if of, ok := e.(run.Event); ok {
			s := &seen{history: h, before: h.run(), event: of, version: version, job: of.JobIndex(),
				number: of.AttemptNumber(), states: states, existed: existed}
			b.world.line("db", "="+of.Name(), "%s", b.about(s, batch, row))
			b.coverage.count(s)
			for i := range b.checks {
				if f := b.checks[i].event; f != nil {
					f(s)
				}
			}
		} else if e, ok := e.(interface{ Name() string }); ok {
			b.world.line("db", "="+e.Name(), "%s p=%s e=%d @%d", short(row.Stream), batch.Partition, batch.Epoch, row.Position)
		}
		h.kind.Evolve(h.state, e)
		h.version = version
	}
}

// about writes what an event is about, for the trace.
func (b *book) about(s *seen, batch *store.Batch, row *store.Row) string {
	text := fmt.Sprintf("%s p=%s e=%d @%d", short(s.history.id), batch.Partition, batch.Epoch, row.Position)
	if s.job >= 0 {
		text += fmt.Sprintf(" j%d", s.job)
	}
	if s.number > 0 {
		text += fmt.Sprintf(" a%d", s.number)
	}
	switch e := s.event.(type) {
	case *run.LeaseGranted:
		text += fmt.Sprintf(" to %s epoch %d", e.RunnerName, e.Epoch)
	case *run.AttemptConcluded:
		text += fmt.Sprintf(" %s %s", e.Outcome, e.Class)
	case *run.JobConcluded:
		text += fmt.Sprintf(" %s %s", e.Outcome, e.Reason.Code)
	case *run.RunConcluded:
		text += " " + string(e.Outcome)
	}
	return text
}

// held compares what an owner holds in memory with what the store's bytes add up to.
func (b *book) held(id domain.StreamID, version uint64, state any) {
	for i := range b.checks {
		if f := b.checks[i].held; f != nil {
			f(id, version, state)
		}
	}
}

// said notes what a runner sends.
func (b *book) said(m *machine, req *runnerv1.ExchangeRequest) {
	b.runners[domain.RunnerID(m.id.runner)] = m
	for i := range b.checks {
		if f := b.checks[i].said; f != nil {
			f(m, req)
		}
	}
}

// told notes what anybody who showed a runner's session was told, liars included.
func (b *book) told(m *machine, req *runnerv1.ExchangeRequest, resp *runnerv1.ExchangeResponse) {
	for i := range b.checks {
		if f := b.checks[i].told; f != nil {
			f(m, req, resp)
		}
	}
}

// shown notes what the observers of a server's incarnation were shown.
func (b *book) shown(s *server, p *process, rows []engine.Committed) {
	for i := range b.checks {
		if f := b.checks[i].shown; f != nil {
			f(s, p, rows)
		}
	}
}

// lost notes that they are shown nothing of a partition any more.
func (b *book) lost(p *process, partition domain.PartitionID) {
	for i := range b.checks {
		if f := b.checks[i].lost; f != nil {
			f(p, partition)
		}
	}
}

// heard notes what a runner is told.
func (b *book) heard(m *machine, req *runnerv1.ExchangeRequest, resp *runnerv1.ExchangeResponse) {
	b.told(m, req, resp)
	if t, ok := domain.ParseProvenToken(resp.GetToken(), resp.GetProof()); ok {
		b.token(t)
	}
	for _, ack := range resp.GetAcks() {
		id := ack.GetAttempt()
		switch domain.Code(ack.GetRefused()) {
		case domain.CodeInvalidArgument, domain.CodeTooLarge:
			b.world.violation("what an honest runner says is in order", "%s was refused: %s", id, ack.GetMessage())
		}
		if ack.GetChunks() > 0 && ack.GetRefused() == "" && !b.sealedEarly(domain.AttemptID(id)) {
			b.promises.chunks[id] = max(b.promises.chunks[id], ack.GetChunks())
		}
		if !ack.GetResult() {
			continue
		}
		for _, r := range req.GetResults() {
			if r.GetAttempt() == id && r.GetEpoch() == ack.GetEpoch() {
				b.resultAcknowledged(m, r)
			}
		}
	}
}

// sealedEarly says that a log is closed, of which the sealer may have thought, when somebody set
// the store's clock, that its patience was over. It names what it lacks, and what comes now may be
// forgotten.
func (b *book) sealedEarly(id domain.AttemptID) bool {
	h := b.streams[id.Run().Stream()]
	if b.world.setForward < reactor.Patience/2 || h == nil {
		return false
	}
	_, a, ok := h.run().AttemptByID(id)
	return ok && a.Log != nil && a.Log.Gaps > 0
}

// resultAcknowledged: an acknowledgement comes after the commit, so what was acknowledged is
// there at this moment, and for ever.
func (b *book) resultAcknowledged(m *machine, r *runnerv1.Result) {
	id, digest := domain.AttemptID(r.GetAttempt()), domain.Digest(r.GetDigest())
	b.promises.results[r.GetAttempt()] = digest
	h := b.streams[id.Run().Stream()]
	if h == nil {
		b.world.violation(checkAcknowledged, "a result of %s was acknowledged, and there is no run", id)
		return
	}
	if _, a, ok := h.run().AttemptByID(id); !ok || a.Report != digest {
		b.world.violation(checkAcknowledged, "%s was told that its report on %s is committed, and it is not", m.name, id)
	}
}

// printed notes what a job wrote, before anybody was told.
func (b *book) printed(a *attempt, c *runnerv1.Chunk) {
	lines := b.promises.printed[a.id]
	if lines == nil {
		lines = map[uint64]string{}
		b.promises.printed[a.id] = lines
	}
	lines[c.GetSequence()] = string(c.GetData())
}

// acts notes that a step of an attempt begins to do something, or has stopped.
func (b *book) acts(a *attempt, begins bool) {
	for i := range b.checks {
		if f := b.checks[i].acts; f != nil {
			f(a, begins)
		}
	}
}

// mayAct notes that a runner was allowed an attempt until a later time than before.
func (b *book) mayAct(a *attempt) {
	for i := range b.checks {
		if f := b.checks[i].mayAct; f != nil {
			f(a)
		}
	}
}

func (b *book) token(t domain.Token) {
	if t != (domain.Token{}) {
		b.promises.tokens = append(b.promises.tokens, t)
		for i := range b.checks {
			if f := b.checks[i].token; f != nil {
				f(t)
			}
		}
	}
}

func (b *book) accepted(c *client, r *remote, key string, a trigger.Accepted) {
	b.token(a.Token)
	b.promises.runs = append(b.promises.runs, acceptedRun{c.name, key, r, a.Run, a.Token})
	if b.streams[a.Run.Stream()] == nil {
		b.world.violation(checkAcknowledged, "%s was promised %s, and there is no such run", c.name, a.Run)
	}
	for i := range b.checks {
		if f := b.checks[i].promised; f != nil {
			f(c.name, r.tenant, a.Run)
		}
	}
}

func (b *book) cancelled(id domain.RunID) { b.promises.cancels = append(b.promises.cancels, id) }

func (b *book) pushed(r *remote, commit string, p trigger.Pushed) {
	for _, a := range p.Runs {
		key := string(r.id) + "@" + commit
		if before := b.promises.pushes[key]; before != "" && before != a.Run {
			b.world.violation(checkOneRun, "the push of %.7s started %s, then %s", commit, before, a.Run)
		}
		b.promises.pushes[key] = a.Run
	}
}

// started says whether a commit of a repository has a run that its push started.
func (b *book) started(r *remote, commit string) bool {
	for _, id := range b.order {
		if s := b.streams[id].run(); s != nil && s.Request.Repository == r.id && s.Request.Source.Commit == commit &&
			s.Request.Trigger.Event == "push" {
			return true
		}
	}
	return false
}

// known is an attempt as far as history tells.
type known struct {
	id     domain.AttemptID
	epoch  uint64
	runner domain.RunnerID
	open   bool
}

// anyAttempt picks an attempt of some run; open: one that has no outcome, if there is one.
func (b *book) anyAttempt(r *rand.Rand, open bool) (known, bool) {
	all := b.attempts()
	if live := slices.DeleteFunc(slices.Clone(all), func(k known) bool { return !k.open }); open && len(live) > 0 {
		all = live
	}
	if len(all) == 0 {
		return known{}, false
	}
	return all[r.IntN(len(all))], true
}

// attempts lists all there are.
func (b *book) attempts() (all []known) {
	for _, id := range b.order {
		s := b.streams[id].run()
		if s == nil {
			continue
		}
		for j := range s.Jobs {
			for i := range s.Jobs[j].Attempts {
				a := &s.Jobs[j].Attempts[i]
				all = append(all, known{s.AttemptID(j, a.Number), a.Epoch, a.Runner, a.Outcome == domain.OutcomeNone})
			}
		}
	}
	return all
}

// liveAttempt is an attempt without an outcome.
type liveAttempt struct {
	remote  *remote
	attempt domain.AttemptID
}

// current are the attempts without an outcome that are wanted.
func (b *book) current(wanted func(*run.Attempt) bool) (out []liveAttempt) {
	for _, id := range b.order {
		s := b.streams[id].run()
		if s == nil {
			continue
		}
		for j, job := range s.Jobs {
			if a := job.Current(); a != nil && wanted(a) {
				i := slices.IndexFunc(b.world.remotes, func(r *remote) bool { return r.id == s.Request.Repository })
				out = append(out, liveAttempt{b.world.remotes[i], s.AttemptID(j, a.Number)})
			}
		}
	}
	return out
}

// restless names a run that is not at its end: neither concluded with its logs sealed, nor
// held for a person.
func (b *book) restless() string {
	for _, id := range b.order {
		s := b.streams[id].run()
		if s == nil {
			continue
		}
		for _, wait := range run.Waits(s) {
			switch wait.Reason.Code {
			case run.ReasonUncertainHeld, run.ReasonWaitingForRunner, run.ReasonNeedsUnfinished,
				run.ReasonGroup, run.ReasonMatrixUnexpanded, run.ReasonMaxParallel, run.ReasonLegsUnfinished,
				run.ReasonCallUnopened, run.ReasonCallUnfinished:
				if b.mayRest(s, wait.Job) {
					continue
				}
			}
			return fmt.Sprintf("%s job %d waits: %s", id, wait.Job, s.Sentence(wait.Reason))
		}
	}
	return ""
}

// mayRest says whether a job waits rightly although the world is at rest: for a person, for
// a runner that its tenant does not have, or for a job that does.
func (b *book) mayRest(s *run.State, j int) bool {
	job := s.Jobs[j]
	if job.Reason.Code == run.ReasonGroup {
		return b.holderRests(s, j)
	}
	switch job.State {
	case run.StateReady:
		return s.Request.Tenant != b.world.tenants[0] || !slices.Contains(tiers, s.Request.Tier)
	case run.StateActive:
		return job.Current().Held
	case run.StateExpanded:
		parts := job.Legs
		if s.Calls(j) {
			parts = s.Called(j)
		}
		return slices.ContainsFunc(parts, func(l int) bool {
			return s.Jobs[l].State != run.StateWaiting && s.Jobs[l].State != run.StateConcluded && b.mayRest(s, l)
		})
	case run.StateWaiting:
		if leg := s.Skeleton(j).Leg; leg != nil {
			return b.mayRest(s, leg.Of)
		}
		if c, called := s.CallerOf(j); called && job.Reason.Code == run.ReasonCallUnopened {
			return b.mayRest(s, c)
		}
		for _, need := range s.Skeleton(j).Needs {
			if s.Jobs[need].State != run.StateConcluded && b.mayRest(s, need) {
				return true
			}
		}
	}
	return false
}

// close is the reckoning when the world has come to rest.
func (b *book) close() {
	for i := range b.checks {
		if f := b.checks[i].end; f != nil {
			f()
		}
	}
	b.reckon()
}

// sortedAttempts gives the attempts of a map in a fixed order.
func sortedAttempts[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// holderRests reports whether the place that a job waits for is held by somebody who waits rightly.
func (b *book) holderRests(s *run.State, j int) bool {
	place := s.PlaceOf(group.Whole)
	if place == nil || place.Admitted {
		place = s.PlaceOf(j)
	}
	if place == nil {
		return false
	}
	h := b.streams[group.Stream(s.Request.Repository, place.Group)]
	if h == nil {
		return false
	}
	holder := h.state.(*group.State).Holder()
	if holder == nil || holder.Key == (group.Key{Run: s.Request.Run, Job: j, Round: s.Round()}) {
		return false
	}
	of := b.streams[holder.Run.Stream()].run()
	if holder.Job != group.Whole {
		return b.mayRest(of, holder.Job)
	}
	for k, job := range of.Jobs {
		if job.State != run.StateConcluded && b.mayRest(of, k) {
			return true
		}
	}
	return false
}
