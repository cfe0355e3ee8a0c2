package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var program string // the real one, built for these tests

func TestMain(m *testing.M) {
	os.Exit(withProgram(m.Run))
}

func withProgram(run func() int) int {
	folder, err := os.MkdirTemp("", "fairlead-bench-test-")
	if err == nil {
		defer func() { _ = os.RemoveAll(folder) }()
		program = filepath.Join(folder, "fairlead")
		cmd := exec.Command("go", "build", "-o", program, "github.com/fairlead-ci/fairlead/cmd/fairlead")
		cmd.Stderr = os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		return 1
	}
	return run()
}

// Every measurement in small, against the real program.
func TestMeasurementsOfARealServer(t *testing.T) {
	options := func(t *testing.T) Options {
		return Options{Program: program, Version: "test", Folder: t.TempDir(), Isolation: "process"}
	}
	for _, c := range []struct {
		name    string
		measure func(context.Context, Options) (*Report, error)
		figures []string
	}{
		{"idle", func(ctx context.Context, o Options) (*Report, error) {
			return Idle(ctx, o, IdleOptions{Seconds: 1})
		}, []string{"resident memory", "peak since its start", "threads"}},
		{"dispatch", func(ctx context.Context, o Options) (*Report, error) {
			return Dispatch(ctx, o, DispatchOptions{Runners: 3, Jobs: 10})
		}, []string{"ready until manifest", "request until manifest", "result until acknowledged", "jobs"}},
		{"fleet", func(ctx context.Context, o Options) (*Report, error) {
			return Fleet(ctx, o, FleetOptions{Runners: 4, Slots: 2, Duration: time.Second, Shape: ShapeFan, Jobs: 5,
				LogBytes: 100, Backlog: 50})
		}, []string{"jobs asked for", "registration", "jobs", "ready until manifest", "ready until leased",
			"request until answer", "result until acknowledged", "server's processor time", "exchanges", "stored"}},
		{"storm", func(ctx context.Context, o Options) (*Report, error) {
			return Storm(ctx, o, StormOptions{Runners: 2, Slots: 2, JobTime: 20 * time.Millisecond, Before: time.Second,
				Duration: 2 * time.Second, Rate: 4, FloodJobs: 100_000, RunJobs: 20, Askers: 8, OpenJobsPerRepository: 400})
		}, []string{"request until answer, before", "request until answer, storm", "request until manifest, storm",
			"cancel until committed, storm", "result until acknowledged, storm", "jobs of the flood admitted",
			"refused too_many_open_jobs", "jobs committed"}},
		{"runners", func(ctx context.Context, o Options) (*Report, error) {
			return Crowd(ctx, o, CrowdOptions{Runners: 60, Connections: 3, Servers: 1, Poll: time.Second,
				Window: 2 * time.Second, Jobs: 5})
		}, []string{"registration", "memory of a runner", "processor", "exchanges", "ready until manifest"}},
		{"logs", func(ctx context.Context, o Options) (*Report, error) {
			return Logs(ctx, o, LogOptions{Bytes: 10_000_000, Runners: 2, ChunkBytes: 64 << 10, Followers: 1})
		}, []string{"ingest", "lines", "exchange", "result until sealed", "sent until seen"}},
		{"logs", func(ctx context.Context, o Options) (*Report, error) {
			return Logs(ctx, o, LogOptions{Bytes: 300_000, Runners: 3, ChunkBytes: 1 << 10, Rate: 600_000, Followers: 2})
		}, []string{"ingest", "printed until seen"}},
		{"compile", func(ctx context.Context, o Options) (*Report, error) {
			return Compile(ctx, o, CompileOptions{Jobs: 20, Legs: 5, Texts: 2, Again: 2})
			// So little takes no processor time that is counted.
		}, []string{"validate", "validate again", "validate matrices", "text"}},
		{"recover", func(ctx context.Context, o Options) (*Report, error) {
			return Recover(ctx, o, RecoverOptions{Jobs: 50, Kills: 2})
		}, []string{"jobs asked for", "kill until ready", "kill until the first manifest", "processor time"}},
		{"run", func(ctx context.Context, o Options) (*Report, error) {
			return Run(ctx, o, RunOptions{Runs: 2, Chains: 1, Warm: 1})
		}, []string{"run, one empty step", "· until the step begins", "run, chain of ten jobs",
			"bare start of the program"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			o := options(t)
			r, err := c.measure(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Bench != c.name || r.Server.Store != "sqlite" || r.Server.Usage.RSS < mebi || r.Disk.After == nil {
				t.Errorf("report %+v", r)
			}
			for _, name := range c.figures {
				if !has(r, name) {
					t.Errorf("no figure %q in %+v", name, r.Figures)
				}
			}
			if left, err := os.ReadDir(o.Folder); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// Failures, declined leases, cancelled runs and a clock instead of a closed loop: whatever
// happens to a job, history accounts for it.
func TestAFleetThatMeetsTrouble(t *testing.T) {
	o := Options{Program: program, Version: "test", Folder: t.TempDir()}
	r, err := Fleet(t.Context(), o, FleetOptions{Runners: 6, Slots: 2, Duration: 2 * time.Second,
		Shape: ShapeChain, Jobs: 3, Rate: 60, JobTime: 20 * time.Millisecond, LogBytes: 100,
		Fail: 10, Decline: 20, Cancel: 10})
	if err != nil {
		t.Fatal(err)
	}
	if r.JobsPerSecond <= 0 || r.Dispatch.Count == 0 || *r.Lost != 0 || *r.Duplicated != 0 || len(r.Seconds) == 0 {
		t.Errorf("report %+v", r)
	}
	if r.Server.CPUPerJob <= 0 || r.Server.BytesPerJob <= 0 || r.Server.RSS < mebi || r.Generator.CPUPerJob <= 0 {
		t.Errorf("report %+v", r)
	}
	var page strings.Builder
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<!doctype html>", "fairlead bench fleet", "<polyline", "Results acknowledged"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if strings.Contains(page.String(), "http://") || strings.Contains(page.String(), "https://") {
		t.Error("the page needs something from elsewhere")
	}
}

// Jobs that wait for the first runner are all in the window, whatever their graph.
func TestADrainedQueue(t *testing.T) {
	for _, shape := range []string{ShapeWide, ShapeFan} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			o := Options{Program: program, Version: "test", Folder: t.TempDir()}
			r, err := Fleet(t.Context(), o, FleetOptions{Runners: 2, Slots: 8, Shape: shape, Jobs: 5, LogBytes: 100,
				Decline: 10, Drain: 98})
			if err != nil {
				t.Fatal(err)
			}
			if r.DrainJobsPerSecond <= 0 || r.JobsPerSecond != 0 || *r.Lost != 0 || *r.Duplicated != 0 ||
				r.Dispatch.Count < 100 || r.Settings["drain"] != 98 || r.Settings["warm"] != nil || len(r.Seconds) == 0 {
				t.Errorf("report %+v", r)
			}
			for _, name := range []string{"jobs asked for", "jobs drained", "ready until manifest", "stored"} {
				if !has(r, name) {
					t.Errorf("no figure %q in %+v", name, r.Figures)
				}
			}
			if has(r, "jobs") || has(r, "request until answer") {
				t.Errorf("a figure of a steady window in %+v", r.Figures)
			}
		})
	}
}

// A job that waited and was not concluded in the window would make the rate a lie.
func TestADrainMissesNoJob(t *testing.T) {
	l := &traffic{waiting: 10}
	if err := l.checkDrained(&tallied{InWindow: 11}); err != nil {
		t.Error(err)
	}
	if err := l.checkDrained(&tallied{InWindow: 9}); err == nil || !strings.Contains(err.Error(), "10 jobs waited") {
		t.Errorf("%v", err)
	}
}

func has(r *Report, name string) bool {
	for _, f := range r.Figures {
		if f.Name == name && (f.Spread != nil && f.Spread.Count > 0 || f.Value > 0) {
			return true
		}
	}
	return false
}

func TestAServerThatCannotStartIsAnErrorWithItsWords(t *testing.T) {
	o := Options{Program: program, Version: "test", Folder: t.TempDir(),
		Store: "postgres://127.0.0.1:1/none?connect_timeout=1"}
	_, err := Dispatch(t.Context(), o, DispatchOptions{Runners: 1, Jobs: 1})
	if err == nil || !strings.Contains(err.Error(), "it ended at once") || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%v", err)
	}
}

