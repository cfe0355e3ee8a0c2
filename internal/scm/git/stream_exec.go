package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// patient reads a body and gives up on a client that stays silent for idleTimeout.
type patient struct {
	from    io.Reader
	control *http.ResponseController

	mu      sync.Mutex
	stopped bool
}

// deadline sets how long the next read may take; false after stop.
func (p *patient) deadline(at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false
	}
	_ = p.control.SetReadDeadline(at) // not every server has deadlines
	return true
}

// stop ends a read under way and refuses all later ones.
func (p *patient) stop() {
	p.deadline(time.Unix(1, 0))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

func (p *patient) Read(b []byte) (int, error) {
	if !p.deadline(time.Now().Add(idleTimeout)) {
		return 0, io.ErrClosedPipe
	}
	n, err := p.from.Read(b)
	if err != nil {
		// At the end of the body the server itself watches the connection; a deadline left
		// behind would look like a client that went away.
		p.deadline(time.Time{})
	}
	return n, err
}

// source remembers why reading ended, to tell a client that went away from a git that
// had enough.
type source struct {
	from io.Reader
	err  error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// stream runs git with in as its input and sends its output, after prefix. Nothing is
// held in memory but two buffers. When the client goes away git ends; stream returns
// only after it has.
func (t *transfer) stream(ctx context.Context, c call, in io.Reader, prefix string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := t.handler.mirrors.command(ctx, c)
	stderr := &capped{max: stderrBytesMax}
	cmd.Stderr = stderr
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	err := errors.Join(err1, err2)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.handler.log.Error("start git", "repository", t.access.Repo.Repository, "error", err)
		plain(t.w, http.StatusInternalServerError, "the server could not serve this request")
		return
	}
	// Git may talk (progress) while the client still sends.
	_ = t.control.EnableFullDuplex() // only old HTTP needs it and has it
	fed := make(chan struct{})
	from := &source{from: in}
	go func() {
		defer close(fed)
		_, _ = io.Copy(stdin, from) // what went wrong is in from, or in git's own answer
		_ = stdin.Close()
		if from.err != nil {
			time.AfterFunc(killAfter, cancel) // it has its end of input and should end too
		}
	}()
	sent, sendErr := t.send(stdout, prefix)
	if sendErr != nil {
		if t.service == uploadPack {
			cancel()
		}
		_, _ = io.Copy(io.Discard, stdout)
	}
	waitErr := cmd.Wait()
	select {
	case <-fed:
	default:
		// Git had enough before the client said all: stop waiting for the rest.
		if t.patient != nil {
			t.patient.stop()
		}
		<-fed
	}
	t.conclude(c, sent, errors.Join(from.err, sendErr), waitErr, stderr)
}

// conclude logs what an operator should know and ends the answer honestly: a client must
// never take a cut answer for a whole one.
func (t *transfer) conclude(c call, sent int64, clientErr, gitErr error, stderr *capped) {
	if clientErr == nil && gitErr == nil {
		return
	}
	t.handler.log.Info("git transfer ended early", "service", t.service, "repository", t.access.Repo.Repository,
		"principal", t.access.Principal, "client", fmt.Sprint(clientErr), "git", fmt.Sprint(gitErr),
		"message", strings.TrimSpace(scrub(stderr.buf.String())))
	var tooLarge *http.MaxBytesError
	switch {
	case sent == 0 && errors.As(clientErr, &tooLarge):
		plain(t.w, http.StatusRequestEntityTooLarge, "the push is over the server's limit")
	case sent == 0 && clientErr == nil:
		plain(t.w, http.StatusInternalServerError, "the server could not serve this request")
	case clientErr == nil && slices.Contains(c.args, "--http-backend-info-refs"):
		panic(http.ErrAbortHandler)
	case clientErr != nil:
		panic(http.ErrAbortHandler)
	}
}

// send copies git's output to the client piece by piece.
func (t *transfer) send(stdout io.Reader, prefix string) (int64, error) {
	buf := make([]byte, 64<<10)
	var sent int64
	for {
		n, err := stdout.Read(buf)
		if n > 0 {
			_ = t.control.SetWriteDeadline(time.Now().Add(idleTimeout)) // not every server has deadlines
			if sent == 0 && prefix != "" {
				if _, err := io.WriteString(t.w, prefix); err != nil {
					return sent, fmt.Errorf("send: %w", err)
				}
			}
			if _, err := t.w.Write(buf[:n]); err != nil {
				return sent, fmt.Errorf("send: %w", err)
			}
			sent += int64(n)
			if n < len(buf) {
				if err := t.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
					return sent, fmt.Errorf("send: %w", err)
				}
			}
		}
		if err != nil {
			return sent, nil // the end of git's output, for whatever reason Wait will tell
		}
	}
}
