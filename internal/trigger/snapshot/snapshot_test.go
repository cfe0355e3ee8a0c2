package snapshot_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Promises: [FORMAT-2].
func TestCanonical(t *testing.T) {
	t.Parallel()
	s := &snapshot.Snapshot{
		Version: snapshot.Version, Evaluator: plan.Evaluator, Tenant: domain.DefaultTenant, RepositoryName: "a/b<c>",
		Source: snapshot.Source{Commit: "c7", Tree: "t1", Ref: "refs/heads/main"},
		Tier:   domain.TierTrusted, Class: domain.ClassBatch, Given: []snapshot.Binding{{Name: "x", Value: "1"}},
		Inputs:  []plan.Input{{Name: "x", Type: plan.InputNumber, Value: "1"}},
		Trigger: snapshot.Trigger{Event: "push", Key: "k", Actor: domain.Actor{Kind: "user", ID: "ada"}},
	}
	back, err := snapshot.Decode(s.Encode())
	if err != nil || !bytes.Equal(back.Encode(), s.Encode()) {
		t.Errorf("a snapshot does not come back as it was: %v", err)
	}
	text := string(s.Encode())
	for _, bad := range []string{
		strings.Replace(text, `"version":1`, `"version":2`, 1),
		strings.Replace(text, `"version":1`, `"version":1,"unknown":true`, 1),
		"", "{}", text[:len(text)/2],
	} {
		if _, err := snapshot.Decode([]byte(bad)); err == nil {
			t.Errorf("%.60q was read", bad)
		}
	}
}