// Who waits for an answer of a server that is gone would wait for ever.
func TestAServerThatDiesEndsTheMeasurement(t *testing.T) {
	o := Options{Program: program, Version: "test", Folder: t.TempDir()}
	_, err := measure(t.Context(), "death", o, "server", nil, func(ctx context.Context, s *stage) error {
		if err := s.server.cmd.Process.Kill(); err != nil {
			return err
		}
		<-ctx.Done()
		return errors.Join(ctx.Err(), s.server.stop()) // once more than at the end
	})
	if !errors.Is(err, errLost) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v", err)
	}
}

func TestAHistorySaysItsFiguresAsTheyCome(t *testing.T) {
	var said strings.Builder
	o := Options{Program: program, Version: "test", Folder: t.TempDir(), Progress: &said}
	r, err := History(t.Context(), o, HistoryOptions{Jobs: 500, Looks: 5, Live: true,
		Load: FleetOptions{Runners: 4, Slots: 2, Duration: time.Second, Shape: ShapeFan, Jobs: 5, LogBytes: 100}})
	if err != nil {
		t.Fatal(err)
	}
	if !has(r, "full to empty") || has(r, "archived") {
		t.Errorf("figures %+v", r.Figures)
	}
	for _, f := range r.Figures {
		if !strings.Contains(said.String(), f.line()) {
			t.Errorf("%q was not said", f.line())
		}
	}
}
