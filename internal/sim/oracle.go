package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// reckon compares the world's own book with the store, its read models and the logs.
func (b *book) reckon() {
	b.reckonRows()
	b.reckonPlans()
	b.reckonLogs()
}

const (
	checkRows = "lists show what history says"
	checkPlan = "the same snapshot compiles to the same plan digest"
	checkLogs = "an acknowledged log chunk is in the sealed log, once, at its place, and nothing else is"
)

// reckonRows compares list rows, and the numbers of runs, which have no gap.
func (b *book) reckonRows() {
	w := b.world
	rows := map[domain.RunID]store.RunRow{}
	for _, tenant := range w.tenants {
		all, err := w.store.Runs(context.Background(), store.RunQuery{Tenant: tenant, Limit: store.QueryLimitMax})
		if err != nil {
			w.violation(checkRows, "list runs of %s: %v", tenant, err)
		}
		for _, row := range all {
			rows[row.Run] = row
		}
	}
	numbers := map[string][]uint64{}
	for _, id := range b.order {
		s := b.streams[id].run()
		if s == nil {
			continue
		}
		row, ok := rows[s.Request.Run]
		delete(rows, s.Request.Run)
		state := listState(s)
		if !ok || row.Outcome != s.Outcome || row.State != state || row.Round != len(s.Rounds) || row.Desired != s.Desired ||
			row.Tenant != b.streams[id].tenant || row.Partition != b.streams[id].partition ||
			row.Commit != s.Request.Source.Commit ||
			row.Number != s.Request.Number {
			w.violation(checkRows, "%s is %s %q in history, and its row says %+v", id, state, s.Outcome, row)
		}
		name := string(s.Request.Repository) + s.Request.WorkflowPath
		numbers[name] = append(numbers[name], s.Request.Number)
	}
	for id := range rows {
		w.violation(checkRows, "a row shows %s, which history does not know", id)
	}
	for name, used := range numbers {
		slices.Sort(used)
		for i, n := range used {
			if n != uint64(i+1) {
				w.violation(checkRows, "runs of %s have the numbers %v", name, used)
				break
			}
		}
	}
}

// listState is the one word that lists have for a run.
func listState(s *run.State) string {
	state := "queued"
	for _, job := range s.Jobs {
		if a := job.Current(); a != nil && a.Held && !s.Concluded() {
			return "attention"
		}
		if job.State == run.StateActive || job.State == run.StateConcluded && job.Round == len(s.Rounds) {
			state = "running"
		}
	}
	if s.Concluded() {
		return "concluded"
	}
	return state
}

// called are the files that a run calls, as its snapshot keeps them.
func (b *book) called(q *run.Request) (workflow.Components, error) {
	data, err := b.object(q.Tenant, q.Snapshot)
	if err != nil {
		return nil, err
	}
	frozen, err := snapshot.Decode(data)
	if err != nil {
		return nil, err
	}
	out := workflow.Components{}
	for _, c := range frozen.Components {
		text, err := b.object(q.Tenant, c.Text)
		if err != nil {
			return nil, err
		}
		r := workflow.Reference{Path: strings.TrimPrefix(c.Name, "./")}
		out[c.Name] = workflow.Component{Reference: r, File: r.Path, Text: text}
	}
	return out, nil
}

