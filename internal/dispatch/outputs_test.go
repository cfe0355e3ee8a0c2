package dispatch

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// What is too large for an event becomes an object before the command is sent; a result whose
// object can't be kept now is not sent, and the runner brings it again.
func TestLargeOutputsBecomeObjects(t *testing.T) {
	large := strings.Repeat("x", run.OutputBytesMax+1)
	in := resultCommand(domain.Cause{}, &runnerv1.Result{Outputs: []*runnerv1.Output{
		{Name: "small", Value: "v"}, {Name: "large", Value: large}}})
	var kept []string
	full := false
	d := New(Config{Keep: func(_ context.Context, tenant domain.TenantID, data []byte) (domain.Digest, error) {
		if full {
			return "", errors.New("no space")
		}
		kept = append(kept, string(tenant)+" "+string(data))
		return domain.DigestOf(data), nil
	}})
	out, err := d.offload(t.Context(), "tnt_a", in)
	if err != nil {
		t.Fatal(err)
	}
	want := []run.Output{{Name: "small", Value: "v"},
		{Name: "large", Digest: domain.DigestOf([]byte(large)), Size: int64(len(large))}}
	if diff := cmp.Diff(want, out.(run.ReportResult).Outputs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"tnt_a " + large}, kept); diff != "" {
		t.Error(diff)
	}
	if in.Outputs[1].Value != large {
		t.Error("the command itself was changed")
	}
	full = true
	if _, err := d.offload(t.Context(), "tnt_a", in); err == nil {
		t.Error("an output that could not be kept went on")
	}
	if same, err := d.offload(t.Context(), "tnt_a", run.Wake{}); err != nil || same != (run.Wake{}) {
		t.Errorf("another command became %v: %v", same, err)
	}
}
