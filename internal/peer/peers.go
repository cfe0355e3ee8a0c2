package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Config is what Peers needs to reach the other servers.
type Config struct {
	Self   string // this member's name
	Secret Secret
	// Trust sets how certificates of peers are checked; nil: by the system's authorities.
	Trust func(*http.Transport)
	// Moved hears how far a partition has come that a peer owns.
	Moved func(p domain.PartitionID, at store.Position)
	// Leads says whether this server leads the pools of a partition itself; nil: none.
	Leads func(domain.PartitionID) bool
	// Look hears that the fleet may have changed.
	Look func()
	Log  *slog.Logger
}

// Peers are the other servers of the fleet, as the last picture showed them.
type Peers struct {
	cfg    Config
	web    *http.Client
	shared map[string]*http.Client // by scheme: for polls, which share connections
	// streams have connections of their own: a stream that is not read holds others up.
	streams map[string]*http.Client
	run     context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu      sync.Mutex
	members map[string]*member
	holders map[domain.PartitionID]*holder
	relays  map[domain.PartitionID]*relay
}

// member is one peer that lives, or did at the last look.
type member struct {
	name, address string
	stop          context.CancelFunc // of its stream of news
	shares        bool               // it said that it takes HTTP/2 without TLS

	// Of the goroutine that listens.
	stands   standing
	answered time.Time // when something answered last, or it was met
}

// holder is who owns a partition, until changed is closed.
type holder struct {
	name    string
	epoch   uint64
	changed chan struct{}
}

// New makes Peers that know of nobody. See tells them.
func New(cfg Config) *Peers {
	p := &Peers{cfg: cfg, members: map[string]*member{}, holders: map[domain.PartitionID]*holder{},
		relays: map[domain.PartitionID]*relay{}}
	p.run, p.cancel = context.WithCancel(context.Background())
	p.web = p.client(nil)
	encrypted, plain := new(http.Protocols), new(http.Protocols)
	encrypted.SetHTTP1(true)
	encrypted.SetHTTP2(true)
	plain.SetUnencryptedHTTP2(true)
	p.shared = map[string]*http.Client{"https": p.client(encrypted), "http": p.client(plain)}
	p.streams = map[string]*http.Client{"https": p.client(encrypted), "http": p.client(plain)}
	return p
}

// client makes a client of peers; nil is HTTP/1.1.
func (p *Peers) client(protocols *http.Protocols) *http.Client {
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialWait, KeepAlive: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout:   2 * dialWait,
		MaxIdleConnsPerHost:   connectionsMax,
		IdleConnTimeout:       time.Minute,
		ResponseHeaderTimeout: 0, // a poll may take long; commands have a limit of their own
		Protocols:             protocols,
		// A connection that carries the polls of many is asked whether it is still there.
		HTTP2: &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence},
	}
	if p.cfg.Trust != nil {
		p.cfg.Trust(transport)
	}
	return &http.Client{Transport: signed{p, transport}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a peer never leads elsewhere
	}}
}

// signed puts the headers of the protocol on every request.
type signed struct {
	peers *Peers
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s signed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(headerSecret, s.peers.cfg.Secret.Text().Reveal())
	r.Header.Set(headerMember, s.peers.cfg.Self)
	r.Header.Set(headerCaller, callerOf(r.Context()).header())
	return s.next.RoundTrip(r)
}

// Close ends everything that is under way.
func (p *Peers) Close() {
	p.cancel()
	p.work.Wait()
	p.web.CloseIdleConnections()
	for scheme := range p.shared {
		p.shared[scheme].CloseIdleConnections()
		p.streams[scheme].CloseIdleConnections()
	}
}

// See takes a picture of the fleet in. Pictures come in the order in which they were taken.
func (p *Peers) See(picture store.Picture) {
	p.mu.Lock()
	defer p.mu.Unlock()
	live := map[string]bool{}
	for i := range picture.Members {
		m := &picture.Members[i]
		if m.Name == p.cfg.Self || !m.Live || m.Address == "" {
			continue
		}
		live[m.Name] = true
		address := strings.TrimSuffix(m.Address, "/")
		if known := p.members[m.Name]; known != nil && known.address == address {
			continue
		} else if known != nil {
			known.stop()
		}
		p.meet(m.Name, address)
	}
	for name, m := range p.members {
		if !live[name] {
			m.stop()
			delete(p.members, name)
		}
	}
	for i := range picture.Partitions {
		h := &picture.Partitions[i]
		owner := h.Owner
		if owner != p.cfg.Self && !live[owner] {
			owner = "" // whoever had it is not there any more
		}
		if known := p.holders[h.Partition]; known != nil && known.name == owner && known.epoch == h.Epoch {
			continue
		} else if known != nil {
			close(known.changed)
		}
		p.holders[h.Partition] = &holder{name: owner, epoch: h.Epoch, changed: make(chan struct{})}
	}
}

// meet begins to listen to a peer. mu is held.
func (p *Peers) meet(name, address string) {
	ctx, stop := context.WithCancel(p.run)
	m := &member{name: name, address: address, stop: stop, answered: time.Now()}
	p.members[name] = m
	p.work.Go(func() { p.hear(ctx, m) })
}

// Holder is where a partition is owned.
type Holder struct {
	Name    string // of the member; "" when nobody owns it now, as far as is known
	Here    bool
	Address string          // of another member
	Shares  bool            // that takes HTTP/2 without TLS
	Changed <-chan struct{} // closed when this is not true any more
}

// Holder says where a partition is owned, as the last picture showed it.
func (p *Peers) Holder(partition domain.PartitionID) Holder {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holders[partition]
	if h == nil {
		h = &holder{changed: make(chan struct{})}
		p.holders[partition] = h
	}
	out := Holder{Name: h.name, Here: h.name != "" && h.name == p.cfg.Self, Changed: h.changed}
	if m := p.members[h.name]; m != nil {
		out.Address, out.Shares = m.address, m.shares
	}
	return out
}

// Names lists the peers that live, by name.
func (p *Peers) Names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for name := range p.members {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (p *Peers) addressOf(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.members[name]; m != nil {
		return m.address
	}
	return ""
}

// While gives a context that also ends when what is known of a holder changes: an answer
// that does not come from one that lost its partition is not waited for.
func While(ctx context.Context, h Holder) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-h.Changed:
			cancel(ErrMoved)
		case <-inner.Done():
		}
	}()
	return inner, func() { cancel(nil) }
}

// ErrMoved: the partition has another owner now, or none.
var ErrMoved = errors.New("the partition moved")

// ErrStranger: a peer does not know this server by its secret, or speaks another version.
var ErrStranger = errors.New("the peer does not know this server")

// ErrAnother says that another member answers where this server looked for itself.
var ErrAnother = errors.New("somebody else answers there")

// unsent reports whether an error of a request says that nothing reached the peer.
func unsent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

func statusError(r *http.Response, verb, name string) error {
	return fmt.Errorf("%s member %s: it answered %s", verb, name, r.Status)
}
