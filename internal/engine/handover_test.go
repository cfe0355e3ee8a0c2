package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// TestALostPartitionIsLoggedByItsCause: an owner that was replaced is the fleet at work, and
// says under which epoch it owned and who does now; a history that is gone needs a person.
func TestALostPartitionIsLoggedByItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		s := newStreet(t)
		defer s.close()
		s.change = func(name string, c *Config) {
			if name == "a" {
				c.Log = slog.New(slog.NewTextHandler(&said, nil))
			}
		}
		s.open("a")
		s.open("b")
		s.give("a", home)
		s.must("a", "x", tallyCommand{do: "add", n: 1})
		h, _ := s.look().Holding(home)
		if err := s.engines["b"].Own(t.Context(), home, h.Epoch); err != nil {
			t.Fatal(err)
		}
		picture := s.look() // as a's next renewal shows it
		now, _ := picture.Holding(home)
		s.engines["a"].Fenced(t.Context(), home, now.Epoch)
		synctest.Wait()
		got := said.String()
		for _, want := range []string{"level=WARN", "partition handed over", "epoch=1", "owner=b", "owner_epoch=2"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in %s", want, got)
			}
		}
		if strings.Contains(got, "level=ERROR") {
			t.Errorf("a take-over counts as an error: %s", got)
		}

		said.Reset()
		s.give("a", home)
		lost := domain.Reject(domain.CodeHistoryLost, "Gone.")
		if err := s.engines["a"].driver(home).send(t.Context(), inStop{reason: lost}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := said.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "partition stopped") {
			t.Errorf("lost history: %s", got)
		}
	})
}