// reckonPlans compiles again what was compiled, and finds every object by its digest.
func (b *book) reckonPlans() {
	w := b.world
	for _, id := range b.order {
		s := b.streams[id].run()
		if s == nil || len(s.Request.Invalid) > 0 {
			continue
		}
		q := &s.Request
		var remote *remote
		for _, r := range w.remotes {
			if r.id == q.Repository {
				remote = r
			}
		}
		called, err := b.called(q)
		if err != nil {
			w.violation(checkPlan, "what %s calls: %v", id, err)
			continue
		}
		p, diagnostics := workflow.Compile(
			workflow.Source{Path: workflowPath, Text: []byte(remote.workflow[q.Source.Commit])},
			workflow.Inputs{Event: q.Trigger.Event, Ref: q.Source.Ref, SHA: q.Source.Commit, Repository: q.RepositoryName,
				Actor: q.Trigger.Actor.ID, Components: called}, workflow.DefaultLimits())
		if workflow.Failed(diagnostics) || domain.DigestOf(p.Encode()) != q.Plan {
			w.violation(checkPlan, "%s was compiled to %s, and now to another plan: %v", id, q.Plan, diagnostics)
			continue
		}
		if stored, err := b.object(q.Tenant, q.Plan); err != nil {
			w.violation(checkPlan, "the plan of %s: %v", id, err)
		} else if _, err := plan.Decode(stored); err != nil {
			w.violation(checkPlan, "the plan of %s can't be read: %v", id, err)
		}
		for _, digest := range []domain.Digest{q.Snapshot, q.Inputs} {
			if _, err := b.object(q.Tenant, digest); err != nil {
				w.violation(checkPlan, "what %s rests on: %v", id, err)
			}
		}
		if !b.pinned[string(q.Repository)+"@"+q.Source.Commit] {
			w.violation(checkPlan, "the commit of %s is not pinned", id)
		}
	}
}

func (b *book) object(tenant domain.TenantID, digest domain.Digest) ([]byte, error) {
	r, err := b.world.objects.Open(context.Background(), blob.ObjectKey(tenant, digest), 0, -1)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(r); err != nil {
		return nil, err
	}
	if domain.DigestOf(text.Bytes()) != digest {
		return nil, fmt.Errorf("object %s has other bytes", digest)
	}
	return text.Bytes(), nil
}

// reckonLogs reads every sealed log and compares it with what the job printed.
func (b *book) reckonLogs() {
	w := b.world
	gateway, err := logs.Open(context.Background(), w.objects, logs.Config{})
	if err != nil {
		w.violation(checkLogs, "the logs can't be opened: %v", err)
		return
	}
	for _, id := range b.order {
		s := b.streams[id].run()
		if s == nil {
			continue
		}
		for j, job := range s.Jobs {
			for i := range job.Attempts {
				if a := &job.Attempts[i]; a.Log != nil {
					b.reckonLog(gateway, b.streams[id].tenant, s.AttemptID(j, a.Number), a)
				}
			}
		}
	}
	if err := gateway.Close(); err != nil {
		w.violation(checkLogs, "close: %v", err)
	}
}

func (b *book) reckonLog(g *logs.Gateway, tenant domain.TenantID, id domain.AttemptID, a *run.Attempt) {
	w := b.world
	log, err := g.Log(tenant, id, &logs.Ref{Object: a.Log.Object, Offset: a.Log.Offset, Length: a.Log.Length,
		Digest: a.Log.Digest, Bytes: a.Log.Bytes, Lines: a.Log.Lines, Truncated: a.Log.Truncated, Gaps: a.Log.Gaps})
	if err != nil {
		w.violation(checkLogs, "the sealed log of %s can't be found: %v", id, err)
		return
	}
	var text bytes.Buffer
	if _, err := log.Raw(context.Background(), &text, 0, -1); err != nil {
		w.violation(checkLogs, "the sealed log of %s can't be read: %v", id, err)
		return
	}
	printed := b.promises.printed[string(id)]
	last := uint64(0)
	found := map[uint64]bool{}
	for line := range strings.Lines(text.String()) {
		var seq uint64
		_, err := fmt.Sscanf(line, string(id)+" %d step", &seq)
		if err != nil || printed[seq] != line || seq <= last {
			w.violation(checkLogs, "the log of %s has %q after line %d", id, line, last)
			return
		}
		last, found[seq] = seq, true
	}
	for seq := uint64(1); seq <= b.promises.chunks[string(id)]; seq++ {
		if !found[seq] {
			w.violation(checkLogs, "chunk %d of %s was acknowledged (through %d), and its sealed log of %d bytes lacks it",
				seq, id, b.promises.chunks[string(id)], text.Len())
			return
		}
	}
}
