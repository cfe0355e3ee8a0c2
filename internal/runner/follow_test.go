package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/runner/spool"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// stubborn is a driver whose sandboxes can't be removed at first.
type stubborn struct {
	isolate.Driver
	tries, fails int
}

func (s *stubborn) Cleanup(context.Context, isolate.Spec) error {
	if s.tries++; s.tries <= s.fails {
		return errors.New("the runtime can't be started: no memory")
	}
	return nil
}

// While a dead supervisor's job may still run, its slot is not free and nothing is told of its end.
//
// Promises: [RNR-3].
func TestAnAttemptHasNotEndedWhileItsJobMayBeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		state := `{"attempt":"att_a_0_1","epoch":1,"driver":"oci","sandbox":{"id":"a"}}`
		if err := os.WriteFile(filepath.Join(folder, "state.json"), []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
		driver := &stubborn{fails: 3}
		ended, said := 0, 0
		f := &follower{attempt: "att_a_0_1", folder: supervisor.Folder(folder), driver: driver,
			reader: spool.NewReader(supervisor.Folder(folder).Spool()), credit: make(chan struct{}, 1),
			resume: func() {}}
		f.tell = func(func(*machine, instant)) {
			f.grant()
			if driver.tries > driver.fails {
				ended++
			} else {
				said++
			}
		}
		f.run(t.Context())
		if driver.tries != 4 || said != 3 || ended == 0 {
			t.Errorf("removed at try %d; told %d times before and %d times after", driver.tries, said, ended)
		}
		if !f.concluded {
			t.Error("there is no result that says what happened")
		}
	})
}
