package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/projection"
)

// Limits of reading.
const (
	linesDefault  = 200
	linesMax      = 5000
	searchMax     = 1000
	followMessage = 256 << 10 // bytes of one message of a followed log
)

// Logs answers LogService.
type Logs struct {
	Engine  *engine.Engine
	Gateway LogSource
	Caller  func(context.Context) Caller
	// Elsewhere, when set, finds the server that holds the logs.
	Elsewhere Elsewhere
	// Read is told of every access to a log: reads of logs are audited.
	Read func(ctx context.Context, who Caller, attempt domain.AttemptID)
}

var _ fairleadv1connect.LogServiceHandler = (*Logs)(nil)

// open finds an attempt's log: here, or at the server that holds it. The answer is the same
// for an attempt that does not exist and one that the caller may not see.
func (l *Logs) open(ctx context.Context, attempt string) (*logs.Log, *Remote, error) {
	caller, att := l.Caller(ctx), domain.AttemptID(attempt)
	missing := domain.Reject(domain.CodeNotFound, "There is no such attempt.")
	if att.Run() == "" {
		return nil, nil, missing
	}
	h, err := l.Engine.Read(ctx, caller.Tenant, att.Run().Stream(), false)
	if r, ok := domain.AsRejection(err); ok && r.Code == domain.CodeNotFound {
		return nil, nil, missing
	}
	if err != nil {
		return nil, nil, err
	}
	_, a, ok := h.State.(*run.State).AttemptByID(att)
	if !ok {
		return nil, nil, missing
	}
	if l.Read != nil {
		l.Read(ctx, caller, att)
	}
	var ref *logs.Ref
	switch {
	case a.Declined: // it never began
		ref = &logs.Ref{}
	case a.Log != nil:
		ref = &logs.Ref{Object: a.Log.Object, Offset: a.Log.Offset, Length: a.Log.Length, Digest: a.Log.Digest,
			Bytes: a.Log.Bytes, Lines: a.Log.Lines, Truncated: a.Log.Truncated, Gaps: a.Log.Gaps}
	}
	if ref == nil {
		if remote, err := l.Elsewhere.find(ctx); err != nil || remote != nil {
			return nil, remote, err
		}
	}
	log, err := l.Gateway.Log(caller.Tenant, att, ref)
	return log, nil, err
}

// ReadLines implements the contract.
func (l *Logs) ReadLines(ctx context.Context, req *fairleadv1.ReadLinesRequest) (*fairleadv1.ReadLinesResponse, error) {
	log, remote, err := l.open(ctx, req.GetAttempt())
	if err != nil {
		return nil, err
	}
	if remote != nil {
		ctx, cancel := remote.Within(ctx)
		defer cancel()
		return remote.Logs.ReadLines(ctx, req)
	}
	totals, err := log.Totals(ctx)
	if err != nil {
		return nil, err
	}
	count, from := int(req.GetCount()), req.GetFrom()
	if count == 0 {
		count = linesDefault
	}
	if count < 0 || count > linesMax {
		return nil, field("count", fmt.Sprintf("count is 1 to %d.", linesMax))
	}
	if from < 0 {
		from = max(totals.Lines+from, 0)
	}
	lines, err := log.Lines(ctx, from+1, count) // the gateway counts from 1, the contract from 0
	if err != nil {
		return nil, err
	}
	res := &fairleadv1.ReadLinesResponse{TotalLines: totals.Lines, TotalBytes: totals.Bytes, Sealed: totals.Sealed}
	for i := range lines {
		res.Lines = append(res.Lines, line(&lines[i]))
	}
	for _, s := range totals.Steps {
		res.Steps = append(res.Steps, &fairleadv1.StepRange{Step: stepIndex(s.Step), FirstLine: s.FirstLine - 1,
			Lines: s.LastLine - s.FirstLine + 1, Bytes: s.Bytes})
	}
	return res, nil
}

func line(l *logs.Line) *fairleadv1.Line {
	return &fairleadv1.Line{Number: l.Number - 1, Offset: l.Offset, Step: stepIndex(l.Step), Stream: streamName(l.Stream),
		At: projection.Stamp(l.At), Text: strings.ToValidUTF8(string(l.Text), "\uFFFD"), Mark: l.Mark, Bytes: l.Bytes}
}

// stepIndex is -1 for what the runner itself said.
func stepIndex(step uint32) int32 {
	if step == logs.StepRunner {
		return -1
	}
	return int32(step)
}

func streamName(s uint8) string {
	switch s {
	case logs.StreamOut:
		return "stdout"
	case logs.StreamErr:
		return "stderr"
	}
	return "runner"
}

// SearchLog implements the contract.
func (l *Logs) SearchLog(ctx context.Context, req *fairleadv1.SearchLogRequest) (*fairleadv1.SearchLogResponse, error) {
	log, remote, err := l.open(ctx, req.GetAttempt())
	if err != nil {
		return nil, err
	}
	if remote != nil {
		ctx, cancel := remote.Within(ctx)
		defer cancel()
		return remote.Logs.SearchLog(ctx, req)
	}
	limit := int(req.GetLimit())
	if limit == 0 {
		limit = 100
	}
	if limit < 0 || limit > searchMax {
		return nil, field("limit", fmt.Sprintf("limit is 1 to %d.", searchMax))
	}
	if n := len(req.GetText()); n == 0 || n > 1000 {
		return nil, field("text", "text is 1 to 1000 bytes.")
	}
	found, err := log.Search(ctx, []byte(req.GetText()), max(req.GetFrom(), 0)+1, limit)
	if err != nil {
		return nil, err
	}
	res := &fairleadv1.SearchLogResponse{}
	for _, n := range found {
		res.Lines = append(res.Lines, n-1)
	}
	if len(found) == limit {
		res.Next = found[limit-1]
	}
	return res, nil
}

