package plan

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

func TestAncestorsAreTransitiveAndSorted(t *testing.T) {
	p := &Plan{Jobs: []Job{{Index: 0, Needs: []int{3}}, {Index: 1}, {Index: 2, Needs: []int{0, 1}}, {Index: 3},
		{Index: 4, Needs: []int{2, 1}}}}
	want := [][]int{{3}, nil, {0, 1, 3}, nil, {0, 1, 2, 3}}
	for i := range p.Jobs {
		if diff := cmp.Diff(want[i], p.Ancestors(i)); diff != "" {
			t.Errorf("job %d: %s", i, diff)
		}
	}
}

// Promises: [RUN-14].
func TestEncodingIsCanonical(t *testing.T) {
	p := &Plan{Evaluator: Evaluator, Name: "a <b> & c", Path: "w.yml", Inputs: []Input{{"x", InputString,
		"1"}}, Jobs: []Job{{Key: "j"}}}
	if !bytes.Contains(p.Encode(), []byte("a <b> & c")) {
		t.Error("text is escaped for a browser")
	}
	back, err := Decode(p.Encode())
	if err != nil || back.Digest() != p.Digest() {
		t.Errorf("round trip: %v", err)
	}
	if _, err := Decode([]byte(`{"evaluator": 9, "novelty": 1}`)); err == nil || !strings.Contains(err.Error(),
		"novelty") {
		t.Errorf("an unknown field: %v", err)
	}
}

func TestNeedResult(t *testing.T) {
	for outcome, want := range map[domain.Outcome]string{
		domain.OutcomeNone: "", domain.OutcomeSuccess: "success", domain.OutcomeSoftFailure: "success",
		domain.OutcomeFailure: "failure", domain.OutcomeTimedOut: "failure", domain.OutcomeSkipped: "skipped",
		domain.OutcomeCancelled: "cancelled", domain.OutcomeSuperseded: "cancelled",
	} {
		if got := NeedResult(outcome); got != want {
			t.Errorf("%q is %q, want %q", outcome, got, want)
		}
	}
}
