package upgrade

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// PostgreSQL is restarted under load, as for an upgrade of its own.
func TestDatabaseRestart(t *testing.T) {
	if !*flagLong {
		t.Log("not run: it takes a cluster of its own; ask for it with -long")
		return
	}
	now := programs(t, "current", nil)
	db := newPrimary(t)
	w := newTown(t, urlOf(db))
	w.populate(now)
	for _, how := range []struct {
		name string
		sig  syscall.Signal
	}{{"fast", syscall.SIGINT}, {"immediate", syscall.SIGQUIT}} {
		if !db.stop(how.sig) {
			t.Fatal("PostgreSQL does not end")
		}
		db.start()
		w.progress("after a " + how.name + " restart of PostgreSQL")
	}
	w.audit()
	w.verify(now)
}

// The primary dies and its synchronous standby is promoted: nothing that was acknowledged is
// missing, and the servers find the new primary by themselves.
func TestPromotionOfASynchronousStandby(t *testing.T) {
	if !*flagLong {
		t.Log("not run: it takes two clusters of its own; ask for it with -long")
		return
	}
	now := programs(t, "current", nil)
	db := newPrimary(t)
	standby := db.newStandby()
	db.synchronous()
	w := newTown(t, urlOf(db, standby))
	w.populate(now)
	db.die()
	begun := time.Now()
	standby.promote()
	w.progress("after the synchronous standby was promoted")
	t.Logf("from the primary's death to runs that conclude in every partition: %s",
		time.Since(begun).Round(time.Millisecond))
	w.audit()
	w.verify(now)
}

// The primary dies and a standby without the last commits is promoted. What is missing is
// noticed by those who hold an acknowledgement of it, the partitions stop, and say which
// position is missing; they go on when the operator has accepted the loss, and lack exactly
// what was acknowledged after the position that is held.
//
// Promises: [HIST-6].
func TestPromotionOfAStandbyThatLags(t *testing.T) {
	if !*flagLong {
		t.Log("not run: it takes two clusters of its own for each case; ask for it with -long")
		return
	}
	for name, forget := range map[string]bool{"the servers remember": false, "only clients and runners remember": true} {
		t.Run(name, func(t *testing.T) { lag(t, forget) })
	}
}

func lag(t *testing.T, forget bool) {
	now := programs(t, "current", nil)
	db := newPrimary(t)
	standby := db.newStandby()
	w := newTown(t, urlOf(db, standby))
	// The operator takes a while to decide, and jobs must not be given up meanwhile.
	w.flags = []string{"--lease-ttl", "3s", "--abandon-after", "12s"}
	w.populate(now)
	if !standby.stop(syscall.SIGINT) {
		t.Fatal("the standby does not end")
	}
	w.progress("the standby hangs behind")
	w.stopLoad() // the lost tail is asked for by hand from here on
	w.loadEnds.Wait()
	w.tail()
	db.die()
	if forget {
		for _, s := range w.servers {
			s.stop(syscall.SIGKILL)
		}
	}
	standby.start()
	standby.promote()
	if forget {
		for _, s := range w.servers {
			w.serve(now, s.name)
		}
	}

	w.presents(forget)
	stopped := w.awaitStopped(now)
	w.doctorSees(now)
	w.accept(now, stopped)
	w.awaitGoing()
	w.resume()
	w.progress("after the loss was accepted")
	w.audit()
	w.verify(now)
}

// populate starts two servers and two runners with load.
func (w *town) populate(programs string) {
	w.t.Helper()
	for _, name := range []string{"s1", "s2"} {
		w.serve(programs, name)
	}
	for _, name := range []string{"r1", "r2"} {
		w.hire(programs, name)
	}
	w.settle()
}

// tail asks for one more run in each partition: acknowledged, and about to be lost.
func (w *town) tail() {
	w.t.Helper()
	for p, repository := range w.repos {
		run, token, err := w.request(w.t.Context(), repository, "short.yml")
		if err != nil {
			w.t.Fatal(err)
		}
		w.note(p, run, token)
	}
}

// presents brings the tokens that clients hold, as any of their calls does. With servers
// that forgot, nobody else could know; the call itself is refused then.
func (w *town) presents(must bool) {
	w.t.Helper()
	refused := 0
	for _, s := range w.servers {
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			_, err := s.client.Runs.ListRuns(w.t.Context(), &fairleadv1.ListRunsRequest{})
			if client.Refusal(err).GetCode() == string(domain.CodeHistoryLost) {
				refused++
				break
			}
			if err == nil && !must {
				break
			}
		}
	}
	if must && refused == 0 {
		w.t.Fatal("a client with a token of lost history was served")
	}
}

// shown is the part of "admin fleet --json" that is looked at here.
type shown struct {
	Partitions []struct{ Partition, State, Problem string }
}

