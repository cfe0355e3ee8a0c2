package manifest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"flag"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/testkit/frozen"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

var rewrite = flag.Bool("rewrite", false, "write golden files that don't exist yet")

// versionOne is a manifest with a value in every field of version 1.
func versionOne() *Manifest {
	run := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 15: 2}))
	return &Manifest{
		Version: 1, Tenant: "tnt_default", Repository: "rep_00000000000000000000000001", Run: run, Job: run.Job(1),
		Attempt: run.Job(1).Attempt(2), Number: 2, Round: 1, Epoch: 3, Runner: "rnr_1", Pool: "default", Slot: "rnr_1/0/7",
		Issued:  time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC),
		Expires: time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC),
		Tier:    domain.TierTrusted, Class: domain.ClassBatch, Network: "pool", Effectful: true,
		RepositoryName: "team/app", RunNumber: 12, JobKey: "deploy", JobName: "Deploy <it>",
		Source: Source{Path: "/git/app", Commit: "c7", Ref: "refs/heads/main"},
		Token:  "fat_token", Plan: domain.DigestOf([]byte("plan")),
		Github: json.RawMessage(`{"ref":"refs/heads/main"}`), Inputs: json.RawMessage(`{"x":1}`),
		Needs: json.RawMessage(`{"build":{"result":"success"}}`),
		Env:   []plan.Binding{{Name: "A", Value: "1"}},
		Steps: []plan.Step{{Index: 1, ID: "it", Name: "Do it", Uses: plan.UsesRun, Script: "make", Shell: "bash",
			WorkDir: "sub", Env: []plan.Binding{{Name: "B", Value: "2"}}, If: "always()", TimeoutSeconds: 5, SoftFail: true,
			Cleanup: true, Line: 20}},
		TimeoutSeconds: 60,
		Limits:         Limits{StepLogBytes: 1, AttemptLogBytes: 2, GraceSeconds: 3, DiskBytes: 4},
		IdempotencyKey: "key",
	}
}

// versionOneToday has the fields that came to version 1 since.
func versionOneToday() *Manifest {
	m := versionOne()
	m.Matrix, m.Strategy = json.RawMessage(`{"os":"linux"}`), json.RawMessage(`{"fail-fast":true}`)
	m.Outputs = []plan.Binding{{Name: "out", Value: "${{ steps.it.outputs.x }}"}}
	m.Steps[0].SoftFailText, m.Steps[0].TimeoutText = "${{ matrix.soft }}", "${{ matrix.minutes }}"
	return m
}

// withActions has the fields that came with actions. Runners of before refuse it.
func withActions() *Manifest {
	m := versionOneToday()
	m.Components = []Component{{Component: "git:c8:t8", Path: "/git/greet", Commit: "c8"}}
	m.Steps[0].Action, m.Steps[0].Component, m.Steps[0].ActionPath = "octo/greet/sub@v1", "git:c8:t8", "sub"
	m.Steps[0].With, m.Steps[0].Outputs = []plan.Binding{{Name: "name", Value: "Ada"}}, m.Outputs
	m.Steps[0].Steps = []plan.Step{m.Steps[0]}
	return m
}

// A runner keeps the manifests of its jobs over an upgrade, and servers and runners are of
// neighbouring versions.
// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenManifests(t *testing.T) {
	form := frozen.Form{Name: "testdata/frozen/manifest", Newest: 3, Text: true, Rewrite: *rewrite}
	frozen.Full(t, withActions(), "Steps.Steps.Steps", "Steps.Unmet", "Steps.Steps.Unmet") // nothing unmet is run
	data, err := withActions().Encode()
	if err != nil {
		t.Fatal(err)
	}
	form.Written(t, data)
	for number, want := range []*Manifest{versionOne(), versionOneToday(), withActions()} {
		got, err := parse(form.Read(t, number+1))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("file %d is read as another manifest: %s", number+1, diff)
		}
	}
}

// What is signed for one manifest is its bytes; for several it is a statement with their digests.
// Promises: [FORMAT-14], [FORMAT-17].
func TestWhatIsSignedIsFrozen(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	ring := Keyring{"k1": key.Public().(ed25519.PublicKey)}
	name := "testdata/frozen/"
	payload := frozen.Form{Name: name + "manifest", Newest: 1, Text: true}.Read(t, 1)
	payloads := [][]byte{payload, []byte("another")}
	digests := frozen.Form{Name: name + "digests", Newest: 1, Rewrite: *rewrite}
	digests.Written(t, Digests(payloads))
	statement := frozen.Form{Name: name + "statement", Newest: 1, Rewrite: *rewrite}
	statement.Written(t, Statement(digests.Read(t, 1)))
	batch := frozen.Form{Name: name + "batch-signature", Newest: 1, Rewrite: *rewrite}
	batch.Written(t, ed25519.Sign(key, statement.Read(t, 1)))
	alone := frozen.Form{Name: name + "signature", Newest: 1, Rewrite: *rewrite}
	alone.Written(t, ed25519.Sign(key, payload))

	o := NewOpener(ring, Batch{Digests: digests.Read(t, 1), KeyID: "k1", Signature: batch.Read(t, 1)})
	if m, err := o.Open(payload, "", nil); err != nil || m.Attempt != versionOne().Attempt {
		t.Errorf("signed with others: %+v, %v", m, err)
	}
	if m, err := Open(payload, "k1", alone.Read(t, 1), ring); err != nil || m.Attempt != versionOne().Attempt {
		t.Errorf("signed alone: %+v, %v", m, err)
	}
}
