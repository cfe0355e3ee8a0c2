package crash

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestACallOfAHistoryIsSentOnce(t *testing.T) {
	send := func(c *http.Client) (calls int64) {
		var n atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n.Add(1) != 2 {
				return
			}
			conn, _, err := w.(http.Hijacker).Hijack() // the connection breaks before the answer
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
		}))
		defer s.Close()
		for range 2 { // the second one on a connection that is used again
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Idempotency-Key", "k")
			if res, err := c.Do(r); err == nil {
				_ = res.Body.Close()
			}
		}
		return n.Load()
	}
	if n := send(oneTry()); n != 2 {
		t.Errorf("the server saw %d requests of 2 calls", n)
	}
	if n := send(&http.Client{Transport: &http.Transport{}}); n != 3 {
		t.Errorf("Go's own transport sent %d requests for 2 calls, want 3: this test proves nothing", n)
	}
}
