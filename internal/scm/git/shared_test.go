package git_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/scm/git"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

// patience is what a test gives to what must not wait for anything; a request that waits is
// cut at it, so that the test fails before the hour that a transfer may last.
const patience = time.Minute

// newFleet is some servers that share one folder of mirrors, each with locks of its own.
func newFleet(t *testing.T, n int) []*door {
	t.Helper()
	root := filepath.Join(t.TempDir(), "git")
	fleet := make([]*door, n)
	for i := range fleet {
		mirrors, err := git.New(t.Context(), git.Config{Root: root, AllowLoopback: true, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		fleet[i] = openDoor(t, mirrors, git.HandlerOptions{})
		fleet[i].patience = patience
	}
	return fleet
}

func TestConformanceInASharedFolder(t *testing.T) {
	t.Parallel()
	scmtest.Run(t, func(t *testing.T) scm.Source { return newFleet(t, 1)[0].mirrors })
}

// captures makes commits and the refspecs that push them.
func captures(work *scmtest.Repo, n int) (commits, specs []string) {
	for i := range n {
		commit := work.Write("a", fmt.Sprint(i)).Commit(fmt.Sprintf("capture %d", i))
		commits, specs = append(commits, commit), append(specs, commit+":"+git.CapturePrefix+commit)
	}
	return commits, specs
}

// holds checks that a server has all the commits.
func (d *door) holds(commits []string) {
	d.t.Helper()
	for _, commit := range commits {
		if got, err := d.mirrors.Resolve(d.t.Context(), d.repo, commit); err != nil || got.Commit != commit {
			d.t.Errorf("commit %s: %v, %v", commit, got, err)
		}
	}
}

// TestAPushOfSeveralRefsInASharedFolder: a push does not wait for itself, however many refs
// it has.
func TestAPushOfSeveralRefsInASharedFolder(t *testing.T) {
	t.Parallel()
	d := newFleet(t, 1)[0]
	work := scmtest.NewRepo(t)
	commits, specs := captures(work, 16)
	for _, n := range []int{2, 16} {
		if out, err := work.Try(d.as("push", append([]string{"push", d.remote()}, specs[:n]...)...)...); err != nil {
			t.Fatalf("a push of %d refs: %v\n%s", n, err, out)
		}
	}
	d.holds(commits)
}

// TestPushesThatOverlapInASharedFolder: pushes of the same refs in other orders, to several
// servers at once, all come to their end.
func TestPushesThatOverlapInASharedFolder(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t, 2)
	work := scmtest.NewRepo(t)
	commits, specs := captures(work, 4)
	var all sync.WaitGroup
	for i := range 8 {
		mine := slices.Concat(specs[i%4:], specs[:i%4])[:3]
		if i >= 4 {
			slices.Reverse(mine)
		}
		d := fleet[i%2]
		all.Go(func() {
			if out, err := work.Try(d.as("push", append([]string{"push", d.remote()}, mine...)...)...); err != nil {
				t.Errorf("push %d: %v\n%s", i, err, out)
			}
		})
	}
	all.Wait()
	for _, d := range fleet {
		d.holds(commits)
	}
}

// TestAPinDoesNotWaitForAPushInASharedFolder: while a client takes its time to push, every
// server of the fleet can pin.
func TestAPinDoesNotWaitForAPushInASharedFolder(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t, 2)
	remote, _, _ := fleet[0].fill()
	head := remote.Git("rev-parse", "main^")
	tip, _ := captures(scmtest.NewRepo(t), 1)
	connection, err := net.Dial("tcp", strings.TrimPrefix(fleet[0].url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprintf(connection, "POST %s/git-receive-pack HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer push\r\n"+
		"Content-Type: application/x-git-receive-pack-request\r\nContent-Length: 100000\r\n\r\n%s",
		git.Path(fleet[0].repo), pushOf(tip[0], "PACK\x00\x00\x00\x02\x00\x00\x00\x09"))
	dir, err := fleet[0].mirrors.Dir(fleet[0].repo)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "git has started to receive", func() bool { return len(processesOf(t, dir)) > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	for i, commit := range []string{head, remote.Git("rev-parse", "secret")} {
		if err := fleet[i].mirrors.Pin(ctx, fleet[i].repo, commit); err != nil {
			t.Errorf("pin on server %d while a push is under way: %v", i, err)
		}
	}
	if fleet[0].handler.Active() != 1 {
		t.Error("the push was over before the pins were")
	}
}
