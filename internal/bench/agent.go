package bench

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"github.com/google/uuid"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
)

const (
	protocol = 1
	// pollFor is how long a poll asks to wait; the server may answer sooner.
	pollFor = 20 * time.Second
)

// agent is a runner that speaks the real protocol over connections of its own and executes
// nothing. Where it is used alone it has one slot and reports success at once; a hand works
// with several.
type agent struct {
	client          runnerv1connect.RunnerServiceClient
	session, secret string
	runner          string
	keys            manifest.Keyring
	sequence, offer uint64
	token, proof    string        // the highest acknowledgement seen
	patience        time.Duration // of a poll
	retries         *retries
}

// order is a lease whose manifest was verified.
type order struct {
	lease    *runnerv1.Lease
	manifest *manifest.Manifest
	at       time.Time // when it had been verified

	// Of a hand, which holds several at once.
	slot    int
	outcome domain.Outcome // that will be reported; none: the lease is declined
	timer   *time.Timer    // until the execution is over
	stopped bool           // it was told to stop
	over    bool           // nothing is left to do but to report
}

// runnerClient speaks the runner protocol with a server over a transport.
func runnerClient(url string, transport http.RoundTripper) runnerv1connect.RunnerServiceClient {
	return runnerv1connect.NewRunnerServiceClient(connect.NewClient(connecthttp.NewTransport(
		&http.Client{Transport: transport}, url, connecthttp.WithCompressors()))) // as a runner has it
}

// enlist registers a runner with connections of its own.
func (s *stage) enlist(ctx context.Context, name string, slots int) (*agent, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 2} // a poll, and what is said meanwhile
	return s.enlistOver(ctx, runnerClient(s.server.url, transport), name, slots, nil)
}

