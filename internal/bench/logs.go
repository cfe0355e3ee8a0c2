package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

const (
	// logAim is how much log a server should make durable in a second, in MB; linesAim is the
	// same in lines; followAim is the wait of whoever watches, in milliseconds.
	logAim, linesAim, followAim = 200, 1e6, 300
	// printEvery is how often an attempt with a rate has something to say.
	printEvery = 50 * time.Millisecond
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
	lines   int64
	chunks  uint64
	acks    *times // of one exchange: sent, synced, acknowledged
	err     error
}

// Logs measures how much log a server makes durable: runners with one printing attempt
// each, over the real protocol, an exchange of at most 4 MiB at a time, the next one when
// the one before was acknowledged after its sync.
func Logs(ctx context.Context, o Options, of LogOptions) (*Report, error) {
	settings := map[string]any{"megabytes": of.Bytes / megabyte, "runners": of.Runners, "chunk_bytes": of.ChunkBytes,
		"megabytes_a_second": float64(of.Rate) / megabyte, "followers": of.Followers}
	return measure(ctx, "logs", o, "server", settings, func(ctx context.Context, s *stage) error {
		orders, agents, err := s.printers(ctx, of.Runners)
		if err != nil {
			return err
		}
		if err := s.begin(); err != nil {
			return err
		}
		s.progress("%d MB over %d runners", of.Bytes/megabyte, of.Runners)
		results, watchers := make([]printed, of.Runners), make([]*watcher, of.Runners)
		work, begun := errgroup.Group{}, time.Now()
		watched, watching := errgroup.WithContext(ctx)
		for i := range of.Runners {
			if i < of.Followers {
				watchers[i] = newWatcher(orders[i].lease.GetAttempt())
				watched.Go(func() error { return watchers[i].follow(watching, s.server.client) })
			}
			work.Go(func() error {
				results[i] = printLog(ctx, agents[i], orders[i], share(of, i), watchers[i])
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
		if err := s.printedReport(ctx, results, agents, orders, took, of.Rate); err != nil {
			return err
		}
		if err := watched.Wait(); err != nil { // they end with their logs
			return err
		}
		return s.watchedReport(results, watchers, of.Rate)
	})
}

// part is what one runner prints.
type part struct {
	bytes, rate int64 // rate 0: as fast as it is acknowledged
	chunk       int
	first       time.Duration // until its first words: not all print at the same moment
}

func share(of LogOptions, i int) part {
	n := int64(of.Runners)
	return part{of.Bytes / n, of.Rate / n, of.ChunkBytes, printEvery * time.Duration(i) / time.Duration(n)}
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

// printLog sends the log of one attempt and wants every chunk acknowledged. With a rate it prints
// by the clock, whether what came before was acknowledged or not, in chunks of what is due.
func printLog(ctx context.Context, a *agent, o order, of part, w *watcher) printed {
	p := printed{attempt: o.lease.GetAttempt(), run: string(o.manifest.Run), acks: newTimes()}
	text := logText(of.chunk)
	whole := domain.Checksum(text)
	sequence, renewed, begun := uint64(0), time.Now(), time.Now().Add(of.first)
	for p.bytes < of.bytes {
		req := &runnerv1.ExchangeRequest{}
		for _, size := range of.due(p.bytes, begun) {
			sequence++
			p.chunks = sequence
			content, checksum := text[:size], whole
			if size < len(text) {
				checksum = domain.Checksum(content)
			}
			req.Chunks = append(req.Chunks, o.chunk(sequence, content, checksum))
			p.bytes += int64(size)
			p.lines += int64(bytes.Count(content, []byte{'\n'}))
			w.printed(p.bytes, of.dueAt(p.bytes, begun))
		}
		if time.Since(renewed) > renewEvery {
			renewed = time.Now()
			req.Renewals = []*runnerv1.Renewal{{Attempt: p.attempt, Epoch: o.lease.GetEpoch(), Observed: "running"}}
		}
		if len(req.Chunks) == 0 {
			pause(ctx, printEvery/4)
			if p.err = ctx.Err(); p.err != nil {
				return p
			}
			continue
		}
		sent := time.Now()
		if p.err = errors.Join(a.deliver(ctx, req, p.attempt, sequence), p.acks.add(time.Since(sent))); p.err != nil {
			return p
		}
	}
	return p
}

// deliver sends chunks until the last of them is acknowledged. A server that takes no more for now
// is asked again when it said, as runners do; what it took is not sent again.
func (a *agent) deliver(ctx context.Context, req *runnerv1.ExchangeRequest, attempt string, last uint64) error {
	for {
		answer, err := a.exchange(ctx, req)
		if err != nil {
			return err
		}
		wait := time.Duration(answer.GetRetryAfterMs()) * time.Millisecond
		if wait == 0 {
			return through(answer, attempt, last)
		}
		for _, ack := range answer.GetAcks() {
			if ack.GetAttempt() == attempt && ack.GetChunks() >= last {
				return through(answer, attempt, last)
			}
			req.Chunks = slices.DeleteFunc(req.Chunks, func(c *runnerv1.Chunk) bool {
				return ack.GetAttempt() == attempt && c.GetSequence() <= ack.GetChunks()
			})
		}
		pause(ctx, wait)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// due are the sizes of the chunks that go into the next exchange.
func (of part) due(sent int64, begun time.Time) (sizes []int) {
	if of.rate == 0 {
		for range max(exchangeBytes/of.chunk, 1) {
			sizes = append(sizes, of.chunk)
		}
		return sizes
	}
	steps := int64(time.Since(begun) / printEvery)
	now := min(steps*of.rate/int64(time.Second/printEvery), of.bytes) - sent
	for room := int64(exchangeBytes); now > 0 && room > 0; room -= int64(sizes[len(sizes)-1]) {
		size := int(min(now, int64(of.chunk), room))
		sizes = append(sizes, size)
		now -= int64(size)
	}
	return sizes
}

// dueAt is when the byte before end was to be printed; without a rate it is now.
func (of part) dueAt(end int64, begun time.Time) time.Time {
	if of.rate == 0 {
		return time.Now()
	}
	step := of.rate / int64(time.Second/printEvery)
	return begun.Add(time.Duration((end+step-1)/step) * printEvery)
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
	rate int64,
) error {
	bytes, lines, acks, seals := int64(0), int64(0), newTimes(), newTimes()
	for i, p := range results {
		begun := time.Now()
		if err := agents[i].conclude(ctx, orders[i], p.chunks); err != nil {
			return err
		}
		if err := s.sealed(ctx, p); err != nil {
			return err
		}
		if err := seals.add(time.Since(begun)); err != nil {
			return err
		}
		bytes, lines = bytes+p.bytes, lines+p.lines
		acks.merge(p.acks)
	}
	r := s.report
	r.value("ingest", "log made durable and acknowledged", float64(bytes)/megabyte/took.Seconds(), "MB/s")
	if rate == 0 {
		r.aim(logAim)
	}
	r.value("lines", "of about 100 bytes", float64(lines)/took.Seconds(), "lines/s")
	if rate == 0 {
		r.aim(linesAim)
	}
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
