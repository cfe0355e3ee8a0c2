package runner

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
)

// servers are the addresses of one fleet: any of them will do. All conversations of a runner
// use the same one until it does not answer; then all go on to the next.
type servers struct {
	list []string
	at   atomic.Uint64
}

// parseServers reads addresses that are separated by commas.
func parseServers(text string) (*servers, error) {
	s := &servers{}
	for _, one := range strings.Split(text, ",") {
		one = strings.TrimSuffix(strings.TrimSpace(one), "/")
		u, err := url.Parse(one)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
			return nil, fmt.Errorf("configure runner: the server %q is no http or https address without credentials", one)
		}
		s.list = append(s.list, one)
	}
	return s, nil
}

// text is the list as it is configured.
func (s *servers) text() string { return strings.Join(s.list, ",") }

// turn names the server in use. It only grows.
func (s *servers) turn() uint64 { return s.at.Load() }

// index is the place of a turn's server in the list.
func (s *servers) index(turn uint64) int { return int(turn % uint64(len(s.list))) }

// leave goes on to the next server, unless somebody did so already since that turn.
func (s *servers) leave(turn uint64) { s.at.CompareAndSwap(turn, turn+1) }

// ordered is the list with the server in use first, for who can't ask again later.
func (s *servers) ordered() string {
	i := s.index(s.turn())
	return strings.Join(append(append([]string{}, s.list[i:]...), s.list[:i]...), ",")
}
