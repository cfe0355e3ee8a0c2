package httpapi

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

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
	// Size is how many bytes there are now.
	Size int64
	// Sealed says that no more will come.
	Sealed bool
	// Digest names the bytes of a sealed log; empty when it isn't known.
	Digest domain.Digest
	// Write writes exactly length bytes from offset on, both within Size.
	Write func(ctx context.Context, w io.Writer, offset, length int64) error
}

func (s *Server) serveRawLog(w http.ResponseWriter, r *http.Request) {
	raw, attempt, base, err := s.openRaw(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	head, size := w.Header(), max(raw.Size-base, 0)
	head.Set("Content-Type", "text/plain; charset=utf-8")
	head.Set("Content-Security-Policy", "default-src 'none'; sandbox") // a log is hostile text
	head.Set("Cache-Control", "private, no-cache")
	head.Set("Accept-Ranges", "bytes")
	head.Set("Fairlead-Log-Size", strconv.FormatInt(raw.Size, 10))
	head.Set("Fairlead-Log-Sealed", strconv.FormatBool(raw.Sealed))
	if raw.Sealed && raw.Digest.Valid() {
		head.Set("ETag", fmt.Sprintf(`"%s-%d"`, raw.Digest.Hex(), base))
	}
	if download, _ := strconv.ParseBool(r.URL.Query().Get("download")); download {
		head.Set("Content-Disposition", `attachment; filename="`+string(attempt)+`.log"`) // the id is checked
	}
	if etag := head.Get("ETag"); etag != "" && r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	from, length, status := rangeOf(r, head.Get("ETag"), size)
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		head.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
		s.turnAway(w, r, codeRange, fmt.Sprintf("The range lies behind the end: the log has %d bytes here.", size))
		return
	case http.StatusPartialContent:
		head.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, from+length-1, size))
	}
	head.Set("Content-Length", strconv.FormatInt(length, 10))
	if r.Method == http.MethodHead || length == 0 {
		w.WriteHeader(status)
		return
	}
	s.writeRaw(w, r, raw, status, base+from, length)
}

// writeRaw sends bytes. The length is already said, so a fault in the middle cuts the
// connection: the client must not take a part for the whole.
func (s *Server) writeRaw(w http.ResponseWriter, r *http.Request, raw *RawBytes, status int, from, length int64) {
	out := &lateHeader{ResponseWriter: w, status: status}
	err := raw.Write(r.Context(), out, from, length)
	if err == nil && out.bytes != length {
		err = fmt.Errorf("write raw log: %d bytes of %d", out.bytes, length)
	}
	switch {
	case err == nil, r.Context().Err() != nil:
	case out.bytes == 0:
		s.refuse(w, r, err)
	default:
		answer := s.explain(r.Context(), err)
		s.log.WarnContext(r.Context(), "raw log was cut", slog.String("request", answer.GetRequest()))
		panic(http.ErrAbortHandler)
	}
}

// lateHeader sends the header with the first byte, so that a fault before it can still be
// an answer of its own.
type lateHeader struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Write implements io.Writer.
func (l *lateHeader) Write(content []byte) (int, error) {
	if l.bytes == 0 && len(content) > 0 {
		l.WriteHeader(l.status)
	}
	n, err := l.ResponseWriter.Write(content)
	l.bytes += int64(n)
	return n, err
}

// rangeOf reads the header Range: one range of bytes. Several ranges, or another unit, are
// answered with everything, which the standard allows.
//
// Trust: the header comes from anybody.
func rangeOf(r *http.Request, etag string, size int64) (from, length int64, status int) {
	text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if condition := r.Header.Get("If-Range"); !ok || (condition != "" && condition != etag) {
		return 0, size, http.StatusOK
	}
	first, last, ok := strings.Cut(strings.TrimSpace(text), "-")
	start, err1 := strconv.ParseUint(first, 10, 63)
	end, err2 := strconv.ParseUint(last, 10, 63)
	switch {
	case !ok || (first != "" && err1 != nil) || (last != "" && err2 != nil) || first+last == "":
		return 0, size, http.StatusOK
	case first == "": // the last bytes
		from = max(size-int64(end), 0)
		length = size - from
	case last == "":
		from, length = int64(start), size-int64(start)
	case end < start:
		return 0, size, http.StatusOK
	default:
		from, length = int64(start), min(int64(end), size-1)-int64(start)+1
	}
	if length <= 0 {
		return 0, 0, http.StatusRequestedRangeNotSatisfiable
	}
	return from, length, http.StatusPartialContent
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
