package control

import (
	"context"
	"fmt"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// many is a list of so many runs, of which the oldest alone is of another workflow.
type many struct {
	store.Views
	runs int
}

func (m many) Runs(_ context.Context, q store.RunQuery) (out []store.RunRow, err error) {
	for n := m.runs; n > 0 && len(out) < q.Limit; n-- {
		row := store.RunRow{Run: domain.RunID(fmt.Sprintf("run_%06d", n)), Workflow: ".fairlead/workflows/ci.yml",
			WorkflowName: "ci"}
		if n == 1 {
			row.Workflow, row.WorkflowName = ".fairlead/workflows/nightly.yml", "Build / nightly"
		}
		if q.Before == "" || row.Run < q.Before {
			out = append(out, row)
		}
	}
	return out, nil
}

// A list that stops looking says where to go on: an empty page is not the end.
func TestARareWorkflowIsFoundHoweverManyRunsAreNewer(t *testing.T) {
	r := &Runs{Views: many{runs: listScanMax + 700}}
	for _, name := range []string{"nightly", "Build / nightly", "nightly.yml"} {
		q, pages := store.RunQuery{Workflow: name, Limit: 20}, 0
		for {
			rows, next, err := r.list(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if pages++; len(rows) == 1 && pages == 2 {
				break
			}
			if next == "" || pages > 2 {
				t.Fatalf("%q: page %d has %d runs and goes on after %q", name, pages, len(rows), next)
			}
			q.Before = next
		}
	}
}
