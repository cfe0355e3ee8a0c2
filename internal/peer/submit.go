package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Submit carries a command to the member that owns its partition: it is engine's Forward.
// An error that wraps engine.ErrUnsent says that nothing happened; behind any other the
// outcome is not known.
func (p *Peers) Submit(ctx context.Context, to store.Holding, w engine.Wire) (engine.WireAck, error) {
	address := p.addressOf(to.Owner)
	if address == "" {
		return engine.WireAck{}, fmt.Errorf("submit to member %s: it is not there: %w", to.Owner, engine.ErrUnsent)
	}
	body, err := json.Marshal(w)
	if err != nil {
		return engine.WireAck{}, fmt.Errorf("encode command: %w: %w", engine.ErrUnsent, err)
	}
	if h := p.Holder(to.Partition); h.Name == to.Owner {
		var cancel context.CancelFunc
		ctx, cancel = While(ctx, h)
		defer cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, headerWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+pathSubmit, bytes.NewReader(body))
	if err != nil {
		return engine.WireAck{}, fmt.Errorf("submit to member %s: %w: %w", to.Owner, engine.ErrUnsent, err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := p.web.Do(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(err, cause)
		}
		if unsent(err) {
			return engine.WireAck{}, fmt.Errorf("submit to member %s: %w: %w", to.Owner, engine.ErrUnsent, err)
		}
		return engine.WireAck{}, fmt.Errorf("submit to member %s: %w", to.Owner, err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode >= 400 && res.StatusCode < 500:
		// It was refused before it was read: another secret, another version.
		return engine.WireAck{}, fmt.Errorf("%w: %w", statusError(res, "submit to", to.Owner), engine.ErrUnsent)
	case res.StatusCode != http.StatusOK:
		return engine.WireAck{}, statusError(res, "submit to", to.Owner)
	}
	var ack engine.WireAck
	if err := decode(res.Body, &ack); err != nil {
		return engine.WireAck{}, fmt.Errorf("read answer of member %s: %w", to.Owner, err)
	}
	return ack, nil
}

func decode(r io.Reader, into any) error {
	text, err := io.ReadAll(io.LimitReader(r, wireBytesMax+1))
	if err != nil {
		return err
	}
	if len(text) > wireBytesMax {
		return errors.New("it is too large")
	}
	return json.Unmarshal(text, into)
}

// Status asks a member what it owns and how that is.
func (p *Peers) Status(ctx context.Context, name string) ([]engine.PartitionStatus, error) {
	address := p.addressOf(name)
	if address == "" {
		return nil, fmt.Errorf("ask member %s: it is not there", name)
	}
	return p.ask(ctx, name, address)
}

// Greet finds out whether a member knows this server, also when no picture showed it yet. An
// error that wraps ErrStranger says that it does not; behind any other nobody knows.
func (p *Peers) Greet(ctx context.Context, m *store.Member) error {
	_, err := p.ask(ctx, m.Name, strings.TrimSuffix(m.Address, "/"))
	return err
}

// GreetSelf finds out whether this very process answers at the address that it wants to tell
// the others. A process that was there before is not it, and another member behind the same
// address neither: that error wraps ErrAnother.
func (p *Peers) GreetSelf(ctx context.Context, self *store.Member) error {
	address := strings.TrimSuffix(self.Address, "/") + pathStatus
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("greet itself: %w", err)
	}
	r.Close = true // what balances load chooses anew for every connection
	res, err := p.web.Do(r)
	if err != nil {
		return fmt.Errorf("nobody answers there: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("something else answers there, with %s", res.Status)
	case res.Header.Get(headerMember) != self.Name:
		return fmt.Errorf("%w: the member %q of this fleet", ErrAnother, res.Header.Get(headerMember))
	case res.Header.Get(headerSession) != self.Session || self.Session == "":
		return fmt.Errorf("another process answers there as the member %q, an earlier one perhaps", self.Name)
	}
	return nil
}

func (p *Peers) ask(ctx context.Context, name, address string) ([]engine.PartitionStatus, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+pathStatus, nil)
	if err != nil {
		return nil, fmt.Errorf("ask member %s: %w", name, err)
	}
	res, err := p.web.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask member %s: %w", name, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%w: %w", statusError(res, "ask", name), ErrStranger)
	}
	if res.StatusCode != http.StatusOK {
		return nil, statusError(res, "ask", name)
	}
	var out []engine.PartitionStatus
	if err := decode(res.Body, &out); err != nil {
		return nil, fmt.Errorf("read status of member %s: %w", name, err)
	}
	return out, nil
}

// Kick tells the member at an address that the fleet changed: it is fleet's Kick. A member
// that does not hear it finds out by itself.
func (p *Peers) Kick(ctx context.Context, address string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(address, "/")+pathLook, http.NoBody)
	if err != nil {
		return
	}
	res, err := p.web.Do(r)
	if err != nil {
		p.cfg.Log.Debug("member was not told of a change", "address", address, "error", err)
		return
	}
	_ = res.Body.Close()
}