// FollowLog implements the contract.
func (l *Logs) FollowLog(
	ctx context.Context,
	req *fairleadv1.FollowLogRequest,
	out fairleadv1connect.LogServiceFollowLogServerStream,
) error {
	// A log may move to another server in the middle; then it is followed there from the
	// byte that comes next.
	sent := max(req.GetOffset(), 0)
	return l.Elsewhere.insist(ctx, func() (bool, error) {
		before := sent
		err := l.followFrom(ctx, req, &sent, out)
		return sent > before, err
	})
}

// followFrom sends what comes behind sent, wherever the log is now.
func (l *Logs) followFrom(
	ctx context.Context,
	req *fairleadv1.FollowLogRequest,
	sent *int64,
	out fairleadv1connect.LogServiceFollowLogServerStream,
) error {
	log, remote, err := l.open(ctx, req.GetAttempt())
	switch {
	case err != nil:
		return err
	case remote != nil:
		return relay(ctx, remote, req, sent, out)
	}
	// The log of a silent job may bring nothing for hours; that it is followed is said at once.
	if err := out.Send(&fairleadv1.FollowLogResponse{Offset: *sent}); err != nil {
		return err
	}
	if req.GetOneStep() {
		return followStep(ctx, log, req, sent, out)
	}
	return followAll(ctx, log, sent, out)
}

// relay passes on what another server sends.
func relay(
	ctx context.Context,
	remote *Remote,
	req *fairleadv1.FollowLogRequest,
	sent *int64,
	out fairleadv1connect.LogServiceFollowLogServerStream,
) error {
	within, cancel := remote.Within(ctx)
	defer cancel()
	stream, err := remote.Logs.FollowLog(within, &fairleadv1.FollowLogRequest{Attempt: req.GetAttempt(), Offset: *sent,
		Step: req.GetStep(), OneStep: req.GetOneStep()})
	if err != nil {
		return broken(ctx, err)
	}
	for {
		message, err := stream.Receive()
		if err != nil {
			return broken(ctx, err)
		}
		if err := out.Send(message); err != nil {
			return err
		}
		*sent = max(*sent, message.GetOffset())
		if message.GetSealed() {
			return nil
		}
	}
}

// broken sorts the end of another server's stream: its refusals are answers, all else is a
// stream that was cut.
func broken(ctx context.Context, err error) error {
	if _, rejected := domain.AsRejection(err); rejected || ctx.Err() != nil {
		return err
	}
	return cut(err)
}

// followAll sends a log's bytes until it is sealed.
func followAll(
	ctx context.Context,
	log *logs.Log,
	sent *int64,
	out fairleadv1connect.LogServiceFollowLogServerStream,
) error {
	for piece, err := range log.Follow(ctx, *sent) {
		if damage := (*logs.Damage)(nil); errors.As(err, &damage) {
			continue // the reader sees the jump in offsets, and the marked line in ReadLines
		}
		if err != nil {
			return err
		}
		for data := piece.Bytes; len(data) > 0; {
			n := min(len(data), followMessage)
			at := piece.Offset + int64(len(piece.Bytes)-len(data)) + int64(n)
			if err := out.Send(&fairleadv1.FollowLogResponse{Data: data[:n], Offset: at}); err != nil {
				return err
			}
			*sent, data = at, data[n:]
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return out.Send(&fairleadv1.FollowLogResponse{Offset: *sent, Sealed: true})
}

// followStep sends one step's bytes, again and again what is new, until the log is sealed.
func followStep(
	ctx context.Context,
	log *logs.Log,
	req *fairleadv1.FollowLogRequest,
	sent *int64,
	out fairleadv1connect.LogServiceFollowLogServerStream,
) error {
	for {
		seen, err := log.Totals(ctx)
		if err != nil {
			return err
		}
		w := &skipWriter{skip: *sent, send: func(data []byte, at int64) error {
			return out.Send(&fairleadv1.FollowLogResponse{Data: data, Offset: at})
		}}
		if _, err := log.RawStep(ctx, w, uint32(req.GetStep())); err != nil {
			return err
		}
		*sent = max(*sent, w.at)
		if seen.Sealed {
			return out.Send(&fairleadv1.FollowLogResponse{Offset: *sent, Sealed: true})
		}
		if _, err := log.Wait(ctx, seen); err != nil {
			return err
		}
	}
}

// skipWriter passes on what lies behind the first skip bytes.
type skipWriter struct {
	skip, at int64
	send     func(data []byte, at int64) error
}

// Write implements io.Writer.
func (w *skipWriter) Write(p []byte) (int, error) {
	begin := w.at
	w.at += int64(len(p))
	if w.at <= w.skip {
		return len(p), nil
	}
	rest := p[max(w.skip-begin, 0):]
	for len(rest) > 0 {
		n := min(len(rest), followMessage)
		if err := w.send(rest[:n], w.at-int64(len(rest)-n)); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

var _ io.Writer = (*skipWriter)(nil)
