package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/cli"
	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/fleet"
	"github.com/fairlead-ci/fairlead/internal/httpapi"
	"github.com/fairlead-ci/fairlead/internal/peer"
	"github.com/fairlead-ci/fairlead/internal/store"
)

const (
	// fleetPartitions is how many partitions a fleet's history has unless somebody says.
	fleetPartitions = 8
	// drainWithin bounds giving partitions away at the end; what is left is taken over.
	drainWithin = 20 * time.Second
	// joinWithin is how long a starting server bears with a database that does not answer in
	// time.
	joinWithin = time.Minute
	// greetWithin bounds the wait for one member's answer to a greeting.
	greetWithin = 2 * time.Second
	// selfWithin is how long a starting server looks for itself at its advertised address: what
	// stands before it may need a moment to see that it listens.
	selfWithin = 10 * time.Second
	// selfGreetings is how many answers in a row must be its own. What shares an address among
	// several servers gives one of them by chance; where another one has answered, trying again
	// must not add up to luck.
	selfGreetings       = 8
	selfGreetingsShared = 32
	// nameFile keeps the name that was made for this server.
	nameFile = "member-name"
)

// membership is this server as one of a fleet.
type membership struct {
	self   store.Member
	ttl    time.Duration
	secret *credential.PeerSecret
	herald *peer.Herald
	peers  *peer.Peers
	driver *fleet.Driver
	// waiting is where reads wait that need the pool's leader while nobody is it.
	waiting waitingRoom
}

// enter finds out what the store's shape is and who else uses it. A server without a shared
// folder is alone: it refuses to start beside another one.
func (s *server) enter(ctx context.Context) error {
	if err := s.findShape(ctx); err != nil {
		return err
	}
	if s.o.Store == "" {
		return nil
	}
	name, err := memberName(s.o)
	if err != nil {
		return cli.Misuse(err)
	}
	s.name = name
	if err := s.lookForOthers(ctx); err != nil || s.o.Shared == "" {
		return err
	}
	unlock, err := credential.Lock(ctx, s.o.Shared)
	if err != nil {
		return err
	}
	defer unlock()
	secret, err := credential.OpenPeerSecret(s.o.Shared)
	s.fleet = &membership{secret: secret, ttl: s.o.MemberTTL, herald: peer.NewHerald()}
	return err
}

// findShape asks how many partitions the history has, and records it on the first start of
// a fleet, or of whoever names a number. Later starts take what is recorded.
func (s *server) findShape(ctx context.Context) error {
	want := store.Shape{Partitions: s.o.Partitions, Spread: s.o.Spread}
	if s.o.Shared != "" || want != (store.Shape{}) {
		fallback := store.Shape{Partitions: 1, Spread: store.SpreadTenant}
		if s.o.Shared != "" {
			fallback = store.Shape{Partitions: fleetPartitions, Spread: store.SpreadRepository}
		}
		if want.Partitions == 0 {
			want.Partitions = fallback.Partitions
		}
		if want.Spread == "" {
			want.Spread = fallback.Spread
		}
		if err := want.Check(); err != nil {
			return cli.Misuse(err)
		}
	}
	shape, err := s.store.Shape(ctx, want)
	if err != nil {
		return fmt.Errorf("read the shape of the store: %w", err)
	}
	switch {
	case shape == (store.Shape{}):
		shape = store.Shape{Partitions: 1, Spread: store.SpreadTenant}
	case s.o.Partitions != 0 && s.o.Partitions != shape.Partitions:
		return cli.Misuse(fmt.Errorf("this store has %d partitions since it was first used; --partitions %d can't "+
			"change that: leave the flag out", shape.Partitions, s.o.Partitions))
	case s.o.Spread != "" && s.o.Spread != shape.Spread:
		return cli.Misuse(fmt.Errorf("repositories of this store are spread by %s since it was first used; --spread %s "+
			"can't change that: leave the flag out", shape.Spread, s.o.Spread))
	}
	s.shape = shape
	return nil
}

