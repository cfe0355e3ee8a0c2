package control

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/dispatch"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

const (
	home   = domain.PartitionID("main-0")
	poolID = domain.PoolID("default")
)

var ada = domain.Cause{Actor: domain.Actor{Kind: "user", ID: "ada"}}

// removal asks for the removal of a runner with a key, as a caller of its own each time.
func removal(p *Pools, key, runner string) error {
	call := *p
	call.Caller = func(context.Context) Caller {
		return Caller{Tenant: domain.DefaultTenant, Scope: "ada", Cause: ada, Key: key,
			Body: domain.DigestOf([]byte(runner))}
	}
	_, err := call.RemoveRunner(context.Background(), &fairleadv1.RemoveRunnerRequest{Runner: runner})
	return err
}

// A client whose answer was lost asks again with its key: the runner is not there any more, and
// that is what was asked for.
func TestARepeatedRemovalOfARunnerGetsItsFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine.New(engine.Config{Store: memory.New(), Kinds: projection.Kinds(), Format: codec.Format,
			Partitions: []domain.PartitionID{home},
			Pools:      []domain.PartitionID{poolID.Partition()}, Owner: "one", Fatal: func(err error) { t.Error(err) }})
		d := dispatch.New(dispatch.Config{Engine: e, Clock: engine.NewClock(), Partitions: 2,
			Timing: dispatch.Timing{Poll: time.Minute, Lease: time.Minute, Abandon: time.Minute}})
		e.Observe(d)
		p := &Pools{Engine: e, Dispatch: d}
		if r, ok := domain.AsRejection(removal(p, "early", "r1")); !ok || r.Code == domain.CodeNotFound {
			t.Fatalf("before memory is whole: %v", r)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		synctest.Wait()
		for _, command := range []any{
			pool.CreatePool{Cause: ada, Tenant: domain.DefaultTenant, Pool: poolID, Config: pool.DefaultConfig()},
			pool.IssueRegistrationToken{Cause: ada, Token: domain.DigestOf(nil), Expires: e.Now().Add(time.Hour)},
			pool.RegisterRunner{Cause: ada, Token: domain.DigestOf(nil), Runner: "rnr_1", Session: "ses_1", RunnerName: "r1",
				Resume: domain.DigestOf([]byte("resume")), Capacity: 1, Isolation: pool.DefaultConfig().Isolation[0],
				Version: "1", OS: "linux", Arch: "amd64"},
		} {
			if _, err := e.Submit(t.Context(), engine.Envelope{Tenant: domain.DefaultTenant, Partition: poolID.Partition(),
				Stream: poolID.Stream(), Command: command}); err != nil {
				t.Fatalf("%T: %v", command, err)
			}
		}
		for _, key := range []string{"k", "k"} {
			if err := removal(p, key, "r1"); err != nil {
				t.Fatalf("removal: %v", err)
			}
		}
		for _, wrong := range []struct {
			key, runner string
			code        domain.Code
		}{{"k", "r2", domain.CodeIdempotencyMismatch}, {"other", "r1", domain.CodeNotFound}} {
			r, ok := domain.AsRejection(removal(p, wrong.key, wrong.runner))
			if !ok || r.Code != wrong.code {
				t.Errorf("%s of %s: %v, want %s", wrong.key, wrong.runner, r, wrong.code)
			}
		}
	})
}
