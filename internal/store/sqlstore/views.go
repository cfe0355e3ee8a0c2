package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

const runColumns = `tenant, run, partition, number, repository, repository_name, workflow, workflow_name, event,
  ref, commit_id, title, actor, state, desired, outcome, round, created, concluded`

func scanRun(r Row) (store.RunRow, error) {
	var run store.RunRow
	var number, round, created, concluded int64
	err := r.Scan(&run.Tenant, &run.Run, &run.Partition, &number, &run.Repository, &run.RepositoryName, &run.Workflow,
		&run.WorkflowName, &run.Event, &run.Ref, &run.Commit, &run.Title, &run.Actor, &run.State, &run.Desired,
		&run.Outcome, &round, &created, &concluded)
	run.Number, run.Round = uint64(number), int(round)
	run.Created, run.Concluded = Time(created), Time(concluded)
	return run, err
}

// Runs implements store.Views. Identifiers sort by time, so "newest first" and the paging
// key are both the identifier.
func (r Reader) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRow, error) {
	q, err := q.Clean()
	if err != nil {
		return nil, err
	}
	query, args := runsQuery(q)
	var runs []store.RunRow
	err = r.query(ctx, query, func(row Row) error {
		run, err := scanRun(row)
		runs = append(runs, run)
		return err
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("list runs of tenant %s: %w", q.Tenant, err)
	}
	return runs, nil
}

func runsQuery(q store.RunQuery) (string, []any) {
	args := []any{string(q.Tenant)}
	var where strings.Builder
	filter := func(condition, value string) {
		if value == "" {
			return
		}
		args = append(args, value)
		where.WriteString(" AND " + condition + " $" + strconv.Itoa(len(args)))
	}
	filter("repository =", string(q.Repository))
	filter("workflow =", q.Workflow)
	filter("ref =", q.Ref)
	filter("outcome =", string(q.Outcome))
	filter("state =", q.State)
	filter("run <", string(q.Before))
	if q.State != "" && q.State != "concluded" {
		// Says what the parameter implies, so that the small index of open runs serves.
		where.WriteString(" AND state <> 'concluded'")
	}
	if q.Outcome != "" && q.Outcome != domain.OutcomeSuccess {
		where.WriteString(" AND outcome <> '' AND outcome <> 'success'") // the same
	}
	args = append(args, int64(q.Limit))
	return `SELECT ` + runColumns + ` FROM runs WHERE tenant = $1` + where.String() +
		` ORDER BY run DESC LIMIT $` + strconv.Itoa(len(args)), args
}

// Run implements store.Views.
func (r Reader) Run(ctx context.Context, tenant domain.TenantID, run domain.RunID) (store.RunRow, error) {
	var found store.RunRow
	err := r.one(ctx, `SELECT `+runColumns+` FROM runs WHERE tenant = $1 AND run = $2`, func(row Row) (err error) {
		found, err = scanRun(row)
		return err
	}, string(tenant), string(run))
	if err != nil {
		return store.RunRow{}, fmt.Errorf("find run %s: %w", run, err)
	}
	return found, nil
}

const repositoryColumns = `tenant, partition, repository, name, url, default_branch, registered, poll`

func scanRepository(r Row) (store.RepositoryRow, error) {
	var repo store.RepositoryRow
	var registered int64
	err := r.Scan(&repo.Tenant, &repo.Partition, &repo.Repository, &repo.Name, &repo.URL, &repo.DefaultBranch,
		&registered, &repo.Poll)
	repo.Registered = Time(registered)
	return repo, err
}

// Repositories implements store.Views.
func (r Reader) Repositories(ctx context.Context, tenant domain.TenantID) ([]store.RepositoryRow, error) {
	var repos []store.RepositoryRow
	err := r.query(ctx, `SELECT `+repositoryColumns+` FROM repositories WHERE tenant = $1 ORDER BY name`,
		func(row Row) error {
			repo, err := scanRepository(row)
			repos = append(repos, repo)
			return err
		}, string(tenant))
	if err != nil {
		return nil, fmt.Errorf("list repositories of tenant %s: %w", tenant, err)
	}
	return repos, nil
}

// Repository implements store.Views. Should one repository's name be another's id, the
// id counts.
func (r Reader) Repository(
	ctx context.Context, tenant domain.TenantID, idOrName string,
) (store.RepositoryRow, error) {
	var found store.RepositoryRow
	err := r.one(ctx, `SELECT `+repositoryColumns+` FROM repositories
WHERE tenant = $1 AND (repository = $2 OR name = $2)
ORDER BY CASE WHEN repository = $2 THEN 0 ELSE 1 END LIMIT 1`, func(row Row) (err error) {
		found, err = scanRepository(row)
		return err
	}, string(tenant), idOrName)
	if err != nil {
		return store.RepositoryRow{}, fmt.Errorf("find repository %q: %w", idOrName, err)
	}
	return found, nil
}

// Runners implements store.Views.
func (r Reader) Runners(ctx context.Context, tenant domain.TenantID) ([]store.RunnerRow, error) {
	var runners []store.RunnerRow
	err := r.query(ctx, `SELECT tenant, pool, runner, name, labels, capacity, isolation, version, registered,
  removed FROM runners WHERE tenant = $1 ORDER BY pool, name, runner`, func(row Row) error {
		var n store.RunnerRow
		var labels string
		var capacity, registered, removed int64
		err := row.Scan(&n.Tenant, &n.Pool, &n.Runner, &n.Name, &labels, &capacity, &n.Isolation, &n.Version,
			&registered, &removed)
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(labels), &n.Labels); err != nil {
			return fmt.Errorf("read labels of runner %s: %w", n.Runner, err)
		}
		if len(n.Labels) == 0 {
			n.Labels = nil
		}
		n.Capacity, n.Registered, n.Removed = int(capacity), Time(registered), Time(removed)
		runners = append(runners, n)
		return nil
	}, string(tenant))
	if err != nil {
		return nil, fmt.Errorf("list runners of tenant %s: %w", tenant, err)
	}
	return runners, nil
}

// Partitions implements store.Views.
func (r Reader) Partitions(ctx context.Context) ([]store.Ownership, error) {
	var partitions []store.Ownership
	err := r.query(ctx, `SELECT partition, epoch, position, digest FROM partitions ORDER BY partition`,
		func(row Row) error {
			var p store.Ownership
			var epoch, position int64
			err := row.Scan(&p.Partition, &epoch, &position, &p.Digest)
			p.Epoch, p.Position = uint64(epoch), store.Position(position)
			partitions = append(partitions, p)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	return partitions, nil
}
