package store

import "encoding/json"

// The functions below write list rows as rows of Schema's tables: what an append stores of
// them, display text cleaned.

// RunValues is a row of TableRuns.
func RunValues(r *RunRow) []any {
	return []any{string(r.Tenant), string(r.Run), string(r.Partition), int64(r.Number), string(r.Repository),
		CleanText(r.RepositoryName), CleanText(r.Workflow), CleanText(r.WorkflowName), CleanText(r.Event),
		CleanText(r.Ref), CleanText(r.Commit), CleanText(r.Title), CleanText(r.Actor), CleanText(r.State),
		CleanText(string(r.Desired)), CleanText(string(r.Outcome)), int64(r.Round), r.Created.UnixMicro(),
		r.Concluded.UnixMicro()}
}

// RepositoryValues is a row of TableRepositories.
func RepositoryValues(r *RepositoryRow) []any {
	return []any{string(r.Tenant), string(r.Repository), string(r.Partition), r.Name, CleanText(r.URL),
		CleanText(r.DefaultBranch), r.Registered.UnixMicro(), r.Poll}
}

// RunnerValues is a row of TableRunners.
func RunnerValues(r *RunnerRow) []any {
	return []any{string(r.Tenant), string(r.Runner), string(r.Pool), CleanText(r.Name), LabelsText(r.Labels),
		int64(r.Capacity), CleanText(r.Isolation), CleanText(r.Version), r.Registered.UnixMicro(), r.Removed.UnixMicro()}
}

// LabelsText is how databases keep a runner's labels: a JSON list.
func LabelsText(labels []string) string {
	if len(labels) == 0 {
		return "[]"
	}
	clean := make([]string, len(labels))
	for i, label := range labels {
		clean[i] = CleanText(label)
	}
	encoded, err := json.Marshal(clean)
	if err != nil {
		panic("store: a list of valid UTF-8 text did not encode: " + err.Error())
	}
	return string(encoded)
}
