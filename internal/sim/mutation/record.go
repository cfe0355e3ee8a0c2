package mutation

import (
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	recordBegins = "<!-- mutations: written by make sim-mutations RECORD=1 -->\n"
	recordEnds   = "<!-- end of mutations -->\n"
)

// Record writes the table of a report, with its date, between the marks of a page.
func Record(path string, r *Report, at time.Time) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("record mutations: %w", err)
	}
	before, rest, ok := strings.Cut(string(text), recordBegins)
	_, after, closed := strings.Cut(rest, recordEnds)
	if !ok || !closed {
		return fmt.Errorf("record mutations in %s: the marks of the table are not there", path)
	}
	table := fmt.Sprintf("\n%d of %d mutations caught on %s; the unbroken build was clean in the same %d worlds.\n\n%s\n",
		r.Caught(), len(r.Verdicts), at.UTC().Format(time.DateOnly), r.Clean, r.Markdown())
	if len(r.Dirty) > 0 {
		return fmt.Errorf("record mutations in %s: the unbroken build is not clean", path)
	}
	if err := os.WriteFile(path, []byte(before+recordBegins+table+recordEnds+after), 0o644); err != nil {
		return fmt.Errorf("record mutations: %w", err)
	}
	return nil
}
