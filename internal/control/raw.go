package control

import (
	"context"
	"errors"
	"io"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs"
)

// RawLog is a log's bytes, or one step's, as they were at one moment.
type RawLog struct {
	log    *logs.Log
	step   int64 // negative: all of them
	Size   int64
	Sealed bool
	// Remote, for a log at another server, writes length bytes from an offset.
	Remote func(ctx context.Context, w io.Writer, offset, length int64) error
}

// OpenRaw opens an attempt's log, or one step of it (step not negative), for whoever may
// read it.
func (l *Logs) OpenRaw(ctx context.Context, attempt domain.AttemptID, step int64) (*RawLog, error) {
	log, remote, err := l.open(ctx, string(attempt))
	if err != nil {
		return nil, err
	}
	if remote != nil {
		return remote.Raw(ctx, attempt, step)
	}
	totals, err := log.Totals(ctx)
	if err != nil {
		return nil, err
	}
	r := &RawLog{log: log, step: step, Size: totals.Bytes, Sealed: totals.Sealed}
	if step >= 0 {
		r.Size = 0
		for _, s := range totals.Steps {
			if int64(s.Step) == step {
				r.Size = s.Bytes
			}
		}
	}
	return r, nil
}

// Write writes length bytes from an offset.
//
// Preconditions: both lie within Size.
func (r *RawLog) Write(ctx context.Context, w io.Writer, offset, length int64) error {
	if r.Remote != nil {
		return r.Remote(ctx, w, offset, length)
	}
	if r.step < 0 {
		_, err := r.log.Raw(ctx, w, offset, length)
		return err
	}
	left := length
	skip := &skipWriter{skip: offset, send: func(data []byte, _ int64) error {
		n := min(int64(len(data)), left)
		left -= n
		if _, err := w.Write(data[:n]); err != nil {
			return err
		}
		if left == 0 {
			return errEnough
		}
		return nil
	}}
	if _, err := r.log.RawStep(ctx, skip, uint32(r.step)); err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

// errEnough ends a walk through a log early.
var errEnough = errors.New("all that was asked for is written")
