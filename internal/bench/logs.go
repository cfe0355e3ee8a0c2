package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

const (
	// logAim is how much log a server should make durable in a second, in MB.
	logAim = 100
	// exchangeBytes is the most log that one exchange carries, as runners do it.
	exchangeBytes = 4 << 20
	// renewEvery is often enough for a lease.
	renewEvery = 5 * time.Second
	// sealPatience bounds the wait for a log to be sealed after its attempt.
	sealPatience = 2 * time.Minute
	megabyte     = 1e6
)

// logText is log-like: lines of about 100 bytes that compress about as logs do.
func logText(size int) []byte {
	var out strings.Builder
	for i := 0; out.Len() < size; i++ {
		fmt.Fprintf(&out, "2026-03-01T12:%02d:%02dZ level=info msg=\"request done\" id=%08x status=200 bytes=%d path=/api\n",
			i/60%60, i%60, uint32(i)*2654435761, i*7%9973)
	}
	return []byte(out.String()[:size])
}

// printed is what one runner measured.
type printed struct {
	attempt string
	run     string
	bytes   int64
	acks    *times // of one exchange: sent, synced, acknowledged
	err     error
}

// Logs measures how much log a server makes durable: runners with one printing attempt
// each, over the real protocol, an exchange of at most 4 MiB at a time, the next one when
// the one before was acknowledged after its sync.
func Logs(ctx context.Context, o Options, of LogOptions) (*Report, error) {
	settings := map[string]any{"megabytes": of.Bytes / megabyte, "runners": of.Runners, "chunk_bytes": of.ChunkBytes}
	return measure(ctx, "logs", o, "server", settings, func(ctx context.Context, s *stage) error {
		orders, agents, err := s.printers(ctx, of.Runners)
		if err != nil {
			return err
		}
		if err := s.begin(); err != nil {
			return err
		}
		s.progress("%d MB over %d runners", of.Bytes/megabyte, of.Runners)
		results := make([]printed, of.Runners)
		work, begun := errgroup.Group{}, time.Now()
		for i := range of.Runners {
			work.Go(func() error {
				results[i] = printLog(ctx, agents[i], orders[i], of.Bytes/int64(of.Runners), of.ChunkBytes)
				return results[i].err
			})
		}
		if err := work.Wait(); err != nil {
			return err
		}
		took := time.Since(begun)
		if err := s.end(); err != nil {
			return err
		}
		s.progress("waiting until all logs are sealed")
		return s.printedReport(ctx, results, agents, orders, took)
	})
}

// printers makes runners that hold an attempt each.
func (s *stage) printers(ctx context.Context, n int) ([]order, []*agent, error) {
	orders, agents := make([]order, n), make([]*agent, n)
	first, err := s.introduce(ctx, nil) // asks for the first run
	if err != nil {
		return nil, nil, err
	}
	for i := range n {
		if i > 0 {
			if _, err := s.ask(ctx, first, oneJob); err != nil {
				return nil, nil, err
			}
		}
		if agents[i], err = s.enlist(ctx, fmt.Sprint("printer-", i), 1); err != nil {
			return nil, nil, err
		}
		if orders[i], err = agents[i].wait(ctx); err != nil {
			return nil, nil, err
		}
	}
	return orders, agents, nil
}

// printLog sends the log of one attempt and wants every chunk acknowledged.
func printLog(ctx context.Context, a *agent, o order, bytes int64, chunkBytes int) printed {
	p := printed{attempt: o.lease.GetAttempt(), run: string(o.manifest.Run), acks: newTimes()}
	content := logText(chunkBytes)
	checksum := domain.Checksum(content)
	perExchange := max(exchangeBytes/chunkBytes, 1)
	sequence, renewed := uint64(0), time.Now()
	for p.bytes < bytes {
		req := &runnerv1.ExchangeRequest{}
		for range perExchange {
			sequence++
			req.Chunks = append(req.Chunks, o.chunk(sequence, content, checksum))
			p.bytes += int64(len(content))
		}
		if time.Since(renewed) > renewEvery {
			renewed = time.Now()
			req.Renewals = []*runnerv1.Renewal{{Attempt: p.attempt, Epoch: o.lease.GetEpoch(), Observed: "running"}}
		}
		sent := time.Now()
		answer, err := a.exchange(ctx, req)
		if err == nil {
			err = through(answer, p.attempt, sequence)
		}
		if p.err = errors.Join(err, p.acks.add(time.Since(sent))); p.err != nil {
			return p
		}
	}
	return p
}

// through wants an acknowledgement of everything up to a sequence.
func through(answer *runnerv1.ExchangeResponse, attempt string, sequence uint64) error {
	for _, ack := range answer.GetAcks() {
		if ack.GetAttempt() == attempt && ack.GetRefused() == "" && ack.GetChunks() == sequence {
			return nil
		}
	}
	return fmt.Errorf("log of %s: chunk %d was not acknowledged: %v", attempt, sequence, answer.GetAcks())
}

// printedReport ends the attempts, waits until their logs are sealed, and checks that all
// bytes are there.
func (s *stage) printedReport(
	ctx context.Context,
	results []printed,
	agents []*agent,
	orders []order,
	took time.Duration,
) error {
	bytes, acks, seals := int64(0), newTimes(), newTimes()
	last := uint64(0)
	for i, p := range results {
		last = uint64(p.bytes / int64(s.report.Settings["chunk_bytes"].(int)))
		begun := time.Now()
		if err := agents[i].conclude(ctx, orders[i], last); err != nil {
			return err
		}
		if err := s.sealed(ctx, p); err != nil {
			return err
		}
		if err := seals.add(time.Since(begun)); err != nil {
			return err
		}
		bytes += p.bytes
		acks.merge(p.acks)
	}
	r := s.report
	r.value("ingest", "log made durable and acknowledged", float64(bytes)/megabyte/took.Seconds(), "MB/s")
	r.aim(logAim)
	r.spread("exchange", "of up to 4 MiB: sent, synced, acknowledged", acks)
	r.value("server's processor time", "for each MB", 1000*r.Server.Usage.CPU/(float64(bytes)/megabyte), "ms/MB")
	r.value("generator's processor time", "for each MB", 1000*r.Generator.CPU/(float64(bytes)/megabyte), "ms/MB")
	r.spread("result until sealed", "for one attempt, one after the other", seals)
	r.note("all %d bytes are in the sealed logs", bytes)
	return nil
}

// sealed waits until the server says that a log is sealed, and compares its length.
func (s *stage) sealed(ctx context.Context, p printed) error {
	deadline := time.Now().Add(sealPatience)
	for time.Now().Before(deadline) {
		answer, err := s.server.client.Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: p.run})
		if err != nil {
			return fmt.Errorf("read %s: %w", p.run, err)
		}
		for _, job := range answer.GetRun().GetJobs() {
			for _, attempt := range job.GetAttempts() {
				log := attempt.GetLog()
				if attempt.GetId() != p.attempt || !log.GetSealed() {
					continue
				}
				if log.GetBytes() != p.bytes || log.GetGaps() != 0 {
					return fmt.Errorf("log of %s: %d bytes and %d gaps sealed, sent were %d bytes", p.attempt, log.GetBytes(),
						log.GetGaps(), p.bytes)
				}
				return nil
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("log of %s: not sealed within %s", p.attempt, sealPatience)
}
