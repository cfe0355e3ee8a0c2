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

// told plays blocks of a story, each of one line.
func told(t *testing.T, w *teller, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if out, err := w.tell([]string{line}); err != nil || strings.HasPrefix(out[0], "rejected") {
			t.Fatalf("%s: %v, %v", line, out, err)
		}
	}
}

// needed is what the order of the job's live attempt says of its needs.
func needed(t *testing.T, w *teller, job string) string {
	t.Helper()
	j, err := w.jobOf(job)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range BriefOf(w.live, j, w.live.Jobs[j].Current()).Needs {
		for _, o := range n.Outputs {
			out = append(out, n.Key+"."+o.Name+"="+o.Value)
		}
	}
	return strings.Join(out, " ")
}

// Promises: [RUN-21].
func TestS26OutputsSurviveARerunOfFailedJobs(t *testing.T) {
	w := &teller{world: newWorld()}
	if _, err := w.tell([]string{"request", "job prep", "job print needs=prep legs=2"}); err != nil {
		t.Fatal(err)
	}
	told(t, w, "lease prep", "report prep/a1 success outputs=uuid:4711", "lease print.1")
	first := needed(t, w, "print.1")
	told(t, w, "report print.1/a1 failure steps=1:success,2:failure:1", "rerun failed by=ben", "lease print.1")
	if again := needed(t, w, "print.1"); first != "prep.uuid=4711" || again != first {
		t.Errorf("first %q, then %q", first, again)
	}
	if prep := w.live.Jobs[0]; len(prep.Attempts) != 1 || len(w.live.Jobs[2].Attempts) != 2 || w.live.Round() != 2 {
		t.Errorf("prep has %d attempts", len(prep.Attempts))
	}
}

func TestS27ARerunOfAllWaitsForTheNewAttempts(t *testing.T) {
	w := &teller{world: newWorld()}
	if _, err := w.tell([]string{"request", "job job1", "job job2 legs=1", "job job3 needs=job1,job2"}); err != nil {
		t.Fatal(err)
	}
	told(t, w, "lease job1", "report job1/a1 success outputs=v:old1", "lease job2.1",
		"report job2.1/a1 success outputs=v:old2", "lease job3", "report job3/a1 success", "rerun all by=ben",
		"lease job1", "report job1/a2 success outputs=v:new1")
	if job3 := w.live.Jobs[2]; job3.State != StateWaiting {
		t.Errorf("job3 is %s", job3.State)
	}
	told(t, w, "lease job2.1", "report job2.1/a2 success outputs=v:new2", "lease job3")
	if got := needed(t, w, "job3"); got != "job1.v=new1 job2.v=new2" {
		t.Errorf("job3 sees %q", got)
	}
}
