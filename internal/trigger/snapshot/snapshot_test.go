package snapshot_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// versionOne is a snapshot as the first release wrote it.
const versionOne = `{"version":1,"evaluator":1,"tenant":"tnt_default","repository":"rep_1","repository_name":"a/b",` +
	`"source":{"commit":"c7","tree":"t1"},"workflow":{"path":"ci.yml","name":"ci","digest":"sha256:aa"},` +
	`"policy":"builtin/1","tier":"trusted","class":"batch","trigger":{"event":"push","key":"k","actor":` +
	`{"kind":"user","id":"ada"}},"github":"sha256:bb"}` + "\n"

// Promises: [FORMAT-1].
func TestVersionOneIsRead(t *testing.T) {
	t.Parallel()
	s, err := snapshot.Decode([]byte(versionOne))
	if err != nil || s.Trigger.Key != "k" || !slices.Equal(s.Objects(), []domain.Digest{"sha256:aa", "sha256:bb"}) {
		t.Fatalf("%+v, %v", s, err)
	}
	if string(s.Encode()) != versionOne {
		t.Errorf("it is written as %s", s.Encode())
	}
}

// Promises: [FORMAT-2].
func TestCanonical(t *testing.T) {
	t.Parallel()
	s := &snapshot.Snapshot{
		Version: snapshot.Version, Evaluator: plan.Evaluator, Tenant: domain.DefaultTenant, RepositoryName: "a/b<c>",
		Source: snapshot.Source{Commit: "c7", Tree: "t1", Ref: "refs/heads/main"},
		Tier:   domain.TierTrusted, Class: domain.ClassBatch, Given: []snapshot.Binding{{Name: "x", Value: "1"}},
		Inputs:  []plan.Input{{Name: "x", Type: plan.InputNumber, Value: "1"}},
		Trigger: snapshot.Trigger{Event: "push", Actor: domain.Actor{Kind: "user", ID: "ada"}},
		Github:  json.RawMessage(`{"ref":"refs/heads/<main>"}`),
	}
	back, err := snapshot.Decode(s.Encode())
	if err != nil || !bytes.Equal(back.Encode(), s.Encode()) {
		t.Errorf("a snapshot does not come back as it was: %v", err)
	}
	text := string(s.Encode())
	for _, bad := range []string{
		strings.Replace(text, `"version":3`, `"version":4`, 1),
		strings.Replace(text, `"version":3`, `"version":1`, 1),
		strings.Replace(text, `"version":3`, `"version":3,"unknown":true`, 1),
		strings.Replace(text, `"event":"push"`, `"event":"push","key":"k"`, 1),
		strings.Replace(versionOne, `"version":1`, `"version":2`, 1),
		"", "{}", text[:len(text)/2],
	} {
		if _, err := snapshot.Decode([]byte(bad)); err == nil {
			t.Errorf("%.60q was read", bad)
		}
	}
}
