package sqlstore

import "github.com/fairlead-ci/fairlead/internal/store"

// Writes lists every write of a batch in the order in which it happens, after Fence.
func Writes() []*Write {
	return []*Write{
		batchWrite(), logWrite(), streamInsert(), streamUpdate(), checkpointWrite(), keyWrite(), counterWrite(),
		cursorWrite(), runWrite(), repositoryWrite(), runnerWrite(),
	}
}

func batchWrite() *Write {
	return &Write{
		Table: "batches",
		Len: func(p *Plan) int {
			if len(p.rows) == 0 {
				return 0
			}
			return 1
		},
		Columns: []Column{
			text("partition", func(p *Plan, _ int) string { return string(p.Batch.Partition) }),
			number("position", func(p *Plan, _ int) int64 { return int64(p.Position()) }),
			number("epoch", func(p *Plan, _ int) int64 { return int64(p.Batch.Epoch) }),
			text("digest", func(p *Plan, _ int) string { return string(p.Batch.Digest) }),
			number("at", func(p *Plan, _ int) int64 { return Micros(p.Batch.At) }),
		},
	}
}

// Position is the partition's position after the batch.
func (p *Plan) Position() store.Position {
	return p.Batch.Prev + store.Position(len(p.Batch.Rows))
}

func logWrite() *Write {
	return &Write{
		Table: "log",
		Len:   func(p *Plan) int { return len(p.rows) },
		Columns: []Column{
			text("partition", func(p *Plan, _ int) string { return string(p.Batch.Partition) }),
			number("position", func(p *Plan, i int) int64 { return int64(p.rows[i].Position) }),
			text("tenant", func(p *Plan, i int) string { return string(p.rows[i].Tenant) }),
			text("stream", func(p *Plan, i int) string { return string(p.rows[i].Stream) }),
			number("version", func(p *Plan, i int) int64 { return int64(p.rows[i].Version) }),
			number("count", func(p *Plan, i int) int64 { return int64(p.rows[i].Count) }),
			number("at", func(p *Plan, i int) int64 { return Micros(p.rows[i].At) }),
			blob("events", func(p *Plan, i int) []byte { return p.rows[i].Events }),
		},
	}
}

func placeColumns(list func(*Plan) []place) []Column {
	return []Column{
		text("tenant", func(p *Plan, i int) string { return string(list(p)[i].Tenant) }),
		text("stream", func(p *Plan, i int) string { return string(list(p)[i].Stream) }),
		text("partition", func(p *Plan, _ int) string { return string(p.Batch.Partition) }),
		number("version", func(p *Plan, i int) int64 { return int64(list(p)[i].Version) }),
		truth("live", func(p *Plan, i int) bool { return list(p)[i].Live }),
		number("next_wake", func(p *Plan, i int) int64 { return Micros(list(p)[i].NextWake) }),
	}
}

func streamInsert() *Write {
	begun := func(p *Plan) []place { return p.begun }
	return &Write{
		Table:   "streams",
		Len:     func(p *Plan) int { return len(p.begun) },
		Columns: placeColumns(begun),
	}
}

// streamUpdate moves a stream on only from the version that the batch builds upon, and
// only within its own partition.
func streamUpdate() *Write {
	continued := func(p *Plan) []place { return p.continued }
	return &Write{
		Table: "streams",
		Len:   func(p *Plan) int { return len(p.continued) },
		Exact: true,
		Columns: append(placeColumns(continued),
			number("prior", func(p *Plan, i int) int64 { return int64(p.continued[i].before) })),
		Update: `SET version = u.version, live = u.live, next_wake = u.next_wake FROM %s
WHERE streams.tenant = u.tenant AND streams.stream = u.stream AND streams.partition = u.partition
  AND streams.version = u.prior`,
	}
}

func checkpointWrite() *Write {
	columns := []Column{
		text("tenant", func(p *Plan, i int) string { return string(p.checkpoints[i].Tenant) }),
		text("stream", func(p *Plan, i int) string { return string(p.checkpoints[i].Stream) }),
		number("version", func(p *Plan, i int) int64 { return int64(p.checkpoints[i].Version) }),
		number("encoding", func(p *Plan, i int) int64 { return int64(p.checkpoints[i].Encoding) }),
		blob("state", func(p *Plan, i int) []byte { return p.checkpoints[i].State }),
	}
	return &Write{
		Table:    "checkpoints",
		Len:      func(p *Plan) int { return len(p.checkpoints) },
		Columns:  columns,
		Conflict: replace(columns, 2),
	}
}

func keyWrite() *Write {
	return &Write{
		Table: "keys",
		Len:   func(p *Plan) int { return len(p.keys) },
		Columns: []Column{
			text("tenant", func(p *Plan, i int) string { return string(p.keys[i].Tenant) }),
			text("scope", func(p *Plan, i int) string { return p.keys[i].Scope }),
			text("key", func(p *Plan, i int) string { return p.keys[i].Key }),
			text("body", func(p *Plan, i int) string { return string(p.keys[i].Body) }),
			blob("reply", func(p *Plan, i int) []byte { return p.keys[i].Reply }),
			text("stream", func(p *Plan, i int) string { return string(p.keys[i].Stream) }),
			number("at", func(p *Plan, i int) int64 { return Micros(p.keys[i].At) }),
			truth("expired", func(*Plan, int) bool { return false }),
		},
	}
}

