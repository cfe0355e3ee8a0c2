package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/encoding/protojson"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// FollowRun calls each with every version of the run that it sees, in order and none
// twice, until the run concluded. It comes back by itself when the server was away.
func (c *Client) FollowRun(ctx context.Context, request *fairleadv1.WatchRunRequest,
	each func(*fairleadv1.GetRunResponse) error) error {
	var version uint64
	first, concluded := true, false
	attempt := func(ctx context.Context, wait *wait) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.Runs.WatchRun(ctx, request)
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }()
		for {
			response, err := stream.Receive()
			if err != nil {
				return err
			}
			wait.opened = true
			run := response.GetRun()
			concluded = run.GetOutcome() != ""
			if !first && run.GetVersion() <= version {
				continue
			}
			first, version = false, run.GetVersion()
			if err := each(response); err != nil {
				return &stop{err}
			}
		}
	}
	return c.persist(ctx, attempt, func() bool { return concluded })
}

// FollowLog calls each with the log's bytes from request.Offset on, every byte once and in
// order, until the log is sealed. offset is that of content's first byte: it is larger than
// the end of what came before only where the server's own record is damaged. It returns the
// offset behind the last byte that each took, also with an error, so that the caller can go
// on from there.
func (c *Client) FollowLog(ctx context.Context, request *fairleadv1.FollowLogRequest,
	each func(content []byte, offset int64) error) (next int64, err error) {
	next = request.GetOffset()
	sealed := false
	attempt := func(ctx context.Context, wait *wait) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.Logs.FollowLog(ctx, &fairleadv1.FollowLogRequest{
			Attempt: request.GetAttempt(), Offset: next, Step: request.GetStep(), OneStep: request.GetOneStep(),
		})
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }()
		for {
			response, err := stream.Receive()
			if err != nil {
				return err
			}
			wait.opened = true
			content := response.GetData()
			offset := response.GetOffset() - int64(len(content))
			if known := next - offset; known > 0 {
				known = min(known, int64(len(content)))
				content, offset = content[known:], offset+known
			}
			if len(content) > 0 {
				if err := each(content, offset); err != nil {
					return &stop{err}
				}
				next = offset + int64(len(content))
			}
			sealed = sealed || response.GetSealed()
		}
	}
	return next, c.persist(ctx, attempt, func() bool { return sealed })
}

// stop is an error that coming back can't mend.
type stop struct{ error }

// Unwrap implements errors.Unwrap.
func (s *stop) Unwrap() error { return s.error }

// persist opens a stream again and again until it is done, refused, or patience ends.
func (c *Client) persist(ctx context.Context, attempt func(context.Context, *wait) error, done func() bool) error {
	wait := c.newWait()
	for {
		wait.opened = false
		err := attempt(wait.dialing(ctx), wait)
		var final *stop
		switch {
		case errors.As(err, &final):
			return final.error
		case done():
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		// A stream that ended without its end was cut: a server that stops does that.
		cut := err == nil || errors.Is(err, io.EOF) || connect.CodeOf(err) == connect.CodeCanceled
		if !cut && !Retryable(err) {
			return err
		}
		if wait.opened {
			wait.alive() // until now, if it was silent too
		}
		if !wait.again(ctx, err) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("follow: the stream was cut and the server did not come back: %w", err)
		}
	}
}

// RawLog opens the raw bytes of an attempt's log, or of one step (negative: all), from an
// offset. The caller closes it.
func (c *Client) RawLog(ctx context.Context, attempt string, step, offset int64) (io.ReadCloser, error) {
	query := url.Values{}
	if step >= 0 {
		query.Set("step", strconv.FormatInt(step, 10))
	}
	if offset > 0 {
		query.Set("offset", strconv.FormatInt(offset, 10))
	}
	address := c.base + "/api/v1/attempts/" + url.PathEscape(attempt) + "/log?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("open raw log %s: %w", attempt, err)
	}
	request.Header.Set("User-Agent", c.agent)
	request.Header.Set("Authorization", c.Authorization().Reveal())
	response, err := c.http.Do(request)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err.Error()).WithCause(err)
	}
	c.reached.Store(true)
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer func() { _ = response.Body.Close() }()
	return nil, refusalOf(response)
}

// refusalOf reads the JSON refusal of a REST path.
func refusalOf(response *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	answer := &fairleadv1.ErrorInfo{}
	if err != nil || (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, answer) != nil ||
		answer.GetCode() == "" {
		return connect.Errorf(connect.CodeUnavailable, "the server answered %s", response.Status)
	}
	code := connect.CodeFailedPrecondition
	switch response.StatusCode {
	case http.StatusNotFound:
		code = connect.CodeNotFound
	case http.StatusUnauthorized:
		code = connect.CodeUnauthenticated
	case http.StatusBadRequest:
		code = connect.CodeInvalidArgument
	case http.StatusServiceUnavailable:
		code = connect.CodeUnavailable
	}
	return withAnswer(connect.NewError(code, answer.GetMessage()), answer)
}
