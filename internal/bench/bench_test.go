package bench

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

func TestASpreadHasThreeDigitsAndRefusesWhatCannotBe(t *testing.T) {
	all := newTimes()
	for i := range 1000 {
		if err := all.add(time.Duration(i+1) * time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	s := all.spread()
	near := func(name string, got, want float64) {
		if got < want*0.999 || got > want*1.001 {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
	near("p50", s.P50, 500)
	near("p99", s.P99, 990)
	near("max", s.Max, 1000)
	near("mean", s.Mean, 500.5)
	if s.Count != 1000 {
		t.Errorf("count %d", s.Count)
	}
	if err := all.add(-time.Second); err == nil || !strings.Contains(err.Error(), "clock was set") {
		t.Errorf("a negative time: %v", err)
	}
	if err := all.add(time.Hour); err == nil {
		t.Error("an hour was taken")
	}
}

func TestAHairBelowNothingIsNothing(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ to, want time.Duration }{
		{time.Second, time.Second}, {-time.Microsecond, 0}, {-time.Second, -time.Second},
	} {
		if got := gap(now, now.Add(c.to)); got != c.want {
			t.Errorf("gap of %s: %s, want %s", c.to, got, c.want)
		}
	}
}

func TestTheMachineAndThisProcessAreDescribed(t *testing.T) {
	m, err := Describe(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if m.Kernel == "" || m.Cores < 1 || m.MemoryBytes < mebi || m.FileSystem == "" || m.Device == "" {
		t.Errorf("machine %+v", m)
	}
	before, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for sum, end := 0, time.Now().Add(50*time.Millisecond); time.Now().Before(end); sum++ {
		_ = sum * sum
	}
	u, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if took := u.since(before); u.RSS < mebi || u.RSSPeak < u.RSS || u.Anonymous <= 0 || u.Threads < 1 || took.CPU <= 0 {
		t.Errorf("usage %+v, since %+v", u, took)
	}
	if _, err := usageOf(1 << 30); err == nil {
		t.Error("a process that is not there was described")
	}
}

func TestTheDiskIsAskedOftenEnough(t *testing.T) {
	s, err := SyncTimes(t.TempDir())
	if err != nil || s.Count != syncs || s.P50 <= 0 || s.P99 < s.P50 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestTheWorkflowsCompile(t *testing.T) {
	for _, c := range []struct {
		jobs    int
		chained bool
	}{{1, false}, {jobsMany, true}, {jobsMany, false}} {
		p := compiled(t, workflowText(c.jobs, c.chained))
		if len(p.Jobs) != c.jobs {
			t.Fatalf("%d jobs, want %d", len(p.Jobs), c.jobs)
		}
		for i, job := range p.Jobs {
			if chained := len(job.Needs) == 1; chained != (c.chained && i > 0) {
				t.Errorf("job %d needs %v", i, job.Needs)
			}
		}
	}
}

// The shapes are what they are called.
func TestShapesOfRuns(t *testing.T) {
	for shape, needs := range map[string][]int{ShapeFan: {0, 1, 1, 1, 3}, ShapeChain: {0, 1, 1, 1, 1},
		ShapeWide: {0, 0, 0, 0, 0}} {
		p := compiled(t, shapeText(shape, len(needs)))
		for i, job := range p.Jobs {
			if len(job.Needs) != needs[i] {
				t.Errorf("%s: job %d needs %d others, want %d", shape, i, len(job.Needs), needs[i])
			}
		}
	}
}

func TestALogIsAsLongAsWasAsked(t *testing.T) {
	for _, size := range []int{1, 4096, 256 << 10} {
		if got := len(logText(size)); got != size {
			t.Errorf("%d bytes, want %d", got, size)
		}
	}
}

func TestAReportIsWholeInBothForms(t *testing.T) {
	took := newTimes()
	if err := took.add(12 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	r := &Report{Bench: "run", Version: "v1", Go: "go1", Settings: map[string]any{"warm": 2, "runs": 1},
		Machine: Machine{System: "linux", Kernel: "6.1", CPU: "one", Cores: 2, FileSystem: "ext4", Device: "/dev/x",
			LoadBefore: 3},
		Server: Server{Command: "up", Store: "sqlite", Durability: "synced", Isolation: "oci",
			Usage: Usage{RSS: 40 * mebi, CPU: 1.5}},
		Disk: Disk{Before: took.spread(), After: took.spread()}}
	r.spread("whole", "from start to exit", took)
	r.aim(90)
	r.value("ingest", "made durable", 123.4, "MB/s")
	r.spread("nothing", "never happened", newTimes())
	r.note("load %d", 3)
	var out strings.Builder
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"runs 1, warm 2", "2 cores", "ext4 on /dev/x, load 3.0", "store sqlite: synced",
		"isolation oci", "40 MiB in memory", "1.50 s of processor time", "whole", "12.0", "90.0", "MB/s",
		"write+fsync 4 KiB, before", "Note: load 3"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "nothing") {
		t.Error("a figure without a measurement is shown")
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	err = json.Unmarshal(text, &back)
	if err != nil || back.Figures[0].Spread.P50 != r.Figures[0].Spread.P50 || back.Figures[1].Value != 123.4 {
		t.Errorf("%+v, %v", back, err)
	}
	r.Server.Usage, r.Settings = Usage{}, map[string]any{"kills": 1}
	out.Reset()
	if err := r.Write(&out); err != nil || strings.Contains(out.String(), " took") {
		t.Errorf("what was not measured is told (%v):\n%s", err, out.String())
	}
}

func compiled(t *testing.T, text string) *plan.Plan {
	t.Helper()
	p, found := workflow.Compile(workflow.Source{Path: "w.yml", Text: []byte(text)},
		workflow.Inputs{Event: "workflow_dispatch"}, workflow.DefaultLimits())
	if p == nil || len(found) > 0 {
		t.Fatalf("compile: %v", found)
	}
	return p
}
