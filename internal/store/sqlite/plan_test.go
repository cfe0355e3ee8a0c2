package sqlite

import (
	"context"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

// recorder keeps the statements that a reader runs.
type recorder struct {
	texts []string
	args  [][]any
}

func (r *recorder) Query(_ context.Context, text string, _ func(sqlstore.Row) error, args ...any) error {
	r.texts, r.args = append(r.texts, text), append(r.args, args)
	return nil
}

// A store of many years answers from an index whatever a server asks: no statement reads a
// whole table that grows.
func TestNothingScansWhatGrows(t *testing.T) {
	asked := &recorder{}
	r, ctx := sqlstore.Reader{Querier: asked}, t.Context()
	for _, q := range []store.RunQuery{{}, {Repository: "rep_1"}, {Ref: "refs/heads/main"},
		{Outcome: domain.OutcomeFailure},
		{Outcome: domain.OutcomeFailure, Repository: "rep_1"}, {State: "running"}, {State: "running", Repository: "rep_1"},
		{State: "concluded", Repository: "rep_1", Before: "run_9"}, {Workflow: "ci.yml"}} {
		q.Tenant, q.Limit = "tnt_1", 50
		_, _ = r.Runs(ctx, q)
	}
	_, _ = r.Run(ctx, "tnt_1", "run_1")
	_, _ = r.Load(ctx, "tnt_1", "run/1", false, 1)
	_, _ = r.Live(ctx, "p")
	_, _ = r.Read(ctx, "p", 7, 100)
	_, _, _ = r.BatchAt(ctx, "p", 7)
	_, _ = r.Key(ctx, "tnt_1", "client/x", "k")
	_, _ = r.ArchivedRanges(ctx, "p", 7, 100)
	_, _ = r.ArchivedOf(ctx, "tnt_1", "run/1")
	_, _ = r.Batches(ctx, "p", 7, 100)
	for text, n := range map[string]int{sqlstore.PruneEnd: 3, sqlstore.PruneRows: 3, sqlstore.PruneBatches: 3,
		sqlstore.PruneCheckpoints: 3, sqlstore.ExpireKeys: 3} {
		asked.texts, asked.args = append(asked.texts, text), append(asked.args, make([]any, n))
	}
	s := mustOpen(t, fastDir(t))
	defer func() { _ = s.Close() }()
	for i, text := range asked.texts {
		rows, err := s.readers.db.QueryContext(ctx, "EXPLAIN QUERY PLAN "+text, asked.args[i]...)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(step, "SCAN ") && !strings.Contains(step, "CONSTANT ROW") {
				t.Errorf("%s\n\t%s", text, step)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(asked.texts) < 20 {
		t.Errorf("%d statements", len(asked.texts))
	}
}
