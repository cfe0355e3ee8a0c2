package run

import (
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// ended is what became of a job that reports so many outputs, each of the given size.
func ended(t *testing.T, w *teller, job string, outputs ...Output) *Job {
	t.Helper()
	if _, err := w.tell([]string{"lease " + job}); err != nil {
		t.Fatal(err)
	}
	j, err := w.jobOf(job)
	if err != nil {
		t.Fatal(err)
	}
	a := w.live.Jobs[j].Current()
	_, rejection, err := w.do(ReportResult{Attempt: w.live.AttemptID(j, a.Number), Epoch: a.Epoch,
		Digest: domain.DigestOf([]byte(job)), Outcome: domain.OutcomeSuccess, Outputs: outputs})
	if rejection != nil || err != nil {
		t.Fatalf("%v, %v", rejection, err)
	}
	return w.live.Jobs[j]
}

func object(name string, size int64) Output {
	return Output{Name: name, Digest: domain.DigestOf([]byte(name)), Size: size}
}

func TestOutputsOverTheBoundOfAJobFailIt(t *testing.T) {
	w := &teller{world: newWorld()}
	if _, err := w.tell([]string{"request", "job a"}); err != nil {
		t.Fatal(err)
	}
	job := ended(t, w, "a", Output{Name: "small", Value: "x"}, object("big", 1<<20))
	if job.Outcome != domain.OutcomeFailure || !strings.Contains(job.Reason.Message, "the biggest is big of a with") ||
		len(w.live.Outputs(0)) != 0 {
		t.Errorf("%s: %s", job.Outcome, w.live.Sentence(job.Reason))
	}
}

func TestOutputsOverTheBoundOfARunFailTheJobThatExceedsIt(t *testing.T) {
	w := &teller{world: newWorld()}
	if _, err := w.tell([]string{"request", "job a legs=60", "job b needs=a"}); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 50; n++ {
		if job := ended(t, w, legKey("a", n), object("big", 1_000_000)); job.Outcome != domain.OutcomeSuccess {
			t.Fatalf("leg %d: %s", n, w.live.Sentence(job.Reason))
		}
	}
	for n := 51; n <= 53; n++ {
		job := ended(t, w, legKey("a", n), object("huge", 1_040_000))
		if want := n < 53; want != (job.Outcome == domain.OutcomeSuccess) {
			t.Fatalf("leg %d: %s", n, w.live.Sentence(job.Reason))
		}
		if n == 53 && !strings.Contains(job.Reason.Message, "the biggest is huge of a.53 with") {
			t.Error(job.Reason.Message)
		}
	}
}
