package sim

import (
	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// checker defends one sentence. It keeps what it needs to know by itself; whatever it finds
// broken it reports as a violation of its sentence. Fields that are nil are not interested.
type checker struct {
	sentence string
	event    func(e *seen)                                       // a committed event of a run
	batch    func(b *store.Batch)                                // a committed batch, before its events
	acquired func(own store.Ownership)                           // a partition has a new owner
	held     func(id domain.StreamID, version uint64, state any) // what an owner holds in memory
	acts     func(a *attempt, begins bool)                       // a step of a job begins or stops acting
	mayAct   func(a *attempt)                                    // an attempt may act longer than before
	end      func()                                              // the world has come to rest

	said func(m *machine, req *runnerv1.ExchangeRequest) // by an honest runner
	// told to whoever asked, liars too
	told     func(m *machine, req *runnerv1.ExchangeRequest, resp *runnerv1.ExchangeResponse)
	token    func(t domain.Token)                                         // was given to somebody
	promised func(client string, tenant domain.TenantID, id domain.RunID) // a run, to a client
	shown    func(s *server, p *process, rows []engine.Committed)         // to a server's observers
	lost     func(p *process, partition domain.PartitionID)               // what was shown is over
}

// checkers makes the checkers of a world. Each is a file.
func checkers(w *world) []checker {
	return []checker{
		actsOnce(w), oneRunPerTrigger(w), noOccurrenceIsLost(w), resultNeverChanges(w), currentEpochOnly(w), oneLiveLease(w),
		readyNeedsCommitted(w), tierAccepted(w), neverTwoActing(w), acknowledgedSurvives(w), gaplessLog(w),
		replayEqualsMemory(w), everyWaitHasAnEnd(w), cancelConcludes(w), nothingDropped(w),
		refusalRecorded(w), silenceIsNoEnd(w), effectNotRepeated(w), uncertainEffectHeld(w), resultIsItsHolders(w),
		tenantsApart(w), everyRowShown(w), noRuleBroken(w), legsKeepTogether(w), callsKeepTogether(w),
		oneOfAGroup(w),
	}
}
