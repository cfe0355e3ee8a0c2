package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// held is what a server holds in memory, as its runtime says after a collection.
type held struct {
	rss        int64 // before that collection
	live       int64 // bytes of objects
	stacks     int64 // bytes
	goroutines int64
}

// memory asks the server's profiles.
func (s *server) memory(ctx context.Context) (h held, err error) {
	u, err := usageOf(s.pid())
	if err != nil {
		return h, err
	}
	h.rss = u.RSS
	for path, into := range map[string]map[string]*int64{
		"heap?gc=1&debug=1": {"# HeapAlloc = ": &h.live, "# Stack = ": &h.stacks},
		"goroutine?debug=1": {"goroutine profile: total ": &h.goroutines},
	} {
		if err := s.readProfile(ctx, path, into); err != nil {
			return h, fmt.Errorf("read the server's memory: %w", err)
		}
	}
	return h, nil
}

// readProfile finds numbers behind the words of a profile's text.
func (s *server) readProfile(ctx context.Context, path string, into map[string]*int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.pprof+"/debug/pprof/"+path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	found := 0
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for words, number := range into {
			if rest, ok := strings.CutPrefix(lines.Text(), words); ok {
				first, _, _ := strings.Cut(rest, " ")
				if *number, err = strconv.ParseInt(first, 10, 64); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				found++
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if found < len(into) {
		return fmt.Errorf("%s: %s, and not all of its numbers", path, answer.Status)
	}
	return nil
}
