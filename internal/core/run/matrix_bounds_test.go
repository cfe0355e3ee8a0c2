package run

import (
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [RUN-19].
func TestAMatrixBeyondItsBoundsFailsItsJobAtOnce(t *testing.T) {
	for name, legs := range map[string][]NewLeg{
		"have more than": make([]NewLeg, 256),
		"has no values":  {{Matrix: `"` + strings.Repeat("x", matrixBytesMax) + `"`}},
		"the limit is":   make([]NewLeg, legsMax+1),
		"is not UTF-8":   {{Matrix: "{\"v\":\"\xff\"}"}},
	} {
		w := &teller{world: newWorld()}
		if _, err := w.tell([]string{"request", "job test later"}); err != nil {
			t.Fatal(err)
		}
		c := RecordMatrix{Job: w.live.JobID(0), InputDigest: w.live.Jobs[0].Evaluation.InputDigest, Legs: legs}
		for i := range legs {
			if legs[i].Matrix == "" {
				legs[i].Matrix = `"` + strings.Repeat("x", 100<<10) + `"`
			}
		}
		d, rejection := Decide(w.live, c, start)
		if rejection != nil {
			t.Fatalf("%s: %v", name, rejection)
		}
		for _, e := range d.Events {
			Evolve(w.live, e)
		}
		if job := w.live.Jobs[0]; job.Outcome != domain.OutcomeFailure || job.Reason.Code != ReasonMatrixInvalid ||
			!strings.Contains(job.Reason.Message, name) {
			t.Errorf("%s: %s: %s", name, job.Outcome, w.live.Sentence(job.Reason))
		}
	}
}