// partitions are those that repositories are routed to, the home partition first.
func (s *server) partitions() []domain.PartitionID {
	out := make([]domain.PartitionID, s.shape.Partitions)
	for i := range out {
		out[i] = domain.PartitionID(fmt.Sprintf("main-%d", i))
	}
	return out
}

// everywhere are all partitions, those of pools too.
func (s *server) everywhere() []domain.PartitionID {
	return append(s.partitions(), defaultPool.Partition())
}

// memberName is this server's name in a fleet: as given, or made once and kept.
func memberName(o cli.ServeOptions) (string, error) {
	path := filepath.Join(o.Data, nameFile)
	name := o.Name
	if name == "" {
		text, err := os.ReadFile(path)
		if err == nil {
			return strings.TrimSpace(string(text)), nil
		}
		host, err := os.Hostname()
		if err != nil || blob.ValidKey(host) != nil {
			host = "server"
		}
		name = host + "-" + randomHex(3)
		if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
			return "", fmt.Errorf("keep the name of this server: %w", err)
		}
	}
	if len(name) > 64 || strings.Contains(name, "/") || blob.ValidKey(name) != nil {
		return "", fmt.Errorf("the name %q of this server can't be used: up to 64 letters, digits, dots and dashes", name)
	}
	return name, nil
}

// randomHex is a name part that nobody else has: of n bytes, at most eight.
func randomHex(n int) string {
	id := newID()
	return hex.EncodeToString(id[len(id)-n:])
}

