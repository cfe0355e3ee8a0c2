// Command gallery serves every page in every state from canned runs, so that people and
// the browser test can look at all of them without a server.
//
// It is deliberately no server of Fairlead: nobody signs in, it listens on the loopback
// interface only, and its event streams come from canned changes.
//
// Invariants: the pages are the real ones, with the real security headers; what a form
// changes stays until the gallery ends.
//
// Read next: internal/web/canned/states.go
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/fairlead-ci/fairlead/internal/web"
	"github.com/fairlead-ci/fairlead/internal/web/canned"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:7080", "address on the loopback interface")
	play := flag.Duration("play", 700*time.Millisecond, "how often the live run moves; 0: never")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, *listen, *play); err != nil {
		fmt.Fprintln(os.Stderr, "gallery:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, listen string, play time.Duration) error {
	handler, world, err := newHandler()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", listen, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	fmt.Printf("ready http://%s/gallery\n", listener.Addr())
	go func() {
		<-ctx.Done()
		_ = server.Close() // the process ends with it
	}()
	if play > 0 {
		go playEvery(ctx, world, play)
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve gallery: %w", err)
	}
	return nil
}

func playEvery(ctx context.Context, world *canned.World, every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			world.Play()
		}
	}
}

func newHandler() (http.Handler, *canned.World, error) {
	world, states := canned.New(time.Now)
	pages, err := pagesOf(world)
	if err != nil {
		return nil, nil, err
	}
	empty, err := pagesOf(canned.Empty(time.Now))
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.HandleFunc("GET /gallery", func(w http.ResponseWriter, _ *http.Request) { list(w, states) })
	mux.HandleFunc("GET /gallery/signin", func(w http.ResponseWriter, r *http.Request) {
		pages.SignIn(w, r, web.SignIn{Action: "/gallery/signin", Next: "/", Message: "The token is not known."})
	})
	mux.Handle("GET /gallery/empty/", http.StripPrefix("/gallery/empty", empty))
	mux.HandleFunc("GET /api/v1/runs/{run}/events", events(world))
	mux.HandleFunc("GET /api/v1/attempts/{attempt}/log/events", events(world))
	mux.HandleFunc("GET /api/v1/attempts/{attempt}/log", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.FormValue("download") != "" {
			w.Header().Set("Content-Disposition", "attachment; filename=log.txt")
		}
		known := world.Raw(r.PathValue("attempt"), func(text string) bool {
			_, err := w.Write([]byte(text))
			return err == nil
		})
		if !known {
			http.NotFound(w, r)
		}
	})
	return mux, world, nil
}

func pagesOf(world *canned.World) (*web.Pages, error) {
	return web.New(web.Config{Runs: world, Logs: world, Repositories: world, Pools: world, Server: world,
		WithKey: canned.WithKey, Version: "gallery", Development: true,
		RequestID: func(context.Context) string { return "req_gallery" }})
}

// events says that something changed, as the real streams do.
func events(world *canned.World) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		changes, stop := world.Watch()
		defer stop()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-cache")
		out := http.NewResponseController(w)
		for n := 0; ; n++ {
			if _, err := fmt.Fprintf(w, "id: %s\ndata: changed\n\n", strconv.Itoa(n)); err != nil {
				return
			}
			if err := out.Flush(); err != nil {
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-changes:
			}
		}
	}
}

func list(w http.ResponseWriter, states []canned.State) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	fmt.Fprint(w, `<!doctype html><html lang="en"><title>Gallery</title><main><h1>Gallery</h1><ul>`)
	states = append(states, canned.State{Name: "signin", Path: "/gallery/signin", Says: "the page to sign in at"},
		canned.State{Name: "runs-empty", Path: "/gallery/empty/", Says: "no run yet"},
		canned.State{Name: "runners-empty", Path: "/gallery/empty/runners", Says: "no pool yet"},
		canned.State{Name: "repositories-empty", Path: "/gallery/empty/repositories", Says: "no repository yet"})
	for _, s := range states {
		fmt.Fprintf(w, "<li><a href=\"%s\" id=\"%s\">%s</a>: %s</li>\n", html.EscapeString(s.Path),
			html.EscapeString(s.Name), html.EscapeString(s.Name), html.EscapeString(s.Says))
	}
	fmt.Fprint(w, "</ul></main></html>")
}
