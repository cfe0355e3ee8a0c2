package syntax

import (
	"strings"
	"testing"
)

// What it costs to read a file grows with the file and not with the tables: a thousand jobs
// don't make the tables a thousand times.
func TestReadingCostsLittlePerJob(t *testing.T) {
	text := func(jobs int) string {
		return "on: push\njobs:\n" +
			strings.Repeat("  a: {runs-on: linux, needs: b, env: {A: b}, steps: [{run: x, env: {A: b}}]}\n", jobs)
	}
	cost := func(jobs int) float64 {
		lines := strings.Split(text(jobs), "\n")
		for i := range lines {
			lines[i] = strings.Replace(lines[i], "  a:", "  a"+strings.Repeat("x", i%50)+strings.Repeat("y", i/50)+":", 1)
		}
		root, _ := load(t, strings.Join(lines, "\n"))
		return testing.AllocsPerRun(5, func() { Read(root, NewReports("w.yml")) })
	}
	few, many := cost(10), cost(110)
	if per := (many - few) / 100; per > 60 {
		t.Errorf("%.0f allocations a job", per)
	} else {
		t.Logf("%.0f allocations a job", per)
	}
}
