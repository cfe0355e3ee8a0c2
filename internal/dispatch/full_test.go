package dispatch

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// A full store is asked less and less often and the log says once what waits; when there is
// room again the job gets its lease without anybody's help.
func TestAJobThatAFullStoreKeepsWaitingIsToldOnceAndGranted(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		var said bytes.Buffer
		y.dispatch.cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
		h := y.register("one", 1)
		y.request(home, 1, 1, nil)
		asked := 0
		y.store.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
			if c.Op != "append" {
				return nil
			}
			asked++
			return store.ErrFull
		}})
		if leases := h.poll().GetLeases(); len(leases) > 0 {
			t.Fatalf("a full store granted %v", leases)
		}
		time.Sleep(2 * time.Minute)
		if asked > 100 {
			t.Errorf("a full store was asked %d times in two minutes", asked)
		}
		y.store.SetHooks(memory.Hooks{})
		var got int
		for range 10 {
			if got = len(h.poll().GetLeases()); got > 0 {
				break
			}
		}
		if got != 1 {
			t.Errorf("%d leases once there was room", got)
		}
		if n := strings.Count(said.String(), "lease can not be granted now"); n != 1 {
			t.Errorf("it was said %d times:\n%s", n, said.String())
		}
	})
}

// busyLogs take the first chunk and have no room for others.
type busyLogs struct{}

func (busyLogs) Append(_ context.Context, chunks []logs.Chunk) ([]logs.Ack, error) {
	c := chunks[0]
	return []logs.Ack{{Attempt: c.Attempt, Epoch: c.Epoch, Through: c.Sequence,
		Refused: &logs.Busy{After: 300 * time.Millisecond}}}, nil
}

// A gateway that has enough for now is no fault: the runner is told when to come back.
func TestLogsThatHaveEnoughSayWhenToComeBack(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		var said bytes.Buffer
		y.dispatch.cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
		h := y.register("one", 1)
		y.request(home, 1, 1, nil)
		l := h.poll().GetLeases()[0]
		y.dispatch.cfg.Logs = busyLogs{}
		req := &runnerv1.ExchangeRequest{}
		for n := range uint64(2) {
			req.Chunks = append(req.Chunks, &runnerv1.Chunk{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(), Sequence: n + 1,
				Stream: 1, Data: []byte("x"), Checksum: domain.Checksum([]byte("x"))})
		}
		res := h.exchange(req)
		if len(res.GetAcks()) != 1 || res.GetAcks()[0].GetChunks() != 1 || res.GetRetryAfterMs() != 300 {
			t.Errorf("acknowledged %v, to come back in %d ms", res.GetAcks(), res.GetRetryAfterMs())
		}
		if said.Len() > 0 {
			t.Errorf("said %s", said.String())
		}
	})
}
