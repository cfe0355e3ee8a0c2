package workflow

import (
	"strings"
	"testing"
)

// TestHintNamesEventsOnlyIfThereAreAny: a list of nothing is no next step.
func TestHintNamesEventsOnlyIfThereAreAny(t *testing.T) {
	t.Parallel()
	for on, want := range map[string]bool{"schedule": false, "workflow_dispatch": true} {
		text := "on: " + on + "\njobs: {a: {runs-on: x, steps: [{run: echo}]}}\n"
		_, found := Compile(Source{Path: "ci.yml", Text: []byte(text)}, Inputs{Event: EventPush}, Limits{})
		seen := false
		for _, d := range found {
			if d.Code != "event_not_declared" {
				continue
			}
			seen = true
			if got := strings.Contains(d.Hint, "its events: "); got != want || strings.HasSuffix(d.Hint, ": ") {
				t.Errorf("on: %s: hint %q", on, d.Hint)
			}
		}
		if !seen {
			t.Errorf("on: %s: no event_not_declared in %v", on, found)
		}
	}
}
