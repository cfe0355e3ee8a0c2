package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// Workflows of the repository that is measured with.
const (
	oneJob     = "one.yml"     // one job with one empty step
	chainJob   = "chain.yml"   // ten such jobs, one after the other
	wideJob    = "wide.yml"    // ten such jobs beside each other
	fleetJob   = "fleet.yml"   // of a shape that was asked for
	backlogJob = "backlog.yml" // ten jobs that wait for a label which nobody has
	jobsMany   = 10
)

// workflowText writes a workflow of n jobs; chained ones need the one before.
func workflowText(n int, chained bool) string {
	var out strings.Builder
	out.WriteString("on: workflow_dispatch\njobs:\n")
	for i := range n {
		fmt.Fprintf(&out, "  job-%d:\n    runs-on: ubuntu-latest\n", i)
		if chained && i > 0 {
			fmt.Fprintf(&out, "    needs: job-%d\n", i-1)
		}
		out.WriteString("    steps:\n      - run: \":\"\n")
	}
	return out.String()
}

// workflowFor writes a workflow of one job for a runner with a label.
func workflowFor(label string) string {
	return "on: workflow_dispatch\njobs:\n  job:\n    runs-on: " + label + "\n    steps:\n      - run: \":\"\n"
}

// Shapes of a run's graph.
const (
	ShapeFan   = "fan"   // the first, then all but the last beside each other, then the last
	ShapeChain = "chain" // each needs the one before
	ShapeWide  = "wide"  // none needs another
)

// shapeText writes a workflow of n jobs of a shape.
func shapeText(shape string, n int) string {
	if shape != ShapeFan || n < 3 {
		return workflowText(n, shape != ShapeWide)
	}
	var out strings.Builder
	out.WriteString("on: workflow_dispatch\njobs:\n")
	var middle []string
	for i := range n {
		fmt.Fprintf(&out, "  job-%d:\n    runs-on: ubuntu-latest\n", i)
		switch {
		case i == n-1:
			fmt.Fprintf(&out, "    needs: [%s]\n", strings.Join(middle, ", "))
		case i > 0:
			out.WriteString("    needs: job-0\n")
			middle = append(middle, fmt.Sprintf("job-%d", i))
		}
		out.WriteString("    steps:\n      - run: \":\"\n")
	}
	return out.String()
}

// repository makes a small git repository with the workflows, and an editor's worth of
// files, so that looking for changes costs what it costs.
func (s *stage) repository(ctx context.Context, name string, further map[string]string) (string, error) {
	root := filepath.Join(s.folder, name)
	files := map[string]string{
		".github/workflows/" + oneJob:   workflowText(1, false),
		".github/workflows/" + chainJob: workflowText(jobsMany, true),
		".github/workflows/" + wideJob:  workflowText(jobsMany, false),
	}
	for name, text := range further {
		files[".github/workflows/"+name] = text
	}
	for i := range 200 {
		files[fmt.Sprintf("source/part%d/file%d.txt", i%20, i)] = strings.Repeat(fmt.Sprintf("line of file %d\n", i), 100)
	}
	return root, commit(ctx, root, files)
}

// commit makes a repository of files, named by their paths, in a folder.
func commit(ctx context.Context, root string, files map[string]string) error {
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
	}
	origin := "https://example.invalid/bench/" + filepath.Base(root) + ".git" // a client names it by that
	for _, args := range [][]string{{"init", "--quiet", "--initial-branch=main"}, {"add", "--all"},
		{"remote", "add", "origin", origin}, // as almost every repository has one
		{"-c", "user.name=bench", "-c", "user.email=bench@fairlead.invalid", "commit", "--quiet", "--message=Sample"}} {
		if err := git(ctx, root, args...); err != nil {
			return fmt.Errorf("make repository: %w", err)
		}
	}
	return nil
}

// accepted is the part of `fairlead run --json` that is read here.
type accepted struct {
	Event      string  `json:"event"`
	Run        string  `json:"run"`
	Outcome    *string `json:"outcome"`
	Repository string  `json:"repository"`
	Commit     string  `json:"commit"`
}

// introduce registers the repository, with further workflows by their names, and sends its
// commit, as a first run does.
func (s *stage) introduce(ctx context.Context, further map[string]string) (accepted, error) {
	return s.introduceAs(ctx, "sample", further)
}

func (s *stage) introduceAs(ctx context.Context, name string, further map[string]string) (accepted, error) {
	root, err := s.repository(ctx, name, further)
	if err != nil {
		return accepted{}, err
	}
	c, err := s.server.call(ctx, s.options, root, "run", "--workflow", oneJob, "--json", "--detach")
	if err != nil {
		return accepted{}, err
	}
	var first accepted
	if err := json.Unmarshal(c.out, &first); err != nil || first.Commit == "" {
		return accepted{}, fmt.Errorf("read the answer of run --json: %q: %w", c.out, err)
	}
	return first, nil
}

// ask asks for one more run over the API.
func (s *stage) ask(ctx context.Context, of accepted, workflow string) (*fairleadv1.Run, error) {
	answer, err := s.server.client.Runs.CreateRun(ctx, &fairleadv1.CreateRunRequest{Repository: of.Repository,
		Commit: of.Commit, Ref: "refs/heads/main", Workflow: workflow, Event: "workflow_dispatch"})
	if err != nil {
		return nil, fmt.Errorf("ask for a run of %s: %w", workflow, err)
	}
	return answer.GetRun(), nil
}
