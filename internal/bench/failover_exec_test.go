package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

func TestTheWorkflowsOfFailoverCompileAndHoldTheirPlaces(t *testing.T) {
	const spare = 3
	for name, want := range map[string]struct {
		jobs  int
		label string
	}{longJob: {1, throughLabel}, shortJob: {chained, throughLabel}, probeJob: {1, throughLabel},
		plugJob: {spare, spareLabel}, waitJob: {1, spareLabel}} {
		p := failoverPlan(t, t.TempDir(), name, spare)
		if len(p.Jobs) != want.jobs {
			t.Errorf("%s: %d jobs, want %d", name, len(p.Jobs), want.jobs)
		}
		for i, j := range p.Jobs {
			if len(j.RunsOn) != 1 || j.RunsOn[0] != want.label {
				t.Errorf("%s: job %d runs on %v", name, i, j.RunsOn)
			}
			if follows := len(j.Needs) == 1 && j.Needs[0] == i-1; follows != (name == shortJob && i > 0) {
				t.Errorf("%s: job %d needs %v", name, i, j.Needs)
			}
		}
	}
}

func failoverPlan(t *testing.T, folder, name string, spare int) *plan.Plan {
	t.Helper()
	p, found := workflow.Compile(workflow.Source{Path: name, Text: []byte(failoverWorkflows(folder, spare)[name])},
		workflow.Inputs{Event: "workflow_dispatch"}, workflow.DefaultLimits())
	if p == nil || len(found) > 0 {
		t.Fatalf("compile %s: %v", name, found)
	}
	return p
}

// The scripts end when they are told to, print what the audit expects, and note themselves.
func TestTheScriptsOfFailoverEndWhenTheyAreToldTo(t *testing.T) {
	folder := t.TempDir()
	f := &failover{fleetStage: &fleetStage{folder: folder}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := func(name string) (wait func() (string, error)) {
		script := failoverPlan(t, folder, name, 1).Jobs[0].Steps[0].Script
		cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script)
		cmd.Env = append(os.Environ(), "FAIRLEAD_ATTEMPT="+name, "FAIRLEAD_RUN=run_1")
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() (string, error) {
			err := cmd.Wait()
			return out.String(), err
		}
	}
	noted := func() []string {
		text, err := os.ReadFile(filepath.Join(folder, bookFile))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
	waits := map[string]func() (string, error){}
	names := []string{longJob, shortJob, plugJob, waitJob, probeJob}
	for _, name := range names {
		waits[name] = begin(name)
	}
	for len(noted()) < len(names) {
		if ctx.Err() != nil {
			t.Fatalf("noted %v", noted())
		}
		pause(ctx, failoverLook)
	}
	if err := sameAttempts(names, noted()); err != nil {
		t.Error(err)
	}
	if err := f.open(openFile + "run_1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{waitJob, probeJob, plugJob} {
		if out, err := waits[name](); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if err := f.open(stopAll); err != nil {
		t.Fatal(err)
	}
	if out, err := waits[shortJob](); err != nil {
		t.Errorf("short: %v\n%s", err, out)
	}
	if out, err := waits[longJob](); err != nil || !strings.HasSuffix(out, "end\n") {
		t.Errorf("long: %v\n%s", err, out)
	}
}

func TestAnAttemptCountsOnce(t *testing.T) {
	for _, c := range []struct {
		recorded, executed []string
		want               string
	}{
		{[]string{"a", "b"}, []string{"b", "a"}, ""},
		{[]string{"a"}, []string{"a", "a"}, "executed 2 times"},
		{[]string{"a", "b"}, []string{"a"}, "executed 0 times"},
		{[]string{"a", "a"}, []string{"a"}, "executed 0 times"},
		{[]string{"a"}, []string{"a", "b"}, "not recorded"},
	} {
		err := sameAttempts(c.recorded, c.executed)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("recorded %v, executed %v: %v", c.recorded, c.executed, err)
		}
	}
}

func TestProcessorsAreBusyWhenSomethingIsDone(t *testing.T) {
	busyBefore, allBefore, err := processors()
	if err != nil {
		t.Fatal(err)
	}
	for sum, end := 0, time.Now().Add(100*time.Millisecond); time.Now().Before(end); sum++ {
		_ = sum * sum
	}
	busy, all, err := processors()
	if err != nil || busy <= busyBefore || all-allBefore < busy-busyBefore {
		t.Errorf("busy %d of %d, before %d of %d: %v", busy, all, busyBefore, allBefore, err)
	}
}

func TestSlotsAreEnoughForEveryFleet(t *testing.T) {
	for n := 1; n <= 20; n++ {
		if got := n * slotsOf(n); got < 2*failoverPartitions {
			t.Errorf("%d runners have %d slots", n, got)
		}
		// Those of the runs and that of the pool, shared as evenly as can be.
		if most := (failoverPartitions + 1 + n - 1) / n; spareSlots(n) < most {
			t.Errorf("%d servers have up to %d partitions each, and %d slots are spare", n, most, spareSlots(n))
		}
	}
}
