package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// freeAddress finds a port of this machine that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// profile takes the server's processor profile over a time and writes it to a file, as
// `go tool pprof` reads it.
func (s *stage) profile(ctx context.Context, over time.Duration) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.server.pprof, max(int(over.Seconds()), 1))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("take profile: %w", err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("take profile: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	if err == nil {
		err = os.WriteFile(s.options.Profile, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("take profile: %w", err)
	}
	return nil
}
