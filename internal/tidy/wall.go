package tidy

import (
	"fmt"
	"slices"
	"strings"
)

// wall is a claim about everything that a program or package links.
type wall struct {
	from  []string // packages of ours; "/..." for all below
	never []string // import paths, ours relative to the module; all below are meant too
	why   string
}

var sqlDrivers = []string{"database/sql", "modernc.org/sqlite", "github.com/jackc/pgx", "github.com/pressly/goose"}

// walls are security claims, so they are transitive: what is not linked can't be reached
// by a defect either.
var walls = []wall{
	{
		from: []string{"cmd/fairlead-runner", "internal/runner/..."},
		never: append([]string{"internal/engine", "internal/store", "internal/core", "internal/credential",
			"internal/dispatch", "internal/httpapi"}, sqlDrivers...),
		why: "a machine that executes other people's code holds no part of the control plane",
	},
	{
		from: []string{"api/client", "internal/cli/...", "internal/capture"},
		never: append([]string{"internal/engine", "internal/store", "internal/core", "internal/credential",
			"internal/dispatch"}, sqlDrivers...),
		why: "a client knows the server by its contract only; cmd/fairlead gives it what `up` and `server` need",
	},
	{
		from: []string{"cmd/fairlead-client"},
		never: append([]string{"internal/engine", "internal/store", "internal/core", "internal/credential",
			"internal/dispatch", "internal/httpapi", "internal/web", "internal/telemetry", "internal/runner",
			"internal/isolate", "internal/scm", "internal/blob", "internal/logs", "github.com/prometheus",
			"go.opentelemetry.io", "google.golang.org/grpc", "github.com/a-h/templ"}, sqlDrivers...),
		why: "every command waits for what this program links to start; what needs a server is handed over",
	},
	{
		from:  []string{"api/..."},
		never: []string{"internal/core", "internal/engine", "internal/store"},
		why:   "nothing of the core goes over a wire unconverted",
	},
	{
		from:  []string{"internal/core/...", "internal/workflow/...", "internal/domain"},
		never: append([]string{"api"}, sqlDrivers...),
		why:   "a decision must not depend on how it is transported or stored",
	},
}

// below says whether name is prefix itself or stands below it.
func below(name, prefix string) bool {
	return name == prefix || strings.HasPrefix(name, prefix+"/")
}

func (w wall) guards(pkg string) bool {
	return slices.ContainsFunc(w.from, func(from string) bool {
		if dir, ok := strings.CutSuffix(from, "/..."); ok {
			return below(pkg, dir)
		}
		return pkg == from
	})
}

func wallsHold(t *Tree) ([]Finding, error) {
	own, err := t.own()
	if err != nil {
		return nil, err
	}
	d, err := t.known()
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, w := range walls {
		for _, pkg := range own {
			if e := d.entry(pkg); !w.guards(pkg) || e != nil && e.Ring == Test {
				continue
			}
			for _, way := range t.ways(t.Module+"/"+pkg, w.never) {
				out = append(out, Finding{DepsPath, 0, fmt.Sprintf("%s links what it must not: %s; %s",
					pkg, strings.Join(way, " > "), w.why)})
			}
		}
	}
	return out, nil
}

// ways finds, for every forbidden package that is linked from a package, one shortest chain
// of imports to it. The search stops at a forbidden package: what it links follows from it.
func (t *Tree) ways(from string, never []string) [][]string {
	before := map[string]string{from: ""}
	queue := []string{from}
	var out [][]string
	for len(queue) > 0 {
		now := queue[0]
		queue = queue[1:]
		if now != from && forbidden(t.short(now), never) {
			var way []string
			for at := now; at != ""; at = before[at] {
				way = append([]string{t.short(at)}, way...)
			}
			out = append(out, way)
			continue
		}
		for _, next := range t.graph[now].Imports {
			if _, seen := before[next]; !seen {
				before[next] = now
				queue = append(queue, next)
			}
		}
	}
	return out
}

// forbidden leaves out the interfaces of SQL drivers, which packages of values (an id, a
// colour) implement: without a driver and database/sql they reach nothing.
func forbidden(name string, never []string) bool {
	return name != "database/sql/driver" && slices.ContainsFunc(never, func(n string) bool { return below(name, n) })
}
