package fault_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/runner"
)

const (
	ciFile   = ".fairlead/workflows/ci.yml"
	slowFile = ".fairlead/workflows/slow.yml"
	ciText   = `name: ci
on: [push]
jobs:
  build:
    runs-on: linux
    steps:
      - run: make
  flaky:
    needs: [build]
    if: ${{ github.ref == 'refs/heads/main' && needs.build.result == 'success' }}
    runs-on: linux
    steps:
      - run: make test
  deploy:
    needs: [build]
    runs-on: linux
    effects: external
    steps:
      - run: make deploy
`
	slowText = `name: slow
on: [workflow_dispatch]
jobs:
  slow:
    runs-on: linux
    steps:
      - run: make wait
`
)

// errNotYet: what a client waits for has not happened.
var errNotYet = errors.New("not yet")

// client goes through the life of two runs, one thing after another. Each thing is asked for
// under the same key until it is answered.
type client struct {
	*world
	origin        origin
	before, after string // commits of the push; empty: it has not happened
	secret        string // registration token
	push          string // the run of the push
	asked         string // the run that was asked for
	began         bool   // the runner works
	crashed       bool
	work          context.Context
}

// thing is something that the client wants to have happened.
type thing struct {
	name string
	wait time.Duration // how long it may take to come about by itself; 0: it is an answer
	do   func(ctx context.Context) error
}

func (c *client) things() []thing {
	return []thing{
		{"add repository", 0, c.addRepository},
		{"issue token", 0, c.issueToken},
		{"register runner", 0, c.registerRunner},
		{"notify push", 0, c.notifyPush},
		{"push fails once", 2 * time.Minute, c.until(&c.push, "failure")},
		{"ask for run", 0, c.createRun("CreateRun-1")},
		{"ask again", 0, c.createRun("CreateRun-1")},
		{"ask with another body", 0, c.mismatch},
		{"slow job prints", 2 * time.Minute, c.prints},
		{"crash", 0, c.crash},
		{"look", 0, c.look},
		{"ask after the crash", 0, c.createRun("CreateRun-1")},
		{"cancel", 0, c.cancel},
		{"run is cancelled", 2 * time.Minute, c.until(&c.asked, "cancelled")},
		{"retry the failed job", 0, c.retry},
		{"push succeeds", 2 * time.Minute, c.until(&c.push, "success")},
		{"rerun all", 0, c.rerun},
		{"push succeeds again", 2 * time.Minute, c.rounds(3)},
		{"logs are sealed", 3 * time.Minute, c.sealed},
	}
}

// again is what the client looks at once more when the server was started again.
func (c *client) again() []thing {
	return []thing{
		{"look again", 0, c.look},
		{"logs are sealed still", 0, c.sealed},
		{"logs are read", 0, c.readLogs},
	}
}

func (c *client) addRepository(ctx context.Context) error {
	res, err := call(c.world, func(s *server) (*fairleadv1.AddRepositoryResponse, error) {
		return s.repos.AddRepository(asCaller(ctx, "", nil),
			&fairleadv1.AddRepositoryRequest{Name: "shop", Url: c.origin.address, Poll: false})
	})
	if err == nil {
		c.book.token(res.GetToken())
	}
	return err
}

func (c *client) issueToken(ctx context.Context) error {
	digest, _ := credential.RegistrationDigest(c.secret)
	ack, err := call(c.world, func(s *server) (engine.Ack, error) {
		return s.engine.Submit(ctx, engine.Envelope{Tenant: tenant, Partition: poolID.Partition(), Stream: poolID.Stream(),
			Command: pool.IssueRegistrationToken{Cause: cause(), Token: digest, Expires: time.Now().Add(24 * time.Hour)}})
	})
	if err == nil {
		c.book.token(ack.Token.String())
	}
	return err
}

