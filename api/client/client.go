// Package client calls a Fairlead server: typed procedures over HTTP, with an idempotency
// key on every write, retries where they can't act twice, and streams that go on after the
// connection or the server was gone. The command line is built on it.
//
// It deliberately knows only the contract: it links no engine, no store and no credential
// code, decides nothing, and keeps no state but the tokens that the server acknowledged.
//
// Invariants: a write is sent again only with the same key and the same message; a retry
// ends by the context or by Options.Patience; a token that the server acknowledged is
// presented with every later call, so a server that lost history can't hide it.
//
// Read next: api/client/call.go
package client

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// readMaxBytes bounds one answer; a run of ten thousand jobs stays far below.
const readMaxBytes = 64 << 20

// Options change how a client behaves. The zero value is what a person wants.
type Options struct {
	// HTTP makes the requests; nil makes a client that keeps connections.
	HTTP *http.Client
	// Patience is how long a call goes on trying, and a stream goes on coming back, while
	// the server is away. It counts from the call's beginning, or from when a stream was cut
	// that had brought something, however long that was quiet; zero means 30 seconds,
	// negative: not at all. A server that was never reached is not waited for without Await.
	Patience time.Duration
	// Await makes the first contact patient as well: a server that is not up yet, or whose
	// load balancer has none, is asked again. What trying again can't mend, a certificate that
	// is not trusted or a name that nobody has, is told at once.
	Await bool
	// Waiting is told once, two seconds after the first contact was tried, what is in the way
	// and until when it is tried; nil: nobody is told. It may be called on any goroutine that
	// makes a call.
	Waiting func(err error, until time.Time)
	// UserAgent names the program; "" means fairlead.
	UserAgent string
}

// Client is safe for concurrent use.
type Client struct {
	Runs         fairleadv1connect.RunServiceClient
	Logs         fairleadv1connect.LogServiceClient
	Repositories fairleadv1connect.RepositoryServiceClient
	Pools        fairleadv1connect.PoolServiceClient
	Workflows    fairleadv1connect.WorkflowServiceClient
	SignIn       fairleadv1connect.SignInServiceClient
	Server       fairleadv1connect.ServerServiceClient

	base     string
	token    domain.Secret
	http     *http.Client
	agent    string
	patience time.Duration
	reached  atomic.Bool // the server answered at least once
	await    bool
	told     atomic.Bool // that the first contact takes long
	waiting  func(err error, until time.Time)

	mu   sync.Mutex
	seen map[domain.PartitionID]domain.Token
}

// New makes a client of the server at that URL. token may be empty, for what needs none.
func New(server string, token domain.Secret, options Options) (*Client, error) {
	base, err := url.Parse(server)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("parse server address %q: want http://host:port or https://host", server)
	}
	c := &Client{
		base: strings.TrimSuffix(base.String(), "/"), token: token, http: options.HTTP, agent: options.UserAgent,
		patience: options.Patience, await: options.Await, waiting: options.Waiting,
		seen: map[domain.PartitionID]domain.Token{},
	}
	if c.patience == 0 {
		c.patience = 30 * time.Second
	}
	if c.agent == "" {
		c.agent = "fairlead"
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	transport := []connecthttp.Option{connecthttp.WithReadMaxBytes(readMaxBytes)}
	if onThisMachine(base.Hostname()) {
		transport = append(transport, connecthttp.WithCompressors()) // cheaper to send than to squeeze
	}
	rpc := connect.NewClient(connecthttp.NewTransport(c.http, c.base, transport...), c.intercept)
	c.Runs = fairleadv1connect.NewRunServiceClient(rpc)
	c.Logs = fairleadv1connect.NewLogServiceClient(rpc)
	c.Repositories = fairleadv1connect.NewRepositoryServiceClient(rpc)
	c.Pools = fairleadv1connect.NewPoolServiceClient(rpc)
	c.Workflows = fairleadv1connect.NewWorkflowServiceClient(rpc)
	c.SignIn = fairleadv1connect.NewSignInServiceClient(rpc)
	c.Server = fairleadv1connect.NewServerServiceClient(rpc)
	return c, nil
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	}
}

func onThisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.IsLoopback())
}

// Base is the server's URL without a slash at its end.
func (c *Client) Base() string { return c.base }

// Authorization is the value of that header, for programs that speak to the server beside
// this client (git).
func (c *Client) Authorization() domain.Secret {
	return domain.NewSecret("Bearer " + c.token.Reveal())
}
