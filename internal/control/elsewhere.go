package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs"
)

// Remote is the server of the fleet that leads the pool and holds the logs: what runners are
// doing, and what logs say that still grow, is in its memory alone.
type Remote struct {
	Runs  fairleadv1connect.RunServiceClient
	Logs  fairleadv1connect.LogServiceClient
	Pools fairleadv1connect.PoolServiceClient
	// Raw opens a log there byte for byte; a negative step is all of them.
	Raw func(ctx context.Context, attempt domain.AttemptID, step int64) (*RawLog, error)
	// Within gives a context that names the caller to the other server, and that ends when
	// the pool and the logs move on.
	Within func(ctx context.Context) (context.Context, context.CancelFunc)
}

// Elsewhere gives the server that leads the pool and holds the logs: nil when that is this
// one, or when there is no other. While nobody does it is a not_owner rejection.
type Elsewhere func(ctx context.Context) (*Remote, error)

// find asks, with a nil function for a server that is alone.
func (e Elsewhere) find(ctx context.Context) (*Remote, error) {
	if e == nil {
		return nil, nil
	}
	return e(ctx)
}

// LogSource opens logs for reading: a gateway, or a holder of one.
type LogSource interface {
	Log(tenant domain.TenantID, attempt domain.AttemptID, ref *logs.Ref) (*logs.Log, error)
	Growing(tenant domain.TenantID, attempt domain.AttemptID) (logs.Totals, bool)
	// Removal says whether retention removed the object of a sealed log; nil when not.
	Removal(ctx context.Context, object string) (*logs.Removal, error)
}

var (
	_ LogSource = (*logs.Gateway)(nil)
	_ LogSource = (*logs.Holder)(nil)
)

// What a stream bears while the logs move from one server to another.
const (
	movePause    = 50 * time.Millisecond
	movePatience = 20 * time.Second
)

// cutError is a stream from another server that ended in the middle.
type cutError struct{ err error }

// Error implements error.
func (c *cutError) Error() string { return "log stream of another server was cut: " + c.err.Error() }

// Unwrap gives the cause.
func (c *cutError) Unwrap() error { return c.err }

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // it ends with a message that says so
	}
	return &cutError{fmt.Errorf("%w (%w)", err, domain.ErrRetry)}
}

// moved reports whether an error says that the logs are, or will be, somewhere else.
func moved(err error) bool {
	var c *cutError
	r, rejected := domain.AsRejection(err)
	switch {
	case rejected:
		return r.Code == domain.CodeNotOwner
	case errors.As(err, &c):
		return true
	}
	return errors.Is(err, logs.ErrNotHeld) || errors.Is(err, logs.ErrClosed)
}

// insist does something again as long as the logs move. done reports progress, which gives
// it all its patience back.
func (e Elsewhere) insist(ctx context.Context, act func() (progress bool, err error)) error {
	deadline := time.Now().Add(movePatience)
	for {
		progress, err := act()
		if err == nil || e == nil || !moved(err) || ctx.Err() != nil {
			return err
		}
		if progress {
			deadline = time.Now().Add(movePatience)
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(movePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
