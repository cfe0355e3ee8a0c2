package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// WholeLog asks RawLog for all steps.
const WholeLog int64 = -1

// maxStep is the largest step that a caller may name: the index of the runner's own words
// in the runner protocol.
const maxStep = math.MaxUint32

// RawLog opens logs byte for byte.
type RawLog interface {
	// OpenRaw opens an attempt's log, or one step of it (WholeLog: all), as it is now. An
	// attempt that doesn't exist is a *domain.Rejection with CodeNotFound.
	OpenRaw(ctx context.Context, attempt domain.AttemptID, step int64) (*RawBytes, error)
}

// RawBytes are the bytes of a log at one moment.
type RawBytes struct {
	// Content is read from where it was sought to, and closed by the transport.
	Content io.ReadSeekCloser
	// Size is how many bytes there are now.
	Size int64
	// Sealed says that no more will come.
	Sealed bool
	// Digest names the bytes of a sealed log; empty when it isn't known.
	Digest domain.Digest
}

func (s *Server) serveRawLog(w http.ResponseWriter, r *http.Request) {
	raw, attempt, offset, err := s.openRaw(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	defer func() {
		if err := raw.Content.Close(); err != nil {
			s.log.WarnContext(r.Context(), "close raw log", slog.String("attempt", string(attempt)), slog.Any("error", err))
		}
	}()
	head := w.Header()
	head.Set("Content-Type", "text/plain; charset=utf-8")
	head.Set("Content-Security-Policy", "default-src 'none'; sandbox") // a log is hostile text
	head.Set("Cache-Control", "private, no-cache")
	head.Set("Fairlead-Log-Size", strconv.FormatInt(raw.Size, 10))
	head.Set("Fairlead-Log-Sealed", strconv.FormatBool(raw.Sealed))
	if raw.Sealed && raw.Digest.Valid() {
		head.Set("ETag", fmt.Sprintf(`"%s-%d"`, raw.Digest.Hex(), offset))
	}
	if download, _ := strconv.ParseBool(r.URL.Query().Get("download")); download {
		head.Set("Content-Disposition", `attachment; filename="`+string(attempt)+`.log"`) // the id is checked
	}
	content := &shifted{content: raw.Content, base: offset, size: max(raw.Size-offset, 0)}
	http.ServeContent(w, r, "", time.Time{}, content)
}

// openRaw reads the request and opens the bytes.
func (s *Server) openRaw(r *http.Request) (raw *RawBytes, attempt domain.AttemptID, offset int64, err error) {
	query, err := onlyQuery(r, "step", "offset", "download")
	if err != nil {
		return nil, "", 0, err
	}
	step, given, err := numberQuery(query, "step")
	if err != nil || step > maxStep {
		return nil, "", 0, errArgument("step", "The step is not a number in its bounds.")
	}
	if !given {
		step = WholeLog
	}
	if offset, _, err = numberQuery(query, "offset"); err != nil {
		return nil, "", 0, err
	}
	if _, err = boolQuery(query, "download"); err != nil {
		return nil, "", 0, err
	}
	attempt = domain.AttemptID(r.PathValue("attempt"))
	if _, _, _, ok := attempt.Split(); !ok {
		return nil, "", 0, errHidden()
	}
	raw, err = s.cfg.RawLog.OpenRaw(r.Context(), attempt, step)
	return raw, attempt, offset, err
}

// shifted leaves out the first bytes. It reads no further than the size that was true when
// the log was opened: a live log grows while it is sent, and the length is already said.
type shifted struct {
	content io.ReadSeeker
	base    int64
	size    int64
	at      int64
	moved   bool
}

var errSeek = errors.New("seek before the start")

// Seek implements io.Seeker.
func (s *shifted) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.size
	}
	if offset < 0 {
		return 0, errSeek
	}
	s.at, s.moved = offset, true
	return offset, nil
}

// Read implements io.Reader. The seek below is done only when bytes are wanted, since
// seeking in a compressed log is work and net/http seeks to measure.
func (s *shifted) Read(p []byte) (int, error) {
	if s.at >= s.size {
		return 0, io.EOF
	}
	if s.moved || s.at == 0 {
		if _, err := s.content.Seek(s.base+s.at, io.SeekStart); err != nil {
			return 0, err
		}
		s.moved = false
	}
	n, err := s.content.Read(p[:min(int64(len(p)), s.size-s.at)])
	s.at += int64(n)
	return n, err
}
