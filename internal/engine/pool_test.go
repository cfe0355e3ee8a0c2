package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// weighing counts what a stream that grows hands to the store.
type weighing struct {
	store.Store
	mu                                     sync.Mutex
	events, checkpoints, written, listRows int
}

// Append implements store.Store.
func (s *weighing) Append(ctx context.Context, b store.Batch) error {
	s.mu.Lock()
	for i := range b.Rows {
		s.events += len(b.Rows[i].Events)
	}
	for i := range b.Checkpoints {
		s.checkpoints++
		s.written += len(b.Checkpoints[i].State)
	}
	s.listRows += len(b.Runners)
	s.mu.Unlock()
	return s.Store.Append(ctx, b)
}

// A runner that registers costs what it costs in a pool of many: one list row, and its share of
// checkpoints that stay in proportion to history.
func TestAPoolIsStoredInProportionToItsHistory(t *testing.T) {
	const runners = 3000
	st := &weighing{Store: memory.New()}
	home := domain.PoolID("default")
	e := engine.New(engine.Config{Store: st, Kinds: projection.Kinds(), Partitions: []domain.PartitionID{home.Partition()},
		Owner: "pool", Fatal: func(err error) { t.Error(err) }})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	do := func(c pool.Command) {
		t.Helper()
		_, err := e.Submit(t.Context(), engine.Envelope{Tenant: domain.DefaultTenant, Partition: home.Partition(),
			Stream: home.Stream(), Command: c})
		if err != nil {
			t.Fatal(err)
		}
	}
	do(pool.CreatePool{Tenant: domain.DefaultTenant, Pool: home, Config: pool.DefaultConfig()})
	for i := range runners {
		token := domain.DigestOf(fmt.Append(nil, "token", i))
		do(pool.IssueRegistrationToken{Token: token, Expires: time.Now().Add(time.Hour)})
		do(pool.RegisterRunner{Token: token, Runner: domain.RunnerID(fmt.Sprint("rnr_", i)),
			Session: domain.SessionID(fmt.Sprint("ses_", i)), Resume: domain.DigestOf(fmt.Append(nil, "resume", i)),
			RunnerName: fmt.Sprint("agent-", i), Capacity: 1, Isolation: "process"})
	}
	e.Close()
	t.Logf("events %d bytes, %d checkpoints %d bytes, %d list rows", st.events, st.checkpoints, st.written, st.listRows)
	if st.listRows != runners {
		t.Errorf("%d list rows for %d runners", st.listRows, runners)
	}
	if st.checkpoints < 3 || st.written > 2*st.events {
		t.Errorf("%d checkpoints of %d bytes for %d bytes of events", st.checkpoints, st.written, st.events)
	}
	again := engine.New(engine.Config{Store: st, Kinds: projection.Kinds(),
		Partitions: []domain.PartitionID{home.Partition()}, Owner: "pool", Fatal: func(err error) { t.Error(err) }})
	if err := again.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	h, err := again.Read(t.Context(), domain.DefaultTenant, home.Stream(), false)
	if err != nil {
		t.Fatal(err)
	}
	if s := h.State.(*pool.State); len(s.Runners) != runners {
		t.Errorf("%d runners of %d after a start", len(s.Runners), runners)
	}
}
