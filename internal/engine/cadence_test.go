package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

func TestOnlyABusyOwnerWaitsForCompany(t *testing.T) {
	now := time.Hour
	busy := cadence{ended: now}
	for range 100 {
		busy.begun(cadenceFull/4, now)
	}
	calm := cadence{ended: now}
	calm.begun(cadenceFull, now)
	for name, c := range map[string]struct {
		got, want time.Duration
	}{
		"nothing ever happened":     {(&cadence{}).rest(1, now), 0},
		"little to do":              {calm.rest(1, now), 0},
		"right after a commit":      {busy.rest(1, now), cadenceRest},
		"a part of the rest later":  {busy.rest(1, now+cadenceRest/4), cadenceRest - cadenceRest/4},
		"the rest is over":          {busy.rest(1, now+2*cadenceRest), 0},
		"as many as others had":     {busy.rest(cadenceFull/2, now), 0},
		"a batch that is full":      {busy.rest(cadenceFull, now), 0},
		"long after it was busy":    {busy.rest(1, now+time.Second), 0},
		"a commit just then, later": {(&cadence{ended: now + time.Second}).rest(1, now+time.Second), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: waits %v, want %v", name, c.got, c.want)
		}
	}
}

// Commands that are sent one after the other share a commit where there is much to do, and nobody
// waits where there is little.
func TestABusyOwnerCommitsWhatIsSentTogetherTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		appends := 0
		e := New(Config{Store: memory.New(), Kinds: []*Kind{tallyKind()}, Partitions: []domain.PartitionID{home},
			Owner: "test", Clock: NewClock(), Prover: ours, Appended: func(int, int, time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				appends++
			}})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		send := func(n int, pause func()) (commits int) {
			mu.Lock()
			before := appends
			mu.Unlock()
			var all sync.WaitGroup
			for i := range n {
				all.Add(1)
				if err := e.Send(context.Background(), envelope(fmt.Sprint(i), tallyCommand{do: "add", n: 1}),
					func(Ack, error) { all.Done() }); err != nil {
					t.Fatal(err)
				}
				pause()
			}
			all.Wait()
			mu.Lock()
			defer mu.Unlock()
			return appends - before
		}
		begun := time.Now()
		if n := send(10, synctest.Wait); n != 10 || time.Since(begun) != 0 {
			t.Errorf("with little to do: %d commits of 10 commands, %v", n, time.Since(begun))
		}
		// How many commands meet in a batch is up to Go's scheduler, so the owner is told that it was busy.
		d := e.driver(home)
		now := d.engine.cfg.Host.Elapsed()
		d.cadence.begun(4*cadenceFull, now)
		d.cadence.mean, d.cadence.ended = cadenceFull, now
		if n := send(10, synctest.Wait); n > 2 {
			t.Errorf("with much to do: %d commits of 10 commands that came one after the other", n)
		}
		time.Sleep(time.Second)
		if n := send(3, synctest.Wait); n != 3 {
			t.Errorf("in calm again: %d commits of 3 commands", n)
		}
	})
}
