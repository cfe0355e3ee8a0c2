package isolatetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
)

// RunWarm runs what of the suite depends on how a sandbox came to be, with sandboxes
// that were started ahead, and what only those can get wrong.
func RunWarm(t *testing.T, o Options) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	warmer, ok := o.Driver.(isolate.Warmer)
	if !ok {
		t.Fatalf("the driver %s starts nothing ahead", o.Driver.Name())
	}
	report, err := warmer.Probe(ctx)
	if err != nil {
		t.Fatalf("the driver %s does not work on this machine: %v", o.Driver.Name(), err)
	}
	o.Driver = taken{warmer}
	s := &suite{Options: o, report: report}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the environment is exactly what was given", s.environment},
		{"files are shared as promised", s.files},
		{"nothing survives", s.survivors},
		{"destroying erases everything and can be repeated", s.destroy},
		{"sandboxes don't see each other", s.concurrent},
		{"the sandbox says when it is gone", s.gone},
		{"it carries the attempt's marker and starts empty", func(t *testing.T) { s.named(t, warmer) }},
		{"one of another kind is refused and gone", func(t *testing.T) { s.otherKind(t, warmer) }},
		{"one that nobody wants leaves nothing", func(t *testing.T) { s.discarded(t, warmer) }},
		{"a dead owner's sandbox is cleaned up by its spec", func(t *testing.T) { s.buried(t, warmer) }},
	} {
		t.Run(c.name, c.run)
	}
	if o.Walls {
		t.Run("what is masked can't be read", s.masked)
		t.Run("there are no privileges", s.privileges)
	}
}

// taken prepares sandboxes by taking warm ones.
type taken struct{ isolate.Warmer }

// Prepare implements isolate.Driver.
func (d taken) Prepare(ctx context.Context, spec isolate.Spec) (isolate.Sandbox, error) {
	own := ahead(spec)
	w, err := d.Warm(ctx, own)
	if err != nil {
		return nil, err
	}
	spec.Warm = own.ID
	return w.Take(ctx, spec)
}

// ahead is the spec of a warm sandbox for one to come.
func ahead(spec isolate.Spec) isolate.Spec {
	spec.ID, spec.Dir = "warm-"+spec.ID, spec.Dir+"-warm"
	return spec
}

func (s *suite) warm(t *testing.T, d isolate.Warmer) (isolate.Warm, isolate.Spec, isolate.Spec) {
	t.Helper()
	spec := s.spec(t)
	own := ahead(spec)
	w, err := d.Warm(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	spec.Warm = own.ID
	return w, own, spec
}

// others lists the processes with a marker, without the sandbox's own init, which may be
// on its way out. What has no command line any more is dead.
func others(id string) []int {
	var pids []int
	for _, pid := range inside.Marked(isolate.Marker + "=" + id) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && len(text) > 0 && !bytes.Contains(text, []byte(inside.Arg)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// nothing fails the test if anything of a sandbox is left.
func nothing(t *testing.T, specs ...isolate.Spec) {
	t.Helper()
	for _, spec := range specs {
		if left := inside.Marked(isolate.Marker + "=" + spec.ID); len(left) > 0 {
			t.Errorf("%s: still there: %v", spec.ID, left)
		}
		if _, err := os.Lstat(spec.Dir); !os.IsNotExist(err) {
			t.Errorf("%s: the folder: %v", spec.ID, err)
		}
		left, _ := filepath.Glob("/sys/fs/cgroup/*/fairlead-" + spec.ID)
		more, _ := filepath.Glob("/sys/fs/cgroup/fairlead-" + spec.ID)
		if left = append(left, more...); len(left) > 0 {
			t.Errorf("%s: the cgroups %v", spec.ID, left)
		}
	}
}

func (s *suite) named(t *testing.T, d isolate.Warmer) {
	w, own, spec := s.warm(t, d)
	if len(inside.Marked(isolate.Marker+"="+own.ID)) != 1 {
		t.Error("the init does not carry its own marker")
	}
	box, err := w.Take(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if len(inside.Marked(isolate.Marker+"="+spec.ID)) != 1 || len(inside.Marked(isolate.Marker+"="+own.ID)) != 0 {
		t.Error("the init does not carry the attempt's marker alone")
	}
	in := box.Inside()
	out, exit := sh(t, box, fmt.Sprintf(`echo $%s; ls -A . %s %s | grep -v : || true`, isolate.Marker, in.Home, in.Temp))
	if exit.Code != 0 || strings.TrimSpace(out) != spec.ID {
		t.Errorf("ended with %v: %q", exit, out)
	}
	if err := box.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	spec.Warm = ""
	nothing(t, spec)
}

func (s *suite) otherKind(t *testing.T, d isolate.Warmer) {
	w, own, spec := s.warm(t, d)
	spec.Network = "none"
	if _, err := w.Take(t.Context(), spec); !errors.Is(err, isolate.ErrUnsupported) {
		t.Errorf("it was taken: %v", err)
	}
	nothing(t, own, spec)
}

func (s *suite) discarded(t *testing.T, d isolate.Warmer) {
	w, own, _ := s.warm(t, d)
	if err := w.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.Gone():
	case <-time.After(patience):
		t.Error("it did not say that it is gone")
	}
	nothing(t, own)
}

// buried cleans up by the spec alone, as whoever finds a dead supervisor's folder does.
func (s *suite) buried(t *testing.T, d isolate.Warmer) {
	w, own, spec := s.warm(t, d)
	box, err := w.Take(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	start(t, box, `trap '' TERM; (setsid sleep 1000 &); sleep 1000`)
	if err := d.Cleanup(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if err := d.Cleanup(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	nothing(t, spec, own)
	if err := box.Destroy(t.Context()); err != nil {
		t.Errorf("destroy what is gone: %v", err)
	}
}
