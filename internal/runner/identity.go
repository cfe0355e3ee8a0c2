package runner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
)

// identity is who this runner is to its server. It is kept in the data folder, readable
// by its owner alone: the resume secret is what proves it.
type identity struct {
	Server    string          `json:"server"`
	Name      string          `json:"name"`
	Runner    string          `json:"runner,omitempty"`
	Session   string          `json:"session,omitempty"`
	Pool      string          `json:"pool,omitempty"`
	Resume    string          `json:"resume"`
	Labels    []string        `json:"labels"`
	Capacity  int             `json:"capacity"`
	Isolation string          `json:"isolation"`
	Reply     json.RawMessage `json:"reply,omitempty"` // the last RegisterResponse: keys, as they are now, and timing
	// Boot counts starts of the runner; offer numbers are made from it.
	Boot uint64 `json:"boot"`
}

// errUnregistered: the server does not know this runner, or not any more.
var errUnregistered = errors.New("the server does not know this runner; register it with a new token")

func identityPath(dir string) string { return filepath.Join(dir, "runner.json") }

// lock keeps a second runner out of the folder, for as long as this process lives.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open data folder %s: another runner uses it", dir)
	}
	return f, nil
}

// loadIdentity reads the identity, or begins a new one, and counts this start. The
// count is on disk before any token is made from it.
func loadIdentity(c *Config) (*identity, error) {
	id := new(identity)
	text, err := os.ReadFile(identityPath(c.Data))
	if err == nil {
		err = json.Unmarshal(text, id)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("load runner identity %s: %w", identityPath(c.Data), err)
	}
	if id.Runner != "" && id.Name != c.Name {
		return nil, fmt.Errorf("load runner identity: the folder %s is the runner %q's, not %q's", c.Data, id.Name, c.Name)
	}
	if id.Runner != "" && id.Server != c.Server {
		// The same server may be reached by another address, which only it can tell.
		c.Logger.Warn("the server's address has changed", "before", id.Server, "now", c.Server)
	}
	id.Server, id.Name = c.Server, c.Name
	if id.Resume == "" {
		id.Resume = rand.Text()
	}
	id.Boot++
	return id, id.save(c.Data)
}

func (id *identity) save(dir string) error {
	text, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("save runner identity: %w", err)
	}
	next := identityPath(dir) + ".next"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("save runner identity: %w", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("save runner identity: %w", err)
	}
	if err := os.Rename(next, identityPath(dir)); err != nil {
		return fmt.Errorf("save runner identity: %w", err)
	}
	return nil
}

// register gets an identity from the server, or confirms the one there is. It can be
// repeated: the secret was made before, so a lost reply is no second runner.
func (id *identity) register(ctx context.Context, c *Config, client runnerv1connect.RunnerServiceClient) error {
	goos, arch := platform()
	resp, err := client.Register(ctx, &runnerv1.RegisterRequest{
		Protocol: Protocol, Token: c.Token, Name: c.Name, Labels: c.Labels, Capacity: uint32(c.Capacity),
		Isolation: c.Driver.Name(), Version: c.Version, Os: goos, Arch: arch,
		ResumeDigest: domain.DigestOf([]byte(id.Resume)).Hex(),
	})
	if err != nil {
		return fmt.Errorf("register runner %s: %w", c.Name, err)
	}
	if resp.GetProtocol() != Protocol {
		return fmt.Errorf("register runner %s: the server speaks version %d of the protocol, this runner speaks %d",
			c.Name, resp.GetProtocol(), Protocol)
	}
	if !domain.ValidID(domain.PrefixRunner, resp.GetRunner()) || resp.GetSession() == "" {
		return fmt.Errorf("register runner %s: the server's answer names no runner", c.Name)
	}
	if _, err := keyring(resp.GetKeys()); err != nil {
		return fmt.Errorf("register runner %s: %w", c.Name, err)
	}
	reply, err := protojson.Marshal(resp)
	if err != nil {
		return fmt.Errorf("register runner %s: %w", c.Name, err)
	}
	id.Runner, id.Session, id.Pool, id.Reply = resp.GetRunner(), resp.GetSession(), resp.GetPool(), reply
	id.Labels, id.Capacity, id.Isolation = c.Labels, c.Capacity, c.Driver.Name()
	return id.save(c.Data)
}

// learn keeps the keys that the server publishes now.
func (id *identity) learn(dir string, keys []*runnerv1.SigningKey) error {
	resp, err := id.reply()
	if err != nil {
		return err
	}
	resp.Keys = keys
	reply, err := protojson.Marshal(resp)
	if err != nil {
		return fmt.Errorf("save runner identity: %w", err)
	}
	id.Reply = reply
	return id.save(dir)
}

// reply is the last answer to a registration.
func (id *identity) reply() (*runnerv1.RegisterResponse, error) {
	resp := new(runnerv1.RegisterResponse)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(id.Reply, resp); err != nil {
		return nil, fmt.Errorf("load runner identity: %w", err)
	}
	return resp, nil
}

// matches reports whether the server knows the runner as it is configured now.
func (id *identity) matches(c *Config) bool {
	return id.Runner != "" && id.Capacity == c.Capacity && id.Isolation == c.Driver.Name() &&
		slices.Equal(id.Labels, c.Labels)
}

// attemptsDir holds a folder for each attempt.
func attemptsDir(dir string) string { return filepath.Join(dir, "attempts") }

// forget erases an attempt's folder.
func forget(dir, attempt string) error {
	return isolate.Erase(filepath.Join(attemptsDir(dir), attempt))
}
