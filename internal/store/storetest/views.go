package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

func (s *suite) viewPromises() []promise {
	return []promise{
		{"RunsComeNewestFirstInPages", runPages},
		{"EveryFilterOfRunsFilters", runFilters},
		{"ARunIsReplacedByItsLaterRow", runReplaced},
		{"RunQueriesHaveBounds", runBounds},
		{"RepositoriesAreFoundByIdAndByName", repositories},
		{"ARepositoryNameIsUniqueInItsTenant", repositoryNames},
		{"RunnersAreListedByPoolAndName", runners},
		{"DisplayTextIsCleaned", cleaned},
	}
}

func runRow(id domain.TenantID, n int) store.RunRow {
	return store.RunRow{
		Tenant: id, Partition: part, Run: domain.RunID(fmt.Sprintf("run_%04d", n)), Number: uint64(n),
		Repository: "rep_1", RepositoryName: "shop", Workflow: ".fairlead/ci.yml", WorkflowName: "CI", Event: "push",
		Ref: "refs/heads/main", Commit: "c0ffee", Title: "A title", Actor: "me", State: "queued",
		Desired: domain.DesiredRun, Round: 1, Created: at.Add(time.Duration(n) * time.Second),
	}
}

func repoRow(id domain.TenantID, n int) store.RepositoryRow {
	return store.RepositoryRow{
		Tenant: id, Partition: part, Repository: domain.RepositoryID(fmt.Sprint("rep_", n)), Name: fmt.Sprint("name-", n),
		URL: "https://example.org/r.git", DefaultBranch: "main", Registered: at, Poll: n%2 == 0,
	}
}

func runnerRow(id domain.TenantID, n int) store.RunnerRow {
	return store.RunnerRow{
		Tenant: id, Pool: "default", Runner: domain.RunnerID(fmt.Sprintf("rnr_%d", n)), Name: fmt.Sprintf("host-%d", n),
		Labels:   []string{"linux-x64", "with space, comma and \"quote\""},
		Capacity: 4, Isolation: "oci", Version: "0.1", Registered: at,
	}
}

func ids(runs []store.RunRow) string {
	text := ""
	for _, r := range runs {
		text += fmt.Sprint(r.Number, " ")
	}
	return text
}

func runPages(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) {
		for _, n := range []int{3, 1, 5, 2, 4} {
			b.Runs = append(b.Runs, runRow(tenant, n))
		}
	})
	q := store.RunQuery{Tenant: tenant, Limit: 2}
	pages := ""
	for {
		page := must[[]store.RunRow](t)(w.store.Runs(t.Context(), q))
		if len(page) == 0 {
			break
		}
		pages += ids(page) + "| "
		q.Before = page[len(page)-1].Run
	}
	same(t, "pages", pages, "5 4 | 3 2 | 1 | ")
	same(t, "one run", must[store.RunRow](t)(w.store.Run(t.Context(), tenant, "run_0003")), runRow(tenant, 3))
	if _, err := w.store.Run(t.Context(), tenant, "run_0009"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a run that is not there: %v", err)
	}
}

func runFilters(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) {
		for n := 1; n <= 8; n++ {
			r := runRow(tenant, n)
			if n&1 != 0 {
				r.Repository, r.Outcome = "rep_2", domain.OutcomeFailure
			}
			if n&2 != 0 {
				r.Workflow, r.State = "other.yml", "concluded"
			}
			if n&4 != 0 {
				r.Ref = "refs/heads/topic"
			}
			b.Runs = append(b.Runs, r)
		}
	})
	for _, c := range []struct {
		query store.RunQuery
		want  string
	}{
		{store.RunQuery{}, "8 7 6 5 4 3 2 1 "},
		{store.RunQuery{Repository: "rep_2"}, "7 5 3 1 "},
		{store.RunQuery{Workflow: "other.yml"}, "7 6 3 2 "},
		{store.RunQuery{Ref: "refs/heads/topic"}, "7 6 5 4 "},
		{store.RunQuery{Outcome: domain.OutcomeFailure}, "7 5 3 1 "},
		{store.RunQuery{State: "concluded"}, "7 6 3 2 "},
		{store.RunQuery{State: "queued"}, "8 5 4 1 "},
		{store.RunQuery{Before: "run_0004"}, "3 2 1 "},
		{store.RunQuery{Repository: "rep_1", State: "queued", Ref: "refs/heads/main"}, "8 "},
		{store.RunQuery{Repository: "rep_2", Workflow: "other.yml", Ref: "refs/heads/topic", Outcome: "failure",
			State: "concluded", Before: "run_0008"}, "7 "},
		{store.RunQuery{Repository: "rep_3"}, ""},
	} {
		c.query.Tenant, c.query.Limit = tenant, 100
		same(t, fmt.Sprintf("runs of %+v", c.query), ids(must[[]store.RunRow](t)(w.store.Runs(t.Context(), c.query))), c.want)
	}
}

