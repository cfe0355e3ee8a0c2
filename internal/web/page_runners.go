package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// runnersView is the page of pools and runners, and of the server they report to.
type runnersView struct {
	Pools   []poolView
	Server  serverView
	Stopped []string // sentences about partitions that don't work
}

type poolView struct {
	Name    string
	Labels  string
	Aliases string
	Tiers   string
	Use     string // "1 of 4 slots busy"
	Waiting string
	Alert   bool // work waits and nobody can take it
	Hint    string
	Runners []runnerView
}

type runnerView struct {
	Name, ID  string
	Status    status
	Labels    string
	Isolation string
	Capacity  string
	Version   string
	Seen      moment
	Since     moment
	Holds     []holdView
}

type holdView struct{ Href, Word string }

type serverView struct {
	Version, Store string
	Started        moment
	Partitions     string
	Name           string // among the members
	Members        []memberView
	Owned          []ownedView
}

// memberView is one server of a fleet.
type memberView struct {
	Name, Address, Version string
	Status                 status
	Owns                   string
}

// ownedView is one partition of a fleet.
type ownedView struct {
	Partition, Owner, Position, Problem string
	Status                              status
}

func (p *Pages) showRunners(w http.ResponseWriter, r *http.Request) {
	pools, err := p.cfg.Pools.ListPools(r.Context(), &fairleadv1.ListPoolsRequest{})
	if err != nil {
		p.showError(w, r, err)
		return
	}
	runners, err := p.cfg.Pools.ListRunners(r.Context(), &fairleadv1.ListRunnersRequest{})
	if err != nil {
		p.showError(w, r, err)
		return
	}
	server, err := p.cfg.Server.GetServer(r.Context(), &fairleadv1.GetServerRequest{})
	if err != nil {
		p.showError(w, r, err)
		return
	}
	pg := page{Title: "Runners", Section: "runners", Source: "internal/web/page_runners.templ", Poll: true}
	view := runnersViewOf(presentable(pools).GetPools(), presentable(runners).GetRunners(), presentable(server),
		p.cfg.Now())
	p.render(w, r, http.StatusOK, runnersPage(p.frame(r.Context(), pg), view))
}

// runnersViewOf is the page as a function of the API's answers and the time.
func runnersViewOf(pools []*fairleadv1.Pool, runners []*fairleadv1.Runner, server *fairleadv1.GetServerResponse,
	now time.Time) runnersView {
	v := runnersView{Server: serverView{Version: server.GetVersion(), Store: server.GetStore(),
		Started:    momentOf(server.GetStarted(), now),
		Partitions: plural(len(server.GetPartitions()), "partition", "partitions")}}
	v.Server.Name = server.GetName()
	v.Server.Members, v.Server.Owned = fleetOf(server)
	for _, partition := range server.GetPartitions() {
		if partition.GetState() == "stopped" {
			v.Stopped = append(v.Stopped, fmt.Sprintf("Partition %s is %s: %s", partition.GetPartition(),
				partition.GetState(), orElse(partition.GetProblem(), "no reason is known")))
		}
	}
	for _, pool := range pools {
		view := poolView{Name: pool.GetPool(), Labels: strings.Join(pool.GetLabels(), " "),
			Aliases: strings.Join(pool.GetAliases(), " "), Tiers: strings.Join(pool.GetTiers(), ", "),
			Use:  fmt.Sprintf("%d of %s busy", pool.GetBusy(), plural(int(pool.GetSlots()), "slot", "slots")),
			Hint: "fairlead runner token --pool " + pool.GetPool()}
		if n := pool.GetWaiting(); n > 0 {
			view.Waiting = plural(int(n), "job waits", "jobs wait")
			view.Alert = pool.GetSlots() == 0
		}
		for _, runner := range runners {
			if runner.GetPool() == pool.GetPool() {
				view.Runners = append(view.Runners, runnerViewOf(runner, now))
			}
		}
		v.Pools = append(v.Pools, view)
	}
	return v
}

// fleetOf are the members of a fleet and what they own; nothing for a server that is alone.
func fleetOf(server *fairleadv1.GetServerResponse) (members []memberView, owned []ownedView) {
	owns := map[string]int{}
	for _, p := range server.GetPartitions() {
		owns[p.GetOwner()]++
	}
	for _, m := range server.GetMembers() {
		members = append(members, memberView{Name: m.GetName(), Address: m.GetAddress(), Version: m.GetVersion(),
			Status: statusOfMember(m.GetState()), Owns: plural(owns[m.GetName()], "partition", "partitions")})
	}
	if len(members) == 0 {
		return nil, nil
	}
	for _, p := range server.GetPartitions() {
		owned = append(owned, ownedView{Partition: p.GetPartition(), Owner: p.GetOwner(), Problem: p.GetProblem(),
			Position: fmt.Sprintf("epoch %d, position %d", p.GetEpoch(), p.GetPosition()),
			Status:   statusOfPartition(p.GetState())})
	}
	return members, owned
}

func statusOfMember(state string) status {
	switch state {
	case "live":
		return status{"success", "live", "ok"}
	case "draining":
		return status{"cancelled", "draining", "off"}
	}
	return status{"unreachable", "gone", "doubt"}
}

func statusOfPartition(state string) status {
	switch state {
	case "owned":
		return status{"success", "owned", "ok"}
	case "stopped":
		return status{"failure", "stopped", "bad"}
	}
	return status{"unreachable", "changes hands", "doubt"}
}

func runnerViewOf(runner *fairleadv1.Runner, now time.Time) runnerView {
	v := runnerView{Name: orElse(runner.GetName(), runner.GetRunner()), ID: runner.GetRunner(),
		Labels: strings.Join(runner.GetLabels(), " "), Isolation: runner.GetIsolation(),
		Capacity: fmt.Sprintf("%d of %d", len(runner.GetAttempts()), runner.GetCapacity()),
		Version:  runner.GetVersion(), Seen: momentOf(runner.GetLastSeen(), now),
		Since: momentOf(runner.GetRegistered(), now), Status: statusOfRunner(runner.GetState())}
	for _, attempt := range runner.GetAttempts() {
		_, job, number, ok := domain.AttemptID(attempt).Split()
		word := attempt
		if ok {
			word = fmt.Sprintf("job %d, attempt %d", job, number)
		}
		v.Holds = append(v.Holds, holdView{"/attempts/" + attempt, word})
	}
	return v
}

// statusOfRunner reuses the looks of attempts: silence is doubt, not failure.
func statusOfRunner(state string) status {
	switch state {
	case "connected":
		return status{"success", "connected", "ok"}
	case "silent":
		return status{"unreachable", "silent", "doubt"}
	case "removed":
		return status{"cancelled", "removed", "off"}
	}
	return statusOf(state)
}
