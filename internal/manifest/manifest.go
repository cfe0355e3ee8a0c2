// Package manifest is the signed order to execute one attempt: everything a runner
// needs, and nothing it could use for anything else.
//
// It is deliberately free of secrets other than the attempt's own short-lived token,
// and of behaviour: signing is credential's work, executing is the runner's.
//
// Invariants: the signature covers exactly the bytes that are parsed; a manifest names
// its runner, attempt and epoch, so it can't be replayed elsewhere; an unknown field or
// version is refused, never half understood.
//
// Read next: internal/runner/doc.go
package manifest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Version of the manifest's form.
const Version = 1

// MaxBytes bounds an encoded manifest.
const MaxBytes = 16 << 20

// Manifest orders one attempt.
type Manifest struct {
	Version    int                 `json:"version"`
	Tenant     domain.TenantID     `json:"tenant"`
	Repository domain.RepositoryID `json:"repository"`
	Run        domain.RunID        `json:"run"`
	Job        domain.JobID        `json:"job"`
	Attempt    domain.AttemptID    `json:"attempt"`
	Number     int                 `json:"number"` // of the attempt
	Round      int                 `json:"round"`
	Epoch      uint64              `json:"epoch"`
	Runner     domain.RunnerID     `json:"runner"`
	Pool       domain.PoolID       `json:"pool"`
	Slot       domain.SlotToken    `json:"slot"`
	Issued     time.Time           `json:"issued"`
	Expires    time.Time           `json:"expires"` // a runner refuses to start it later
	Tier       domain.Tier         `json:"tier"`
	Class      domain.Class        `json:"class"`
	Network    string              `json:"network"` // "pool": whatever the pool allows
	Effectful  bool                `json:"effectful,omitempty"`

	RepositoryName string `json:"repository_name"`
	RunNumber      uint64 `json:"run_number"`
	JobKey         string `json:"job_key"`
	JobName        string `json:"job_name"`

	Source Source `json:"source"`
	// Components are the sources of the actions that the steps use.
	Components []Component   `json:"components,omitempty"`
	Token      string        `json:"token"` // attempt-scoped credential; dies with the attempt
	Plan       domain.Digest `json:"plan"`

	// Github is the github context as JSON object text: what expressions and GITHUB_*
	// variables are made from.
	Github json.RawMessage `json:"github"`
	// Inputs is the inputs context as JSON object text.
	Inputs json.RawMessage `json:"inputs,omitempty"`
	// Needs is the needs context as JSON object text (result and outputs per job key).
	Needs json.RawMessage `json:"needs,omitempty"`
	// Matrix and Strategy are those contexts of a leg of a job with a matrix, as JSON object text.
	Matrix   json.RawMessage `json:"matrix,omitempty"`
	Strategy json.RawMessage `json:"strategy,omitempty"`

	Env   []plan.Binding `json:"env,omitempty"`
	Steps []plan.Step    `json:"steps"`
	// Outputs are evaluated when the steps have ended, and reported with the result.
	Outputs        []plan.Binding `json:"outputs,omitempty"`
	TimeoutSeconds int64          `json:"timeout_seconds"`
	Limits         Limits         `json:"limits"`
	// IdempotencyKey is stable over attempts of the same job of the same run.
	IdempotencyKey string `json:"idempotency_key"`
}

// Component says where the files of an action come from. They are fetched like the source, and
// never put into the workspace.
type Component struct {
	Component string `json:"component,omitempty"` // as steps of the plan name it; "" is the source itself
	Path      string `json:"path"`
	Commit    string `json:"commit"`
}

// Source says where the pinned commit comes from.
type Source struct {
	// Path is the smart HTTP path on the server the runner is registered with.
	Path   string `json:"path"`
	Commit string `json:"commit"` // 40 or 64 hex characters
	Ref    string `json:"ref"`    // what the event named; never resolved again
}

// Limits bound what an attempt may do. Zero means the runner's own default.
type Limits struct {
	StepLogBytes    int64 `json:"step_log_bytes"`
	AttemptLogBytes int64 `json:"attempt_log_bytes"`
	GraceSeconds    int64 `json:"grace_seconds"`
	DiskBytes       int64 `json:"disk_bytes,omitempty"`
}

// Faults of Open.
var (
	ErrSignature = errors.New("manifest signature does not verify")
	ErrForm      = errors.New("manifest is malformed")
)

// Encode gives the bytes that are signed.
func (m *Manifest) Encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode manifest %s: %w", m.Attempt, err)
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("encode manifest %s: %d bytes, limit %d", m.Attempt, len(data), MaxBytes)
	}
	return data, nil
}

// Keyring holds the keys that manifests may be signed with, by their ids.
type Keyring map[string]ed25519.PublicKey

// Add puts a key on the ring.
func (k Keyring) Add(id string, key []byte) error {
	if id == "" || len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("add key %q: %d bytes, want %d", id, len(key), ed25519.PublicKeySize)
	}
	k[id] = ed25519.PublicKey(bytes.Clone(key))
	return nil
}

// Equal reports whether two rings hold the same keys under the same ids.
func (k Keyring) Equal(other Keyring) bool {
	return maps.EqualFunc(k, other, func(a, b ed25519.PublicKey) bool { return a.Equal(b) })
}

// Open verifies the signature over payload with the named key and parses it.
//
// Trust: payload is the server's only after the signature verified.
func Open(payload []byte, keyID string, signature []byte, keys map[string]ed25519.PublicKey) (*Manifest, error) {
	if len(payload) > MaxBytes {
		return nil, fmt.Errorf("open manifest: %w: %d bytes", ErrForm, len(payload))
	}
	key, ok := keys[keyID]
	if !ok || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, payload, signature) {
		return nil, ErrSignature
	}
	return parse(payload)
}

// parse reads a manifest that is known to be the server's.
func parse(payload []byte) (*Manifest, error) {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	m := new(Manifest)
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("open manifest: %w: %w", ErrForm, err)
	}
	if m.Version != Version {
		return nil, fmt.Errorf("open manifest: %w: version %d", ErrForm, m.Version)
	}
	return m, nil
}
