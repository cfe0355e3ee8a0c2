package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// poolName is the one pool: the first tenant's, and it serves all partitions of runs. The
// second tenant has no runner, so none of its jobs may ever start.
const poolName = domain.PoolID("default")

// setUp brings the world to where it can go wrong: servers, a pool, runners' tokens,
// and repositories: those of the first tenant lie in three partitions, one of which
// the second tenant shares, with a repository of the same name.
func (w *world) setUp() {
	w.settingUp = true
	for i := range w.swarm.servers {
		s := &server{world: w, name: fmt.Sprintf("s%d", i+1), skew: w.drawSkew(), rate: w.drawRate()}
		w.servers = append(w.servers, s)
		s.start()
	}
	w.until(func() bool { return w.serving() })
	for i := range w.swarm.runners {
		w.machines = append(w.machines, &machine{world: w, name: fmt.Sprintf("r%d", i+1),
			capacity: 1 + w.stream("setup").IntN(3),
			labels:   []string{"linux"}, skew: w.drawSkew(), rate: w.drawRate(), at: i, stays: i == 0,
			attempts: map[string]*attempt{},
			id:       identity{token: fmt.Sprintf("token-%d", i), resume: fmt.Sprintf("resume-%d-%d", w.seed, i)}})
	}
	for i, tenant := range []domain.TenantID{w.tenants[0], w.tenants[0], w.tenants[0], w.tenants[1]} {
		r := &remote{tenant: tenant, name: fmt.Sprintf("repo%d", min(i, 2)), url: fmt.Sprintf("https://source/repo%d.git", i),
			id:        domain.RepositoryID(domain.EncodeID(domain.PrefixRepository, w.id(w.wall()))),
			partition: w.partitions[min(i, 2)], workflow: map[string]string{}, told: map[string]bool{}}
		r.push(w)
		w.remotes = append(w.remotes, r)
	}
	p := w.servers[0].process
	done := false
	p.Go(func() {
		w.found(p)
		done = true
	})
	w.until(func() bool { return done })
	w.settingUp = false
	for _, m := range w.machines {
		m.turnOn()
	}
}

// drawRate is how fast a machine's clock runs, in a world in which they differ.
func (w *world) drawRate() float64 {
	return 1 + w.swarm.drift*(2*w.stream("rate").Float64()-1)
}

func (w *world) drawSkew() time.Duration {
	if w.swarm.skew == 0 {
		return 0
	}
	return between(w.stream("skew"), -w.swarm.skew, w.swarm.skew)
}

// serving says whether all servers are up and every partition has an owner.
func (w *world) serving() bool {
	owned := map[domain.PartitionID]bool{}
	for _, s := range w.servers {
		if !s.ready {
			return false
		}
		for p := range s.engine.Holds() {
			owned[p] = true
		}
	}
	return len(owned) == len(w.partitions)+len(w.pools)
}

// found gives the commands of an administrator.
func (w *world) found(p *process) {
	admin := domain.Cause{Actor: domain.Actor{Kind: "admin", ID: "setup", Via: "simulation"}}
	submit := func(at domain.PartitionID, tenant domain.TenantID, stream domain.StreamID, command any) {
		for {
			ack, err := w.servers[0].engine.Submit(context.Background(), engine.Envelope{
				Tenant: tenant, Partition: at, Stream: stream, Command: command, Cause: admin})
			switch {
			case err == nil:
				w.book.token(ack.Token)
				return
			case definite(err):
				w.violation("what an administrator asks for is done", "%T: %v", command, err)
				return
			}
			p.sleep(100 * time.Millisecond)
		}
	}
	submit(poolName.Partition(), w.tenants[0], poolName.Stream(), pool.CreatePool{Cause: admin, Tenant: w.tenants[0],
		Pool: poolName, Config: pool.Config{Labels: []string{"linux"}, Isolation: []string{"process"}, Tiers: tiers}})
	for _, m := range w.machines {
		submit(poolName.Partition(), w.tenants[0], poolName.Stream(), pool.IssueRegistrationToken{Cause: admin,
			Token: domain.DigestOf([]byte(m.id.token)), Expires: w.wall().Add(24 * time.Hour)})
	}
	for _, r := range w.remotes {
		submit(r.partition, r.tenant, r.id.Stream(), repository.Register{Cause: admin, Tenant: r.tenant, Repository: r.id,
			RepoName: r.name, URL: r.url, DefaultBranch: "main", Poll: true})
		submit(r.partition, r.tenant, r.id.Stream(), repository.ObserveRefs{Cause: admin, Source: repository.SourcePoll,
			Complete: true, Refs: []repository.Ref{{Name: branch, Commit: r.tip()}}})
	}
}
