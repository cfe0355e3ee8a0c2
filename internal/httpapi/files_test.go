package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A request that needs a file when no more can be opened hears what is missing, that it may come
// again, and what an operator can do; also where whatever needed the file says it in its own words.
func TestARequestThatFindsNoFileLeftIsToldSo(t *testing.T) {
	var log strings.Builder
	s := &Server{log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := OpenFiles(); err != nil {
		t.Fatal(err)
	}
	if got := s.explain(t.Context(), errors.New("unable to open database file")).GetCode(); got != codeInternal {
		t.Errorf("a fault of another kind is told as %s", got)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	_, said := os.Open(os.DevNull)
	ready := OpenFiles()
	other := s.explain(t.Context(), errors.New("unable to open database file"))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if ready == nil || !strings.Contains(ready.Error(), "ulimit -n") {
		t.Errorf("whether files can be opened: %v", ready)
	}
	if other.GetCode() != codeFiles {
		t.Errorf("without a file left, a fault is told as %s", other.GetCode())
	}
	answer := s.explain(t.Context(), fmt.Errorf("read object: %w", said))
	w := httptest.NewRecorder()
	s.writeAnswer(w, answer)
	if answer.GetCode() != codeFiles || !strings.Contains(answer.GetMessage(), "ulimit -n") ||
		w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d, %v, %v", w.Code, w.Header(), answer)
	}
	if !strings.Contains(log.String(), "no more files can be opened") {
		t.Errorf("the log: %s", log.String())
	}
}