var position = regexp.MustCompile(`--position (\d+)`)

// awaitStopped waits until the fleet shows every partition with a lost tail as stopped, up to all
// that was acknowledged, and gives the position that each says is missing. Whoever holds more than
// the first who spoke makes it known with a call of its own.
func (w *town) awaitStopped(programs string) map[string]string {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		for _, s := range w.servers {
			_, _ = s.client.Runs.ListRuns(w.t.Context(), &fairleadv1.ListRunsRequest{}) // refused or not: it is heard
		}
		stdout, stderr, code, err := w.fairlead(programs, "admin", "fleet", "--json")
		var f shown
		if err == nil && code == 1 {
			err = json.Unmarshal([]byte(stdout), &f)
		}
		stopped := map[string]string{}
		for _, p := range f.Partitions {
			if m := position.FindStringSubmatch(p.Problem); p.State == "stopped" && m != nil {
				stopped[p.Partition] = m[1]
			}
		}
		missing := ""
		for p := range w.repos {
			var got uint64
			if _, err := fmt.Sscan(stopped[string(p)], &got); err != nil || got < w.highest(p) {
				missing += fmt.Sprintf(" %s (it says %q, and %d was acknowledged)", p, stopped[string(p)], w.highest(p))
			}
		}
		if missing == "" {
			for p := range stopped {
				w.t.Logf("%s is stopped; missing up to position %s, the highest one acknowledged to this client is %d", p,
					stopped[p], w.highest(domain.PartitionID(p)))
			}
			return stopped
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("lost history is not noticed in%s (exit code %d, %v)\n%s%s", missing, code, err, stdout, stderr)
		}
	}
}

// highest is the highest position that was acknowledged for a partition.
func (w *town) highest(p domain.PartitionID) (out uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs[p] {
		out = max(out, r.token.Position)
	}
	return out
}

func (w *town) fairlead(programs string, args ...string) (stdout, stderr string, code int, err error) {
	args = append([]string{"env", "FAIRLEAD_DATA=" + filepath.Join(w.folder, w.servers[0].name),
		filepath.Join(programs, "fairlead")}, args...)
	return call(w.folder, args...)
}

func (w *town) doctorSees(programs string) {
	w.t.Helper()
	stdout, stderr, code, err := w.fairlead(programs, "doctor")
	if err != nil || code == 0 || !strings.Contains(stdout, "stopped: ") || !strings.Contains(stdout, "accept-loss") {
		w.t.Errorf("fairlead doctor does not see it: exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
}

// awaitGoing waits until no partition stands still any more, nor refuses who comes with tokens
// of what is lost: an accepted loss is noticed within seconds.
func (w *town) awaitGoing() {
	w.t.Helper()
	begun := time.Now()
	for deadline := begun.Add(patience); ; time.Sleep(50 * time.Millisecond) {
		waits := ""
		for _, s := range w.servers {
			if _, err := s.client.Runs.ListRuns(w.t.Context(), &fairleadv1.ListRunsRequest{}); err != nil {
				waits += fmt.Sprintf(" %s: %v;", s.name, err)
			}
		}
		shows := w.show()
		for _, p := range shows.GetPartitions() {
			if p.GetState() != "owned" {
				waits += fmt.Sprintf(" %s is %s;", p.GetPartition(), p.GetState())
			}
		}
		if waits == "" && shows != nil {
			w.t.Logf("every partition goes on (%s)", time.Since(begun).Round(time.Millisecond))
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("after the loss was accepted:%s", waits)
		}
	}
}

// accept is the operator's decision; every acknowledged run after what is held is gone.
func (w *town) accept(programs string, stopped map[string]string) {
	w.t.Helper()
	for p, at := range stopped {
		stdout, stderr, code, err := w.fairlead(programs, "admin", "accept-loss", p, "--position", at, "--note", "a drill",
			"--store", w.store, "--shared", filepath.Join(w.folder, "shared"), "--json")
		var loss struct{ Held uint64 }
		if err == nil && code == 0 {
			err = json.Unmarshal([]byte(stdout), &loss)
		}
		if err != nil || code != 0 {
			w.t.Fatalf("accept-loss %s: exit code %d, %v\n%s%s", p, code, err, stdout, stderr)
		}
		w.mu.Lock()
		gone, kept := 0, 0
		for _, r := range w.runs[domain.PartitionID(p)] {
			if r.token.Position > loss.Held {
				w.lost[r.run] = true
				gone++
			} else {
				kept++
			}
		}
		w.mu.Unlock()
		w.t.Logf("%s: position %d is held; of the acknowledged runs %d are there and %d are gone", p, loss.Held, kept, gone)
		if _, loaded := w.repos[domain.PartitionID(p)]; loaded && gone == 0 {
			w.t.Errorf("%s: no acknowledged run was lost: the case shows nothing", p)
		}
	}
}
