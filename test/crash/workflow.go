package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// stepScript is what every job does: it marks the world, prints numbered lines, and ends.
// The pause is a read from a pipe that never gives anything, because starting a process
// twenty times a second for each job would be most of the load.
const stepScript = `
say() {
  read -r up _ < /proc/uptime
  printf '%s %s %s %s %s\n' "$1" "$FAIRLEAD_JOB" "$FAIRLEAD_ATTEMPT" "$up" "$RUNNER_NAME" >> "$WORLD"
}
exec {tick}<> <(:)
say begin
i=0
while [ "$i" -lt "$LINES_OF_IT" ]; do
  i=$((i+1))
  echo "line $i of $FAIRLEAD_ATTEMPT, padded so that it is worth a byte or two in the log"
  if [ $((i % 4)) -eq 0 ]; then say act; fi
  read -rt 0.05 -u "$tick" || :
done
`

// lineOf is what a job prints as its nth line.
func lineOf(attempt string, n int) string {
	return fmt.Sprintf("line %d of %s, padded so that it is worth a byte or two in the log\n", n, attempt)
}

// sort is a kind of run that clients ask for.
type sort struct {
	file   string
	weight int
	jobs   []kindOfJob
}

// kindOfJob is one job of a workflow.
type kindOfJob struct {
	key, needs string
	lines      int
	effectful  bool
	checkout   bool
	fails      bool // in the first round
}

// sorts are all of them. Together they hold what can go wrong: chains, jobs that act on
// the outside, jobs that fetch, jobs that fail and are retried, jobs to be cancelled.
var sorts = []sort{
	{file: "chain.yml", weight: 4, jobs: []kindOfJob{
		{key: "first", lines: 12}, {key: "second", needs: "first", lines: 20}}},
	{file: "outside.yml", weight: 4, jobs: []kindOfJob{{key: "publish", lines: 70, effectful: true}}},
	{file: "fetch.yml", weight: 2, jobs: []kindOfJob{{key: "fetch", lines: 8, checkout: true}}},
	{file: "fails.yml", weight: 2, jobs: []kindOfJob{{key: "shaky", lines: 10, fails: true}}},
	{file: "long.yml", weight: 3, jobs: []kindOfJob{{key: "long", lines: 160}, {key: "beside", lines: 16}}},
}

// sortOf draws one.
func sortOf(random *rand.Rand) sort {
	total := 0
	for _, s := range sorts {
		total += s.weight
	}
	n := random.IntN(total)
	for _, s := range sorts {
		if n -= s.weight; n < 0 {
			return s
		}
	}
	return sorts[0]
}

func (s sort) job(key string) (kindOfJob, bool) {
	for _, j := range s.jobs {
		if j.key == key {
			return j, true
		}
	}
	return kindOfJob{}, false
}

func (s sort) text(world string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "on: workflow_dispatch\nenv: {WORLD: %q, LC_ALL: C}\njobs:\n", world)
	for _, j := range s.jobs {
		fmt.Fprintf(&out, "  %s:\n    runs-on: default\n", j.key)
		if j.needs != "" {
			fmt.Fprintf(&out, "    needs: %s\n", j.needs)
		}
		if j.effectful {
			out.WriteString("    effects: external\n")
		}
		out.WriteString("    timeout-minutes: 15\n")
		out.WriteString("    retry: {max: 10, on: [runner_lost, platform_error], backoff: 1}\n")
		fmt.Fprintf(&out, "    env: {LINES_OF_IT: \"%d\"}\n    steps:\n", j.lines)
		if j.checkout {
			out.WriteString("      - checkout\n      - shell: bash\n")
			out.WriteString("        run: test \"$(cat content)\" = \"what was committed\"\n")
		}
		out.WriteString("      - shell: bash\n        run: |\n")
		script := stepScript
		if j.effectful {
			script += "say effect\n"
		}
		if j.fails {
			script += "if [ \"$GITHUB_RUN_ATTEMPT\" = 1 ]; then say end; exit 7; fi\n"
		}
		script += "say end\n"
		for line := range strings.Lines(strings.TrimPrefix(script, "\n")) {
			out.WriteString("          " + line)
		}
	}
	return out.String()
}

// repository makes the git repository of a siege.
func repository(dir, world string, env []string) error {
	files := map[string]string{"content": "what was committed\n"}
	for _, s := range sorts {
		files[filepath.Join(".fairlead", "workflows", s.file)] = s.text(world)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		if _, err := run(dir, env, append([]string{"git"}, args...)...); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
	}
	return nil
}
