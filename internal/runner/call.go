package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"golang.org/x/sys/unix"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
)

// newClient makes a client with connections of its own.
func newClient(server string) runnerv1connect.RunnerServiceClient {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialWait}).DialContext,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     2 * time.Minute,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
	}
	// An order is a few kilobytes: to squeeze it costs the server more than to send it.
	return runnerv1connect.NewRunnerServiceClient(connect.NewClient(connecthttp.NewTransport(
		&http.Client{Transport: transport}, server, connecthttp.WithReadMaxBytes(answerBytesMax),
		connecthttp.WithCompressors())))
}

// caller carries out the exchanges of one conversation, one after another.
type caller struct {
	kind     kind
	servers  *servers
	clients  []runnerv1connect.RunnerServiceClient // one for each server
	requests chan *runnerv1.ExchangeRequest
	done     func(kind, *runnerv1.ExchangeRequest, *runnerv1.ExchangeResponse, error)
}

func newCaller(k kind, s *servers, done func(kind, *runnerv1.ExchangeRequest, *runnerv1.ExchangeResponse,
	error)) *caller {
	c := &caller{kind: k, servers: s, requests: make(chan *runnerv1.ExchangeRequest, 1), done: done}
	for _, address := range s.list {
		c.clients = append(c.clients, newClient(address))
	}
	return c
}

// run serves until ctx ends. Heartbeats get a thread of their own and all the priority
// that may be had: a machine that its jobs keep busy must not lose its leases.
func (c *caller) run(ctx context.Context) {
	if c.kind == beat {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		const urgent = -10
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), urgent) // takes rights that not everybody has
	}
	for {
		select {
		case <-ctx.Done():
			return
		case req := <-c.requests:
			resp, err := c.exchange(ctx, req)
			if ctx.Err() != nil {
				return
			}
			c.done(c.kind, req, resp, err)
		}
	}
}

// client speaks with the server in use.
func (c *caller) client() runnerv1connect.RunnerServiceClient {
	return c.clients[c.servers.index(c.servers.turn())]
}

func (c *caller) exchange(ctx context.Context, req *runnerv1.ExchangeRequest) (*runnerv1.ExchangeResponse, error) {
	limit := time.Duration(req.GetWaitMs())*time.Millisecond + callSlack
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	turn := c.servers.turn()
	resp, err := c.clients[c.servers.index(turn)].Exchange(ctx, req)
	// One that stops ends its polls; what answers without a word is no server.
	if err != nil && (away(err) || !said(err) || connect.CodeOf(err) == connect.CodeCanceled) {
		c.servers.leave(turn)
	}
	return resp, err
}

// final reports whether an error will be the same next time. That is a server's word, and
// servers say more than a code: the bare 401, 403 or 404 of something on the way, such as a
// balancer without a server behind it, is no reason to give jobs up.
func final(err error) bool {
	if !said(err) {
		return false
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeUnimplemented:
		return true
	default:
		return false
	}
}

// disowned reports whether a server refused the acknowledgement token that came with a call,
// since it does not hold what the token names and nothing proves the token. No other refusal
// of an exchange has this code.
func disowned(err error) bool { return said(err) && connect.CodeOf(err) == connect.CodeOutOfRange }

// said reports whether an error is the answer of a server.
func said(err error) bool {
	var rpc *connect.Error
	return errors.As(err, &rpc) && len(rpc.Details()) > 0
}
