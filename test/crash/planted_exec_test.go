package crash

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// planted is a defect of one line, put into the product for one build.
type planted struct {
	file, right, wrong string
	finding            string // what the observer must say, in part
	do                 func(ctx context.Context, s *Siege) error
}

// TestPlantedDefectsAreFound shows that the observer would notice: it besieges builds in
// which one line is wrong. Models are shown to bite by doctored histories besides.
func TestPlantedDefectsAreFound(t *testing.T) {
	if !*flagPlanted {
		NotRun.Say(t.Name(), "each defect takes a build of its own; ask for it with -planted")
		return
	}
	for name, p := range map[string]planted{
		"the idempotency key is ignored": {
			file:    "internal/trigger/accept.go",
			right:   "	if r.Key != nil {",
			wrong:   "	r.Key = nil\n	if r.Key != nil {",
			finding: "idempotent create: the history of key",
			do:      func(ctx context.Context, _ *Siege) error { pause(ctx, 5*time.Second); return nil },
		},
		"a lapsed lease is given away at once": {
			file:    "internal/core/run/decide_lease.go",
			right:   "	abandonBy := later(a.AbandonBy, utc(c.AbandonBy))",
			wrong:   "	abandonBy := d.now.Add(-Skew)",
			finding: "lease ownership: the history of job",
			do: func(ctx context.Context, s *Siege) error {
				for n := range 8 {
					r := s.runners[n%len(s.runners)]
					r.signal(syscall.SIGSTOP) // its jobs go on, and it renews nothing
					pause(ctx, 3*leaseTTL)
					r.signal(syscall.SIGCONT)
					if len(overlaps(s.world.all())) > 0 {
						break
					}
				}
				return nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) { p.find(t) })
	}
}

func (p *planted) find(t *testing.T) {
	folder := t.TempDir()
	if err := Build(folder, p.overlay(t, folder)); err != nil {
		t.Fatal(err)
	}
	ctx, begun := t.Context(), time.Now()
	s, err := NewSiege(ctx, Options{Programs: folder, Store: SQLite, Servers: 1, Runners: 2, Seed: 1, Say: say(begun),
		Abandon: 6 * leaseTTL})
	if s != nil {
		defer s.Close(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	stop := s.Load(ctx)
	pause(ctx, 2*time.Second)
	err = p.do(ctx, s)
	pause(ctx, time.Second)
	stop()
	if err == nil {
		err = s.Judge(ctx)
	}
	t.Logf("the judgement ended with: %v", err)
	for _, text := range append(s.Book.Findings(), s.Book.check()...) {
		if strings.Contains(text, p.finding) {
			t.Logf("found: %.300s", text)
			return
		}
	}
	t.Errorf("not found; what was found is %.2000q", s.Book.Findings())
}

// overlay writes the wrong file and the description that go build takes.
func (p *planted) overlay(t *testing.T, folder string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, p.file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), p.right); n != 1 {
		t.Fatalf("%s holds %q %d times, want once", p.file, p.right, n)
	}
	wrong := filepath.Join(folder, "wrong.go")
	if err := os.WriteFile(wrong, []byte(strings.Replace(string(text), p.right, p.wrong, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(map[string]any{"Replace": map[string]string{path: wrong}})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(overlay, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