func (c *client) registerRunner(ctx context.Context) error {
	const resume = "what the runner shows"
	res, err := call(c.world, func(s *server) (*runnerv1.RegisterResponse, error) {
		return s.dispatch.Register(ctx, &runnerv1.RegisterRequest{Protocol: runner.Protocol, Token: c.secret, Name: "one",
			Labels: []string{"linux"}, Capacity: 2, Isolation: "process", Os: "linux", Arch: "amd64", Version: "test",
			ResumeDigest: domain.DigestOf([]byte(resume)).Hex()})
	})
	if err != nil || c.began {
		return err
	}
	steps, err := runner.NewSteps(runner.StepsConfig{Runner: res.GetRunner(), Session: res.GetSession(), Resume: resume,
		Boot: 1, Capacity: 2, Keys: res.GetKeys(), Timing: res.GetTiming(), Wall: time.Now,
		Jitter: func() float64 { return 0.5 }})
	if err != nil {
		return err
	}
	c.began = true
	h := &hand{world: c.world, steps: steps, begin: time.Now(), heard: make(chan func()), jobs: map[string]*script{}}
	go h.loop(c.work)
	return nil
}

func (c *client) notifyPush(ctx context.Context) error {
	if c.after == "" {
		c.before, c.after = c.origin.push()
	}
	res, err := call(c.world, func(s *server) (*fairleadv1.NotifyPushResponse, error) {
		return s.repos.NotifyPush(asCaller(ctx, "NotifyPush-1", "push"), &fairleadv1.NotifyPushRequest{Repository: "shop",
			Ref: branch, Before: c.before, After: c.after, Pusher: "ada"})
	})
	if err != nil {
		return err
	}
	if len(res.GetRuns()) != 1 {
		return fmt.Errorf("the push started %d runs: %v", len(res.GetRuns()), res.GetReasons())
	}
	c.book.token(res.GetToken())
	c.push = res.GetRuns()[0].GetRun()
	c.book.accepted("push", domain.RunID(c.push))
	return nil
}

func (c *client) createRun(key string) func(context.Context) error {
	return func(ctx context.Context) error {
		res, err := call(c.world, func(s *server) (*fairleadv1.CreateRunResponse, error) {
			return s.runs.CreateRun(asCaller(ctx, key, "slow"),
				&fairleadv1.CreateRunRequest{Repository: "shop", Workflow: slowFile})
		})
		if err != nil {
			return err
		}
		c.book.token(res.GetToken())
		c.asked = res.GetRun().GetRun()
		c.book.accepted(key, domain.RunID(c.asked))
		return nil
	}
}

// mismatch asks for something else under a key that has acted: only a refusal will do.
func (c *client) mismatch(ctx context.Context) error {
	_, err := call(c.world, func(s *server) (*fairleadv1.CreateRunResponse, error) {
		return s.runs.CreateRun(asCaller(ctx, "CreateRun-1", "other"),
			&fairleadv1.CreateRunRequest{Repository: "shop", Workflow: ciFile, Event: "push"})
	})
	if r, ok := domain.AsRejection(err); ok && r.Code == domain.CodeIdempotencyMismatch {
		return nil
	}
	if err == nil {
		c.book.find("a key was used for another request, and the server went along")
	}
	return err
}

func (c *client) get(ctx context.Context, id string) (*fairleadv1.Run, error) {
	return call(c.world, func(s *server) (*fairleadv1.Run, error) {
		res, err := s.runs.GetRun(asCaller(ctx, "", nil), &fairleadv1.GetRunRequest{Run: id, Timeline: true})
		return res.GetRun(), err
	})
}

// until wants a run to have concluded with an outcome.
func (c *client) until(id *string, outcome string) func(context.Context) error {
	return func(ctx context.Context) error {
		v, err := c.get(ctx, *id)
		switch {
		case err != nil:
			return err
		case v.GetOutcome() == outcome:
			return nil
		}
		return fmt.Errorf("run %s has outcome %q: %w", *id, v.GetOutcome(), errNotYet)
	}
}

func (c *client) rounds(n int32) func(context.Context) error {
	return func(ctx context.Context) error {
		v, err := c.get(ctx, c.push)
		switch {
		case err != nil:
			return err
		case int32(len(v.GetRounds())) == n && v.GetOutcome() == "success":
			return nil
		}
		return fmt.Errorf("round %d has outcome %q: %w", len(v.GetRounds()), v.GetOutcome(), errNotYet)
	}
}

// prints wants to see live output of the slow job.
func (c *client) prints(ctx context.Context) error {
	v, err := c.get(ctx, c.asked)
	if err != nil {
		return err
	}
	for _, j := range v.GetJobs() {
		for _, a := range j.GetAttempts() {
			res, err := call(c.world, func(s *server) (*fairleadv1.ReadLinesResponse, error) {
				return s.logs.ReadLines(asCaller(ctx, "", nil), &fairleadv1.ReadLinesRequest{Attempt: a.GetId()})
			})
			if err != nil {
				return err
			}
			if len(res.GetLines()) > 0 {
				return nil
			}
		}
	}
	return errNotYet
}