// lookForOthers refuses company that this server was not told to expect. One that has just
// died counts until its membership runs out, so it is waited for.
func (s *server) lookForOthers(ctx context.Context) error {
	for deadline := time.Now().Add(2 * s.o.MemberTTL); ; {
		picture, err := s.store.Picture(ctx)
		if err != nil {
			return fmt.Errorf("look for other servers: %w", err)
		}
		problem := unexpected(picture, s.name, s.o.Shared != "")
		if problem == nil || time.Now().After(deadline) {
			return cli.Misuse(problem)
		}
		select {
		case <-time.After(s.o.MemberTTL / 4):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unexpected says which member this server can't run beside.
func unexpected(picture store.Picture, self string, shared bool) error {
	for _, m := range picture.Members {
		switch {
		case m.Format < codec.Oldest && m.Name != self && shared:
			return fmt.Errorf("the server %s (version %s) reads events of format %d and no later one, and this program "+
				"writes format %d at the least: they are more than one version apart. Upgrade all servers to a version "+
				"between them first. A server that died is remembered for %s", m.Name, m.Version, m.Format, codec.Oldest,
				store.MemberKept)
		case !m.Live || m.Name == self:
		case shared && m.Address == "":
			return fmt.Errorf("the server %s uses this database alone; stop it, and start it with --shared", m.Name)
		case !shared && m.Address == "":
			return fmt.Errorf("another server, %s, uses this database; several servers need --shared, "+
				"a folder that all of them use", m.Name)
		case !shared:
			return fmt.Errorf("a fleet of servers uses this database, %s is one of them; "+
				"give --shared and the folder that they use", m.Name)
		}
	}
	return nil
}

// attend keeps a server on PostgreSQL that is alone visible to others, until ctx ends.
func (s *server) attend(ctx context.Context) {
	m := store.Member{Name: s.name, Session: randomHex(8), Version: s.o.Version, Format: codec.Format}
	tick := time.NewTicker(s.o.MemberTTL / 4)
	defer tick.Stop()
	for {
		picture, err := s.store.Renew(ctx, m, s.o.MemberTTL)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, store.ErrNameTaken): // an earlier process of this folder, for a moment
		case errors.Is(err, store.ErrTooOld):
			s.breaks(err)
		case err != nil:
			s.log.Debug("this server could not say that it is here", "error", err)
		default:
			if problem := unexpected(picture, s.name, false); problem != nil {
				s.log.Error("this server has company that it does not expect", "problem", problem)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = s.store.Leave(end, m) // otherwise its time runs out
			return
		}
	}
}

// breaks ends the process with a reason.
func (s *server) breaks(err error) {
	select {
	case s.broken <- err:
	default:
	}
}

// wireFleet makes what speaks with the other servers. Nothing runs yet.
func (s *server) wireFleet(api *httpapi.Server) (*peer.Server, error) {
	m := s.fleet
	address := s.o.Advertise
	if address == "" {
		address = s.url
	}
	if err := reachable(address); err != nil {
		return nil, cli.Misuse(err)
	}
	m.self = store.Member{Name: s.name, Session: randomHex(8), Address: address, Version: s.o.Version,
		Format: codec.Format}
	var err error
	m.driver, err = fleet.New(fleet.Config{Store: s.store, Engine: seeing{s.engine, m.peers}, Member: m.self, TTL: m.ttl,
		Partitions: s.everywhere(), Kick: m.peers.Kick, Log: s.log, Refused: func(err error) {
			if errors.Is(err, store.ErrTooOld) {
				s.breaks(err)
			}
		}})
	if err != nil {
		return nil, cli.Misuse(err)
	}
	return peer.NewServer(peer.ServerConfig{
		Name: m.self.Name, Session: m.self.Session, Secret: m.secret, Shares: true,
		Take: takePassed(api), Leads: s.dispatch.Leads,
		Receive: s.engine.Receive, Status: s.engine.Status, Look: m.driver.Kick, Herald: m.herald,
		Log: s.log, Pass: func(w http.ResponseWriter, r *http.Request, c peer.Caller) {
			api.ServeForwarded(w, r, credential.Principal{Kind: credential.Kind(c.Kind), ID: c.ID, Via: c.Via,
				Tenant: c.Tenant}, c.Request)
		},
	}), nil
}

// newPeers makes the other direction; the engine needs it before there is a driver.
func (s *server) newPeers() error {
	config := peer.Config{Self: s.name, Secret: s.fleet.secret, Log: s.log,
		Moved: func(p domain.PartitionID, at store.Position) { s.engine.News(p, at) },
		Leads: func(p domain.PartitionID) bool { return s.dispatch.Leads(p) },
		Look:  func() { s.fleet.driver.Kick() },
	}
	if s.o.TLSCert != "" {
		var err error
		if config.Trust, err = credential.TrustPeers(s.o.TLSCert); err != nil {
			return err
		}
	}
	s.fleet.peers = peer.New(config)
	s.closing(s.fleet.peers.Close)
	return nil
}

// valid reports whether this server may still promise something from memory.
func (s *server) valid() bool { return s.fleet == nil || s.fleet.driver.Valid() }

// term says under which epoch pools are led; nil: no other server can.
func (s *server) term() func(domain.PartitionID) uint64 {
	if s.fleet == nil {
		return nil
	}
	return s.engine.Epoch
}

// reachable refuses an address that other machines, or this one, could not dial.
func reachable(address string) error {
	rest, ok := strings.CutPrefix(address, "http://")
	if !ok {
		rest, ok = strings.CutPrefix(address, "https://")
	}
	host, _, err := net.SplitHostPort(strings.TrimSuffix(rest, "/"))
	if err != nil {
		host = strings.TrimSuffix(rest, "/")
	}
	if ip := net.ParseIP(host); !ok || host == "" || strings.Contains(host, "/") || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("other servers can't reach this one at %q; say where with --advertise https://HOST:PORT", address)
	}
	return nil
}

// seeing shows pictures of the fleet to the engine and to what speaks with peers.
type seeing struct {
	*engine.Engine
	peers *peer.Peers
}

// See implements fleet.Engine.
func (e seeing) See(ctx context.Context, picture store.Picture) {
	e.peers.See(picture)
	e.Engine.See(ctx, picture)
}

// join makes this server a member. From then on it gets partitions, so whether the others
// know it is found out before; and once more behind it, for of two servers that joined at
// the same moment one sees the other only then.
func (s *server) join(ctx context.Context) error {
	if err := s.findSelf(ctx); err != nil {
		return err
	}
	for deadline := time.Now().Add(joinWithin); ; {
		err := s.shakeHands(ctx)
		if err == nil {
			err = s.fleet.driver.Start(ctx)
		}
		switch {
		case err == nil:
			return s.greetAgain(ctx)
		case errors.Is(err, store.ErrNameTaken):
			return cli.Misuse(fmt.Errorf("%w: another server of the fleet is called %s; give --name", err, s.name))
		case errors.Is(err, peer.ErrStranger):
			return cli.Misuse(err)
		case errors.Is(err, store.ErrTooOld), ctx.Err() != nil, time.Now().After(deadline):
			return err
		}
		s.log.Warn("this server could not join the fleet yet", "error", err)
		select {
		case <-time.After(s.o.MemberTTL / 4):
		case <-ctx.Done():
		}
	}
}

// findSelf makes sure that the others reach this server where it will tell them: one that
// can't be reached would take partitions and leave them without anybody to ask.
func (s *server) findSelf(ctx context.Context) error {
	deadline := time.Now().Add(selfWithin)
	times := selfGreetings
	for told := false; ; told = true {
		err := s.greetSelf(ctx, times)
		if errors.Is(err, peer.ErrAnother) {
			times = selfGreetingsShared
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return cli.Refused("advertise_unreachable", fmt.Errorf("this server does not reach itself at %s, where the others "+
				"would look for it, so it does not join: %w. Give --advertise an address of this server alone that leads here, "+
				"also from this machine; it is not that of a load balancer", s.fleet.self.Address, err))
		}
		if !told {
			s.log.Warn("this server does not reach itself at its advertised address yet", "address", s.fleet.self.Address,
				"until", deadline.Format(time.TimeOnly), "error", err)
		}
		select {
		case <-time.After(selfWithin / 20):
		case <-ctx.Done():
		}
	}
}

// greetSelf asks as often as it takes to be sure who answers.
func (s *server) greetSelf(ctx context.Context, times int) error {
	for range times {
		greet, cancel := context.WithTimeout(ctx, greetWithin)
		err := s.fleet.peers.GreetSelf(greet, &s.fleet.self)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// greetAgain is the look behind joining. Only a stranger ends the server by then.
func (s *server) greetAgain(ctx context.Context) error {
	err := s.shakeHands(ctx)
	if errors.Is(err, peer.ErrStranger) {
		return cli.Misuse(err)
	}
	if err != nil {
		s.log.Warn("members could not be greeted", "error", err)
	}
	return nil
}

// shakeHands makes sure that the members that live know this server. Two folders in place of
// one shared one would look like a fleet and lose logs.
func (s *server) shakeHands(ctx context.Context) error {
	picture, err := s.store.Picture(ctx)
	if err != nil {
		return fmt.Errorf("look for members to greet: %w", err)
	}
	for i := range picture.Members {
		m := &picture.Members[i]
		if m.Name == s.name || !m.Live || m.Address == "" {
			continue
		}
		greet, cancel := context.WithTimeout(ctx, greetWithin)
		err := s.fleet.peers.Greet(greet, m)
		cancel()
		switch {
		case errors.Is(err, peer.ErrStranger):
			return fmt.Errorf("the server %s does not know this one: do both have the same folder as --shared? "+
				"Their secrets differ: %w", m.Name, err)
		case err != nil:
			s.log.Warn("a member of the fleet can't be reached", "member", m.Name, "error", err)
		}
	}
	return nil
}

// drain gives the partitions to the other servers while this one still serves.
func (s *server) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	s.log.Info("draining: partitions go to the other servers")
	if err := s.fleet.driver.Drain(ctx); err != nil {
		s.log.Warn("not everything could be given away; it will be taken over", "error", err)
	}
}

// statuses asks every member what it owns.
func (s *server) statuses(ctx context.Context) map[domain.PartitionID]engine.PartitionStatus {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	out := map[domain.PartitionID]engine.PartitionStatus{}
	note := func(list []engine.PartitionStatus) {
		mu.Lock()
		defer mu.Unlock()
		for _, status := range list {
			if known, ok := out[status.Partition]; !ok || known.Epoch < status.Epoch {
				out[status.Partition] = status
			}
		}
	}
	note(s.engine.Status())
	for _, name := range s.fleet.peers.Names() {
		asked.Go(func() {
			if list, err := s.fleet.peers.Status(ctx, name); err == nil {
				note(list)
			}
		})
	}
	asked.Wait()
	return out
}
