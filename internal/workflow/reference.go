package workflow

import (
	"fmt"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// badAction says what is wrong with the uses of a step; empty when nothing is.
func badAction(text string) string {
	for _, prefix := range []string{"docker://", "./", `.\`, "$/"} {
		if strings.HasPrefix(text, prefix) {
			return ""
		}
	}
	path, version, pinned := strings.Cut(text, "@")
	segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
	switch {
	case len(segments) < 2 || strings.HasPrefix(path, "/"):
		return "it names no repository"
	case !pinned || version == "":
		return "it names no version"
	case strings.Contains(version, "@"), strings.ContainsAny(segments[0], ":$."):
		return "it is no reference"
	}
	return ""
}

// badWorkflow says what is wrong with the uses of a job; empty when nothing is.
func badWorkflow(text string) string {
	path, version, pinned := strings.Cut(text, "@")
	local := strings.HasPrefix(text, "./") || strings.HasPrefix(text, "$/")
	folder := path[:max(strings.LastIndexByte(path, '/'), 0)]
	owned := strings.HasSuffix(folder, "/"+FolderGitHub) || strings.HasSuffix(folder, "/"+FolderFairlead)
	switch {
	case !strings.HasSuffix(path, ".yml") && !strings.HasSuffix(path, ".yaml"):
		return "it names no .yml file"
	case !owned:
		return "the file is not in " + FolderGitHub
	case local && pinned:
		return "a file of the same repository has no version"
	case !local && (!pinned || version == ""):
		return "it names no version"
	case !local && strings.Count(folder, "/") != 3:
		return "it names no repository"
	}
	return ""
}

// checkCall checks the reference of a job that calls a workflow.
func (c *compiler) checkCall(job *syntax.Job) {
	if job.Call == nil {
		return
	}
	if why := badWorkflow(job.Call.Uses.Value); why != "" {
		c.reports.Add(syntax.CodeInvalidReference, job.Call.Uses.Range,
			fmt.Sprintf("%s is not a workflow that can be called: %s", syntax.Quote(job.Call.Uses.Value), why),
			"write ./.github/workflows/FILE.yml, or OWNER/REPOSITORY/.github/workflows/FILE.yml@VERSION")
	}
}

// group checks the name of a group of runners: plain, or with its owner before a slash.
func (c *compiler) group(n *syntax.Node) {
	if n == nil || c.template(n, jobScope("runs-on")) == nil || syntax.IsExpression(n) {
		return
	}
	owner, name, owned := strings.Cut(n.Value, "/")
	known := map[string]bool{"org": true, "organization": true, "ent": true, "enterprise": true}
	if owned && (!known[owner] || name == "" || strings.Contains(name, "/")) {
		c.reports.Add(syntax.CodeInvalidValue, n.Range, syntax.Quote(n.Value)+" can't be the name of a group of runners",
			"write NAME, organization/NAME or enterprise/NAME")
	}
}