// counterWrite lets a counter stay or grow; a smaller value changes no row, which Exact
// turns into a conflict: two runs must never get one number.
func counterWrite() *Write {
	columns := []Column{
		text("tenant", func(p *Plan, i int) string { return string(p.counters[i].Tenant) }),
		text("name", func(p *Plan, i int) string { return p.counters[i].Name }),
		number("value", func(p *Plan, i int) int64 { return int64(p.counters[i].Value) }),
	}
	return &Write{
		Table:    "counters",
		Len:      func(p *Plan) int { return len(p.counters) },
		Columns:  columns,
		Exact:    true,
		Conflict: replace(columns, 2) + " WHERE excluded.value >= counters.value",
	}
}

func cursorWrite() *Write {
	columns := []Column{
		text("partition", func(p *Plan, _ int) string { return string(p.Batch.Partition) }),
		text("reactor", func(p *Plan, i int) string { return p.cursors[i].Reactor }),
		number("position", func(p *Plan, i int) int64 { return int64(p.cursors[i].Position) }),
	}
	return &Write{
		Table:    "cursors",
		Len:      func(p *Plan) int { return len(p.cursors) },
		Columns:  columns,
		Conflict: replace(columns, 2),
	}
}

func runWrite() *Write {
	row := func(p *Plan, i int) *store.RunRow { return &p.runs[i] }
	columns := []Column{
		text("tenant", func(p *Plan, i int) string { return string(row(p, i).Tenant) }),
		text("run", func(p *Plan, i int) string { return string(row(p, i).Run) }),
		text("partition", func(p *Plan, i int) string { return string(row(p, i).Partition) }),
		number("number", func(p *Plan, i int) int64 { return int64(row(p, i).Number) }),
		text("repository", func(p *Plan, i int) string { return string(row(p, i).Repository) }),
		text("repository_name", func(p *Plan, i int) string { return store.CleanText(row(p, i).RepositoryName) }),
		text("workflow", func(p *Plan, i int) string { return store.CleanText(row(p, i).Workflow) }),
		text("workflow_name", func(p *Plan, i int) string { return store.CleanText(row(p, i).WorkflowName) }),
		text("event", func(p *Plan, i int) string { return store.CleanText(row(p, i).Event) }),
		text("ref", func(p *Plan, i int) string { return store.CleanText(row(p, i).Ref) }),
		text("commit_id", func(p *Plan, i int) string { return store.CleanText(row(p, i).Commit) }),
		text("title", func(p *Plan, i int) string { return store.CleanText(row(p, i).Title) }),
		text("actor", func(p *Plan, i int) string { return store.CleanText(row(p, i).Actor) }),
		text("state", func(p *Plan, i int) string { return store.CleanText(row(p, i).State) }),
		text("desired", func(p *Plan, i int) string { return store.CleanText(string(row(p, i).Desired)) }),
		text("outcome", func(p *Plan, i int) string { return store.CleanText(string(row(p, i).Outcome)) }),
		number("round", func(p *Plan, i int) int64 { return int64(row(p, i).Round) }),
		number("created", func(p *Plan, i int) int64 { return Micros(row(p, i).Created) }),
		number("concluded", func(p *Plan, i int) int64 { return Micros(row(p, i).Concluded) }),
	}
	return &Write{
		Table:    "runs",
		Len:      func(p *Plan) int { return len(p.runs) },
		Columns:  columns,
		Conflict: replace(columns, 2),
	}
}

// repositoryWrite conflicts by constraint when another repository of the tenant has the
// name already.
func repositoryWrite() *Write {
	row := func(p *Plan, i int) *store.RepositoryRow { return &p.repos[i] }
	columns := []Column{
		text("tenant", func(p *Plan, i int) string { return string(row(p, i).Tenant) }),
		text("repository", func(p *Plan, i int) string { return string(row(p, i).Repository) }),
		text("partition", func(p *Plan, i int) string { return string(row(p, i).Partition) }),
		text("name", func(p *Plan, i int) string { return row(p, i).Name }),
		text("url", func(p *Plan, i int) string { return store.CleanText(row(p, i).URL) }),
		text("default_branch", func(p *Plan, i int) string { return store.CleanText(row(p, i).DefaultBranch) }),
		number("registered", func(p *Plan, i int) int64 { return Micros(row(p, i).Registered) }),
		truth("poll", func(p *Plan, i int) bool { return row(p, i).Poll }),
	}
	return &Write{
		Table:    "repositories",
		Len:      func(p *Plan) int { return len(p.repos) },
		Columns:  columns,
		Conflict: replace(columns, 2),
	}
}

func runnerWrite() *Write {
	row := func(p *Plan, i int) *store.RunnerRow { return &p.runners[i] }
	columns := []Column{
		text("tenant", func(p *Plan, i int) string { return string(row(p, i).Tenant) }),
		text("runner", func(p *Plan, i int) string { return string(row(p, i).Runner) }),
		text("pool", func(p *Plan, i int) string { return string(row(p, i).Pool) }),
		text("name", func(p *Plan, i int) string { return store.CleanText(row(p, i).Name) }),
		text("labels", func(p *Plan, i int) string { return store.LabelsText(row(p, i).Labels) }),
		number("capacity", func(p *Plan, i int) int64 { return int64(row(p, i).Capacity) }),
		text("isolation", func(p *Plan, i int) string { return store.CleanText(row(p, i).Isolation) }),
		text("version", func(p *Plan, i int) string { return store.CleanText(row(p, i).Version) }),
		number("registered", func(p *Plan, i int) int64 { return Micros(row(p, i).Registered) }),
		number("removed", func(p *Plan, i int) int64 { return Micros(row(p, i).Removed) }),
	}
	return &Write{
		Table:    "runners",
		Len:      func(p *Plan) int { return len(p.runners) },
		Columns:  columns,
		Conflict: replace(columns, 2),
	}
}