func runReplaced(t *testing.T, w *world) {
	first := runRow(tenant, 1)
	w.append(t, func(b *store.Batch) { b.Runs = []store.RunRow{first} })
	last := first
	last.State, last.Outcome, last.Round = "concluded", domain.OutcomeSuccess, 2
	last.Concluded, last.Desired, last.RepositoryName = at.Add(time.Minute), domain.DesiredCancel, "renamed"
	middle := first
	middle.State = "running"
	w.append(t, func(b *store.Batch) { b.Runs = []store.RunRow{middle, runRow(tenant, 2), last} })
	same(t, "the run", must[store.RunRow](t)(w.store.Run(t.Context(), tenant, first.Run)), last)
	all := must[[]store.RunRow](t)(w.store.Runs(t.Context(), store.RunQuery{Tenant: tenant, Limit: 9}))
	same(t, "all", ids(all), "2 1 ")
}

func runBounds(t *testing.T, w *world) {
	for _, q := range []store.RunQuery{
		{Limit: 10}, {Tenant: tenant}, {Tenant: tenant, Limit: -1}, {Tenant: tenant, Limit: store.QueryLimitMax + 1},
	} {
		if _, err := w.store.Runs(t.Context(), q); err == nil {
			t.Errorf("accepted %+v", q)
		}
	}
}

func repositories(t *testing.T, w *world) {
	a, b := repoRow(tenant, 1), repoRow(tenant, 2)
	a.Name, b.Name = "zebra", "Ant"
	c := repoRow(tenant, 3)
	c.Name = string(a.Repository) // a name that looks like another's id
	w.append(t, func(batch *store.Batch) { batch.Repositories = []store.RepositoryRow{a, b, c} })
	all := must[[]store.RepositoryRow](t)(w.store.Repositories(t.Context(), tenant))
	same(t, "by name", all, []store.RepositoryRow{b, c, a})
	same(t, "one by id", must[store.RepositoryRow](t)(w.store.Repository(t.Context(), tenant, string(a.Repository))), a)
	same(t, "one by name", must[store.RepositoryRow](t)(w.store.Repository(t.Context(), tenant, "Ant")), b)
	for _, miss := range []string{"ant", "none", ""} {
		if _, err := w.store.Repository(t.Context(), tenant, miss); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("repository %q: %v", miss, err)
		}
	}
}

func repositoryNames(t *testing.T, w *world) {
	a := repoRow(tenant, 1)
	w.append(t, func(b *store.Batch) { b.Repositories = []store.RepositoryRow{a} })
	thief := repoRow(tenant, 2)
	thief.Name = a.Name
	w.refused(t, batch(w.own, func(b *store.Batch) { b.Repositories = []store.RepositoryRow{thief} }), store.ErrConflict)
	// Renamed, the first one frees its name; and nobody minds the same name elsewhere.
	a.Name = "renamed"
	elsewhere := repoRow(other, 2)
	elsewhere.Name = "renamed"
	w.append(t, func(b *store.Batch) { b.Repositories = []store.RepositoryRow{a, thief, elsewhere} })
	same(t, "the new holder", must[store.RepositoryRow](t)(w.store.Repository(t.Context(), tenant, thief.Name)), thief)
}

func runners(t *testing.T, w *world) {
	a, b, c := runnerRow(tenant, 1), runnerRow(tenant, 2), runnerRow(tenant, 3)
	a.Name, b.Name, c.Name = "b", "a", "a"
	c.Pool, c.Labels, c.Removed = "big", nil, at.Add(time.Hour)
	w.append(t, func(batch *store.Batch) { batch.Runners = []store.RunnerRow{a, b, c} })
	same(t, "runners", must[[]store.RunnerRow](t)(w.store.Runners(t.Context(), tenant)), []store.RunnerRow{c, b, a})
	a.Capacity, a.Labels = 8, []string{"gpu"}
	w.append(t, func(batch *store.Batch) { batch.Runners = []store.RunnerRow{a} })
	same(t, "replaced", must[[]store.RunnerRow](t)(w.store.Runners(t.Context(), tenant)), []store.RunnerRow{c, b, a})
}

// cleaned: bytes of a commit message must not be able to stop a partition.
func cleaned(t *testing.T, w *world) {
	dirty := runRow(tenant, 1)
	dirty.Title, dirty.Actor, dirty.Ref = "a\x00b\xffc", "\xc3\x28", "refs/heads/\xfe"
	runner := runnerRow(tenant, 1)
	runner.Labels = []string{"\x00", "ok"}
	w.append(t, func(b *store.Batch) { b.Runs, b.Runners = []store.RunRow{dirty}, []store.RunnerRow{runner} })
	clean := dirty
	clean.Title, clean.Actor, clean.Ref = "a\uFFFDb\uFFFDc", "\uFFFD(", "refs/heads/\uFFFD"
	same(t, "run", must[store.RunRow](t)(w.store.Run(t.Context(), tenant, dirty.Run)), clean)
	found := must[[]store.RunRow](t)(w.store.Runs(t.Context(), store.RunQuery{Tenant: tenant, Ref: dirty.Ref, Limit: 1}))
	same(t, "found by its ref", found, []store.RunRow{clean})
	got := must[[]store.RunnerRow](t)(w.store.Runners(t.Context(), tenant))
	same(t, "labels", got[0].Labels, []string{"\uFFFD", "ok"})
}
