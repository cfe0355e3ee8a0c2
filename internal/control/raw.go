package control

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs"
)

// RawLog reads a log's bytes as they were at one moment, from any place in them.
type RawLog struct {
	ctx    context.Context
	log    *logs.Log
	step   int64 // negative: all of them
	size   int64
	sealed bool
	at     int64
	pipe   *io.PipeReader
}

// OpenRaw opens an attempt's log, or one step of it, for whoever may read it.
func (l *Logs) OpenRaw(ctx context.Context, attempt domain.AttemptID, step int64) (*RawLog, error) {
	log, err := l.open(ctx, string(attempt))
	if err != nil {
		return nil, err
	}
	totals, err := log.Totals(ctx)
	if err != nil {
		return nil, err
	}
	r := &RawLog{ctx: ctx, log: log, step: step, size: totals.Bytes, sealed: totals.Sealed}
	if step >= 0 {
		r.size = 0
		for _, s := range totals.Steps {
			if int64(s.Step) == step {
				r.size = s.Bytes
			}
		}
	}
	return r, nil
}

// Size is how many bytes there are.
func (r *RawLog) Size() int64 { return r.size }

// Sealed says that no more will come.
func (r *RawLog) Sealed() bool { return r.sealed }

// Seek implements io.Seeker.
func (r *RawLog) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the first byte")
	}
	if offset != r.at {
		r.stop()
		r.at = offset
	}
	return offset, nil
}

// Read implements io.Reader. The log is walked once, block by block, behind a pipe.
func (r *RawLog) Read(p []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	if r.pipe == nil {
		r.start()
	}
	if left := r.size - r.at; int64(len(p)) > left {
		p = p[:left]
	}
	n, err := r.pipe.Read(p)
	r.at += int64(n)
	return n, err
}

func (r *RawLog) start() {
	in, out := io.Pipe()
	r.pipe = in
	go func() {
		var err error
		if r.step < 0 {
			_, err = r.log.Raw(r.ctx, out, r.at, r.size-r.at)
		} else {
			skip := &skipWriter{skip: r.at, send: func(data []byte, _ int64) error {
				_, err := out.Write(data)
				return err
			}}
			_, err = r.log.RawStep(r.ctx, skip, uint32(r.step))
		}
		if err != nil {
			err = fmt.Errorf("read raw log: %w", err)
		}
		_ = out.CloseWithError(err) // a reader that stopped needs no reason
	}()
}

func (r *RawLog) stop() {
	if r.pipe != nil {
		_ = r.pipe.Close()
		r.pipe = nil
	}
}

// Close implements io.Closer.
func (r *RawLog) Close() error {
	r.stop()
	return nil
}
