package verify

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Replayed is what a stream's history leads to.
type Replayed struct {
	State   any
	Version uint64
	Head    store.Head
	// Lists are the list rows that stay: of every table the last that the history wrote.
	Lists engine.Rows
	// Events counts what was applied.
	Events int
}

// Broken says where a history can't be followed any further.
type Broken struct {
	Version  uint64 // that could not be applied
	Position store.Position
	Why      string
}

// Error implements error.
func (b *Broken) Error() string {
	return fmt.Sprintf("version %d at position %d: %s", b.Version, b.Position, b.Why)
}

// see is called with every event after it was applied, at its row.
type see func(event any, row *store.Row)

// replay follows a stream's rows from the first. On a *Broken the result is what the rows
// before led to; nothing of the broken row counts.
func replay(kind *engine.Kind, p domain.PartitionID, rows []store.Row, each see) (out Replayed, err error) {
	out.State = kind.New()
	lists := newListed()
	for i := range rows {
		row := &rows[i]
		events, err := follow(kind, &out, row, each)
		if err != nil {
			out.Lists = lists.rows()
			return out, err
		}
		if err := lists.write(kind, p, &out, row, events); err != nil {
			out.Lists = lists.rows()
			return out, err
		}
	}
	out.Lists = lists.rows()
	if len(rows) > 0 {
		out.Head = store.Head{Tenant: rows[0].Tenant, Stream: rows[0].Stream, Version: out.Version}
		out.Head.Live = kind.Live(out.State)
		out.Head.NextWake, _ = kind.NextWake(out.State)
	}
	return out, nil
}

// follow applies one row and gives its events. A state that can't take an event panics: that is damage, too.
func follow(kind *engine.Kind, out *Replayed, row *store.Row, each see) (events []any, err error) {
	broken := func(form string, args ...any) error {
		return &Broken{Version: row.Version, Position: row.Position, Why: fmt.Sprintf(form, args...)}
	}
	if row.Count == 0 || row.Version != out.Version+uint64(row.Count) {
		return nil, broken("the row has %d events and follows version %d", row.Count, out.Version)
	}
	events, err = kind.DecodeEvents(row.Events)
	if err != nil {
		return nil, broken("its events can't be decoded: %v", err)
	}
	if len(events) != int(row.Count) {
		return nil, broken("it holds %d events, not %d", len(events), row.Count)
	}
	defer func() {
		if r := recover(); r != nil {
			err = broken("its events can't be applied: %v", r)
		}
	}()
	for _, e := range events {
		kind.Evolve(out.State, e)
		if each != nil {
			each(e, row)
		}
	}
	out.Version, out.Events = row.Version, out.Events+len(events)
	return events, nil
}

// listed keeps the last of every list row, as databases do.
type listed struct {
	runs    map[domain.RunID]store.RunRow
	repos   map[domain.RepositoryID]store.RepositoryRow
	runners map[domain.RunnerID]store.RunnerRow
	order   []string
}

func newListed() *listed {
	return &listed{runs: map[domain.RunID]store.RunRow{}, repos: map[domain.RepositoryID]store.RepositoryRow{},
		runners: map[domain.RunnerID]store.RunnerRow{}}
}

// write takes the list rows that the state has after a row. Projections are made for states
// that can be; one of damaged history may break them.
func (l *listed) write(kind *engine.Kind, p domain.PartitionID, at *Replayed, row *store.Row,
	events []any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &Broken{Version: row.Version, Position: row.Position, Why: fmt.Sprintf("no list row can be made: %v", r)}
		}
	}()
	l.take(kind.Rows(at.State, engine.Place{Partition: p, Tenant: row.Tenant, Stream: row.Stream,
		Version: row.Version, At: row.At, Events: events}))
	return nil
}

func (l *listed) take(rows engine.Rows) {
	for _, r := range rows.Runs {
		if _, known := l.runs[r.Run]; !known {
			l.order = append(l.order, string(r.Run))
		}
		l.runs[r.Run] = r
	}
	for _, r := range rows.Repositories {
		if _, known := l.repos[r.Repository]; !known {
			l.order = append(l.order, string(r.Repository))
		}
		l.repos[r.Repository] = r
	}
	for _, r := range rows.Runners {
		if _, known := l.runners[r.Runner]; !known {
			l.order = append(l.order, string(r.Runner))
		}
		l.runners[r.Runner] = r
	}
}

func (l *listed) rows() (out engine.Rows) {
	for _, id := range l.order {
		if r, ok := l.runs[domain.RunID(id)]; ok {
			out.Runs = append(out.Runs, r)
		}
		if r, ok := l.repos[domain.RepositoryID(id)]; ok {
			out.Repositories = append(out.Repositories, r)
		}
		if r, ok := l.runners[domain.RunnerID(id)]; ok {
			out.Runners = append(out.Runners, r)
		}
	}
	return out
}

// tableRows are list rows as their tables have them.
func tableRows(rows engine.Rows) map[string][][]any {
	out := map[string][][]any{}
	for i := range rows.Runs {
		out[store.TableRuns] = append(out[store.TableRuns], store.RunValues(&rows.Runs[i]))
	}
	for i := range rows.Repositories {
		out[store.TableRepositories] = append(out[store.TableRepositories], store.RepositoryValues(&rows.Repositories[i]))
	}
	for i := range rows.Runners {
		out[store.TableRunners] = append(out[store.TableRunners], store.RunnerValues(&rows.Runners[i]))
	}
	return out
}

// listTables are the derived tables that lists are read from, with the stream that a row
// comes from.
func listTables() map[string]func(row []any) domain.StreamID {
	return map[string]func([]any) domain.StreamID{
		store.TableRuns: func(row []any) domain.StreamID { return domain.RunID(row[1].(string)).Stream() },
		store.TableRepositories: func(row []any) domain.StreamID {
			return domain.RepositoryID(row[1].(string)).Stream()
		},
		store.TableRunners: func(row []any) domain.StreamID { return domain.PoolID(row[2].(string)).Stream() },
	}
}
