package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestWhatNeedsAServerIsHandedOver: a program without a server becomes one that has it, and has
// printed nothing before; what it can do itself it does.
func TestWhatNeedsAServerIsHandedOver(t *testing.T) {
	data := t.TempDir()
	for line, handed := range map[string]bool{
		"up": true, "server": true, "doctor": true, "doctor --json": true, "admin verify": true, "admin tally": true,
		"admin rebuild-projections": true, "admin backup x": true, "admin restore x": true,
		"version": false, "lint": false, "runs": false, "up --isolation none": false, "up --help": false,
	} {
		var out, said bytes.Buffer
		asked := 0
		code := Run(t.Context(), Program{
			Whole: func() error { asked++; return errors.New("no such program") },
			Args:  append([]string{"--data", data, "--patience", "0"}, strings.Fields(line)...), Stdout: &out, Stderr: &said,
			Getenv: func(string) string { return "" },
		})
		if (asked == 1) != handed || asked > 1 {
			t.Errorf("%s: handed over %d times, want %v; exit code %d: %s", line, asked, handed, code, said.String())
		}
		if handed && (code != ExitFault || said.String() != "fairlead: no such program\n") {
			t.Errorf("%s: exit code %d, said %q", line, code, said.String())
		}
	}
}
