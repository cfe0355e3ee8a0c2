package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// armed notes what the middleware asks of the connection, and passes it on.
type armed struct {
	http.ResponseWriter
	now    time.Time // the deadline that holds
	during []bool    // of each write and flush: there was one
}

func (d *armed) SetWriteDeadline(at time.Time) error {
	d.now = at
	return http.NewResponseController(d.ResponseWriter).SetWriteDeadline(at)
}

func (d *armed) Write(content []byte) (int, error) {
	d.during = append(d.during, !d.now.IsZero())
	return d.ResponseWriter.Write(content)
}

func (d *armed) FlushError() error {
	d.during = append(d.during, !d.now.IsZero())
	return http.NewResponseController(d.ResponseWriter).Flush()
}

// TestAWriteHasADeadlineAndAPauseHasNone: over HTTP/2 a deadline that passes between two
// writes resets the stream, so whoever follows a run that is silent would be cut.
func TestAWriteHasADeadlineAndAPauseHasNone(t *testing.T) {
	var noted *armed
	w := newWorld(t, func(c *Config) {
		c.Pages = http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
			for range 3 {
				_, _ = io.WriteString(out, "news\n")
				_ = http.NewResponseController(out).Flush()
				if !noted.now.IsZero() {
					t.Errorf("a deadline is left after a write: %v", noted.now)
				}
			}
		})
	})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		noted = &armed{ResponseWriter: out}
		w.server.ServeHTTP(noted, r)
		if noted.now.IsZero() {
			t.Error("what net/http still sends when the handler is done has no deadline")
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.token)
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "news\nnews\nnews\n" || response.ProtoMajor != 2 {
		t.Fatalf("HTTP/%d %q %v", response.ProtoMajor, body, err)
	}
	if len(noted.during) != 6 {
		t.Fatalf("%d writes and flushes, want 6", len(noted.during))
	}
	for n, had := range noted.during {
		if !had {
			t.Errorf("write %d has no deadline: a peer that takes nothing would hold it for ever", n)
		}
	}
}
