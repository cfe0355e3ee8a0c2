package snapshot_test

import (
	"encoding/json"
	"flag"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/testkit/frozen"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

var rewrite = flag.Bool("rewrite", false, "write golden files that don't exist yet")

// versionTwo is a snapshot with a value in every field of version 2.
func versionTwo() *snapshot.Snapshot {
	return &snapshot.Snapshot{
		Version: 2, Evaluator: 1, Tenant: "tnt_default", Repository: "rep_00000000000000000000000001",
		RepositoryName: "team/app<é>",
		Source:         snapshot.Source{Commit: "c7", Tree: "t1", Ref: "refs/heads/main", Captured: true},
		Workflow:       snapshot.Workflow{Path: "ci.yml", Name: "CI", Digest: domain.DigestOf([]byte("on: push"))},
		Components:     []snapshot.Component{{Name: "actions/checkout@v4", Digest: "c8"}},
		Policy:         "builtin/1", Tier: domain.TierTrusted, Class: domain.ClassBatch,
		Given:  []snapshot.Binding{{Name: "x", Value: "1"}},
		Inputs: []plan.Input{{Name: "x", Type: plan.InputNumber, Value: "1"}},
		Trigger: snapshot.Trigger{Event: "push", Actor: domain.Actor{Kind: "user", ID: "ada", Via: "cli"}, Before: "c6",
			Delivery: "d1"},
		Github: json.RawMessage(`{"ref":"refs/heads/main","event":{"a":"<b>"}}`),
	}
}

// versionThree is one with a value in every field of version 3.
func versionThree() *snapshot.Snapshot {
	s := versionTwo()
	s.Version = 3
	s.Components = []snapshot.Component{{Name: "octo/greet/sub@v1", Digest: "git:c8:t8",
		Mirror: "rep_00000000000000000000000002", File: "sub/action.yml", Text: domain.DigestOf([]byte("runs:"))}}
	return s
}

// A run's history names its snapshot by the digest of these bytes. Version 1 is TestVersionOneIsRead.
// Promises: [FORMAT-14], [FORMAT-17].
func TestStoredSnapshots(t *testing.T) {
	t.Parallel()
	form := frozen.Form{Name: "testdata/frozen/snapshot", Newest: snapshot.Version, Text: true, Rewrite: *rewrite}
	frozen.Full(t, versionThree(), "Trigger.Key", "GithubObject")
	form.Written(t, versionThree().Encode())
	if got, err := snapshot.Decode(form.Read(t, 3)); err != nil || cmp.Diff(versionThree(), got) != "" {
		t.Errorf("version 3 is read as another snapshot: %v, %s", err, cmp.Diff(versionThree(), got))
	}
	data := form.Read(t, 2)
	got, err := snapshot.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(versionTwo(), got); diff != "" {
		t.Errorf("version 2 is read as another snapshot: %s", diff)
	}
	if domain.DigestOf(got.Encode()) != domain.DigestOf(data) {
		t.Error("version 2 has another digest when it was read")
	}
}