// enlistOver registers a runner with a one-time token, the way every runner does.
func (s *stage) enlistOver(ctx context.Context, client runnerv1connect.RunnerServiceClient, name string, slots int,
	labels []string) (*agent, error) {
	var token *fairleadv1.CreateRegistrationTokenResponse
	err := s.retries.again(ctx, func() (err error) {
		token, err = s.server.client.Pools.CreateRegistrationToken(ctx,
			&fairleadv1.CreateRegistrationTokenRequest{Pool: "default"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make registration token: %w", err)
	}
	a := &agent{secret: uuid.NewString(), keys: manifest.Keyring{}, client: client, patience: pollFor, retries: &s.retries}
	var answer *runnerv1.RegisterResponse
	err = s.retries.again(ctx, func() (err error) {
		answer, err = a.client.Register(
			ctx,
			&runnerv1.RegisterRequest{Protocol: protocol, Token: token.GetToken(), Name: name, Labels: labels,
				Capacity: uint32(slots), Isolation: "process", Version: s.options.Version, Os: runtime.GOOS, Arch: runtime.GOARCH,
				ResumeDigest: domain.DigestOf([]byte(a.secret)).Hex()},
		)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", name, err)
	}
	for _, key := range answer.GetKeys() {
		if err := a.keys.Add(key.GetId(), key.GetEd25519()); err != nil {
			return nil, fmt.Errorf("register %s: %w", name, err)
		}
	}
	a.runner, a.session = answer.GetRunner(), answer.GetSession()
	return a, nil
}

func (a *agent) exchange(ctx context.Context, req *runnerv1.ExchangeRequest) (*runnerv1.ExchangeResponse, error) {
	a.label(req)
	answer, err := a.client.Exchange(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("exchange of %s: %w", a.runner, err)
	}
	a.heard(answer)
	return answer, nil
}

// label says on a request whose it is.
func (a *agent) label(req *runnerv1.ExchangeRequest) {
	a.sequence++
	req.TakesBatches = true
	req.Session, req.Resume, req.Sequence, req.Token, req.Proof = a.session, a.secret, a.sequence, a.token, a.proof
}

// opener opens the manifests of an answer.
func (a *agent) opener(answer *runnerv1.ExchangeResponse) *manifest.Opener {
	b := answer.GetBatch()
	return manifest.NewOpener(a.keys, manifest.Batch{
		Digests: b.GetDigests(), KeyID: b.GetKeyId(), Signature: b.GetSignature(),
	})
}

// heard keeps the acknowledgement that came with an answer.
func (a *agent) heard(answer *runnerv1.ExchangeResponse) {
	if answer.GetToken() != "" {
		a.token, a.proof = answer.GetToken(), answer.GetProof()
	}
}

// wait polls until there is an order. Its slot is offered under the number that it got
// when it opened.
func (a *agent) wait(ctx context.Context) (order, error) {
	slot := fmt.Sprintf("%s/0/%d", a.runner, a.offer)
	for {
		answer, err := a.exchange(ctx, &runnerv1.ExchangeRequest{WaitMs: a.patience.Milliseconds(), Offers: []string{slot}})
		if err != nil {
			return order{}, err
		}
		if len(answer.GetLeases()) == 0 {
			continue
		}
		return a.verify(answer, slot)
	}
}

// verify reads the manifest of the first lease of an answer, for which a slot was offered.
func (a *agent) verify(answer *runnerv1.ExchangeResponse, slot string) (order, error) {
	lease := answer.GetLeases()[0]
	m, err := a.opener(answer).Open(lease.GetManifest(), lease.GetKeyId(), lease.GetSignature())
	if err != nil {
		return order{}, fmt.Errorf("order for %s: %w", a.runner, err)
	}
	if string(m.Runner) != a.runner || string(m.Slot) != slot || m.Epoch != lease.GetEpoch() {
		return order{}, fmt.Errorf("order for %s: the manifest is for runner %s, slot %s", a.runner, m.Runner, m.Slot)
	}
	return order{lease: lease, manifest: m, at: time.Now()}, nil
}

// conclude reports success and wants it acknowledged. end is the last chunk's sequence.
func (a *agent) conclude(ctx context.Context, o order, end uint64, chunks ...*runnerv1.Chunk) error {
	now := time.Now().UnixMicro()
	steps := make([]*runnerv1.Step, 0, len(o.manifest.Steps))
	for _, step := range o.manifest.Steps {
		steps = append(steps, &runnerv1.Step{Index: uint32(step.Index), Outcome: string(domain.OutcomeSuccess),
			Conclusion: string(domain.OutcomeSuccess), StartedUs: now, FinishedUs: now})
	}
	var answer *runnerv1.ExchangeResponse
	err := a.retries.again(ctx, func() (err error) {
		answer, err = a.exchange(ctx, &runnerv1.ExchangeRequest{Chunks: chunks, Results: []*runnerv1.Result{{
			Attempt: o.lease.GetAttempt(), Epoch: o.lease.GetEpoch(), Outcome: string(domain.OutcomeSuccess), Steps: steps,
			LogEnd: end, Effect: string(domain.EffectNone), AtUs: now,
			Digest: string(domain.DigestOf([]byte(o.lease.GetAttempt())))}}})
		return err
	})
	if err != nil {
		return err
	}
	for _, ack := range answer.GetAcks() {
		if ack.GetRefused() != "" {
			return fmt.Errorf("result of %s: refused: %s %s", ack.GetAttempt(), ack.GetRefused(), ack.GetMessage())
		}
		if ack.GetResult() {
			a.offer++
			return nil
		}
	}
	return fmt.Errorf("result of %s: not acknowledged", o.lease.GetAttempt())
}

// chunk is a piece of an attempt's log.
func (o order) chunk(sequence uint64, content []byte, checksum uint64) *runnerv1.Chunk {
	const standardOutput = 1
	return &runnerv1.Chunk{Attempt: o.lease.GetAttempt(), Epoch: o.lease.GetEpoch(), Sequence: sequence,
		Stream: standardOutput, AtUs: time.Now().UnixMicro(), Data: content, Checksum: checksum}
}
