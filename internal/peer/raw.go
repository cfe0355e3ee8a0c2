package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// RawLog is a log at another member, as it was at one moment.
type RawLog struct {
	peers  *Peers
	holder Holder
	path   string
	Size   int64
	Sealed bool
}

// OpenLog looks at an attempt's log at another member, byte for byte; a negative step is all
// of them.
func (p *Peers) OpenLog(ctx context.Context, h Holder, attempt domain.AttemptID, step int64) (*RawLog, error) {
	path := "/api/v1/attempts/" + string(attempt) + "/log"
	if step >= 0 {
		path += "?step=" + strconv.FormatInt(step, 10)
	}
	res, err := p.Fetch(ctx, h, http.MethodHead, path, nil)
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	out := &RawLog{peers: p, holder: h, path: path, Sealed: res.Header.Get("Fairlead-Log-Sealed") == "true"}
	if out.Size, err = strconv.ParseInt(res.Header.Get("Fairlead-Log-Size"), 10, 64); err != nil {
		return nil, fmt.Errorf("open log at member %s: it does not say how long it is: %w", h.Name, err)
	}
	return out, nil
}

// Write writes length bytes from an offset.
//
// Preconditions: both lie within Size.
func (l *RawLog) Write(ctx context.Context, w io.Writer, offset, length int64) error {
	if length == 0 {
		return nil
	}
	res, err := l.peers.Fetch(ctx, l.holder, http.MethodGet, l.path,
		http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)}})
	if err != nil {
		return err
	}
	n, err := io.Copy(w, io.LimitReader(res.Body, length))
	if err = errors.Join(err, res.Body.Close()); err == nil && n != length {
		err = fmt.Errorf("read log at member %s: %d bytes of %d (%w)", l.holder.Name, n, length, domain.ErrRetry)
	}
	return err
}