func (c *client) crash(context.Context) error {
	if !c.crashed {
		c.crashed = true
		c.down()
	}
	return c.up(1)
}

// look reads what people read: lists and explanations.
func (c *client) look(ctx context.Context) error {
	ctx = asCaller(ctx, "", nil)
	rows, err := call(c.world, func(s *server) (*fairleadv1.ListRunsResponse, error) {
		return s.runs.ListRuns(ctx, &fairleadv1.ListRunsRequest{})
	})
	if err != nil {
		return err
	}
	if len(rows.GetRuns()) != 2 {
		c.book.find("the list shows %d runs, and 2 were accepted", len(rows.GetRuns()))
	}
	repos, err := call(c.world, func(s *server) (*fairleadv1.ListRepositoriesResponse, error) {
		return s.repos.ListRepositories(ctx, &fairleadv1.ListRepositoriesRequest{})
	})
	if err == nil && len(repos.GetRepositories()) != 1 {
		c.book.find("the list shows %d repositories", len(repos.GetRepositories()))
	}
	return err
}

func (c *client) cancel(ctx context.Context) error {
	res, err := call(c.world, func(s *server) (*fairleadv1.CancelRunResponse, error) {
		return s.runs.CancelRun(asCaller(ctx, "CancelRun-1", c.asked), &fairleadv1.CancelRunRequest{Run: c.asked})
	})
	if err == nil {
		c.book.token(res.GetToken())
	}
	return err
}

func (c *client) retry(ctx context.Context) error {
	v, err := c.get(ctx, c.push)
	if err != nil {
		return err
	}
	failed := ""
	for _, j := range v.GetJobs() {
		if j.GetKey() == "flaky" {
			failed = j.GetId()
		}
	}
	res, err := call(c.world, func(s *server) (*fairleadv1.RetryJobResponse, error) {
		return s.runs.RetryJob(asCaller(ctx, "RetryJob-1", failed), &fairleadv1.RetryJobRequest{Job: failed})
	})
	if err == nil {
		c.book.token(res.GetToken())
	}
	return err
}

func (c *client) rerun(ctx context.Context) error {
	res, err := call(c.world, func(s *server) (*fairleadv1.RerunRunResponse, error) {
		return s.runs.RerunRun(asCaller(ctx, "RerunRun-1", c.push),
			&fairleadv1.RerunRunRequest{Run: c.push, Mode: run.RerunAll})
	})
	if err == nil {
		c.book.token(res.GetToken())
	}
	return err
}

// attempts visits every attempt of both runs.
func (c *client) attempts(ctx context.Context, visit func(*fairleadv1.Attempt) error) error {
	for _, id := range []string{c.push, c.asked} {
		v, err := c.get(ctx, id)
		if err != nil {
			return err
		}
		for _, j := range v.GetJobs() {
			for _, a := range j.GetAttempts() {
				if err := visit(a); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *client) sealed(ctx context.Context) error {
	return c.attempts(ctx, func(a *fairleadv1.Attempt) error {
		if !a.GetLog().GetSealed() {
			return fmt.Errorf("log of %s is not sealed: %w", a.GetId(), errNotYet)
		}
		return nil
	})
}

// readLogs wants every byte that was printed, once, in order.
func (c *client) readLogs(ctx context.Context) error {
	return c.attempts(ctx, func(a *fairleadv1.Attempt) error {
		var got bytes.Buffer
		_, err := call(c.world, func(s *server) (bool, error) {
			log, err := s.logs.OpenRaw(asCaller(ctx, "", nil), domain.AttemptID(a.GetId()), -1)
			if err != nil {
				return false, err
			}
			return log.Sealed, log.Write(ctx, &got, 0, -1)
		})
		if err != nil {
			return err
		}
		c.book.mu.Lock()
		want := bytes.Join(c.book.printed[domain.AttemptID(a.GetId())], nil)
		c.book.mu.Unlock()
		if !bytes.Equal(got.Bytes(), want) {
			c.book.find("the log of %s has %q, and %q was printed", a.GetId(), got.Bytes(), want)
		}
		return nil
	})
}
