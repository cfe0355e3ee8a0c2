package sim

import (
	"fmt"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [RUN-3].
const checkRecorded = "a result that is refused, or that contradicts the committed one, is kept as evidence"

// refusalsKeptMax is how many are kept one by one; of the others only a number is.
const refusalsKeptMax = 10

// refusalRecorded looks for what was refused in the history, at the moment at which somebody
// is told so.
func refusalRecorded(w *world) checker {
	kept := map[string]int{} // by attempt and code
	reports := map[string]bool{}
	keep := func(e *seen, code domain.Code, report domain.Digest) {
		kept[fmt.Sprintf("%s %s", e.attempt(), code)]++
		reports[fmt.Sprintf("%s %s %s", e.attempt(), code, report)] = true
	}
	return checker{
		sentence: checkRecorded,
		event: func(e *seen) {
			switch event := e.event.(type) {
			case *run.ReportRefused:
				keep(e, domain.CodeLeaseEpochStale, event.Report)
			case *run.ReportConflicted:
				keep(e, domain.CodeReportConflicted, event.Report)
			}
		},
		told: func(m *machine, req *runnerv1.ExchangeRequest, resp *runnerv1.ExchangeResponse) {
			if len(req.GetResults()) != 1 || len(req.GetChunks())+len(req.GetProgress())+len(req.GetDeclines()) > 0 {
				return // what the refusal is about would not be plain
			}
			r := req.GetResults()[0]
			id := domain.AttemptID(r.GetAttempt())
			h := w.book.streams[id.Run().Stream()]
			if h == nil || h.tenant != w.tenantOf(m) {
				return // it was told the same as of what is not there
			}
			for _, ack := range resp.GetAcks() {
				code := ack.GetRefused()
				switch domain.Code(code) {
				case domain.CodeLeaseEpochStale, domain.CodeReportConflicted:
				default:
					continue
				}
				what := fmt.Sprintf("%s %s", id, code)
				if !reports[what+" "+r.GetDigest()] && kept[what] < refusalsKeptMax {
					w.violation(checkRecorded, "%s was told %s of %s epoch %d, and history keeps nothing of it",
						m.name, code, id, r.GetEpoch())
				}
			}
		},
	}
}
