package workflow

import (
	"maps"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Reference names a file or folder of a repository at a revision, as uses: has it. The zero
// Repository is the run's own commit, which needs no revision.
type Reference struct {
	Repository string // OWNER/NAME
	Revision   string // a commit, tag or branch, as it is written
	Path       string // of the workflow's file or of the action's folder, with slashes; "": the root
}

// String is the reference as people write it.
func (r Reference) String() string {
	if r.Repository == "" {
		return "./" + r.Path
	}
	out := r.Repository
	if r.Path != "" {
		out += "/" + r.Path
	}
	return out + "@" + r.Revision
}

// Source is the repository at its revision, which is what gets resolved; "" for the run's own.
func (r Reference) Source() string {
	if r.Repository == "" {
		return ""
	}
	return r.Repository + "@" + r.Revision
}

// At is the reference at a commit.
func (r Reference) At(commit string) Reference {
	r.Revision = commit
	return r
}

// readReference reads the text of a uses: that names no image, in a file of the repository at the
// revision of from. ok is false for a text that badAction or badWorkflow refuses.
func readReference(text string, from Reference) (r Reference, ok bool) {
	for _, prefix := range []string{"./", `.\`, "$/"} {
		if path, local := strings.CutPrefix(text, prefix); local {
			path = strings.Trim(strings.ReplaceAll(path, `\`, "/"), "/")
			return Reference{Repository: from.Repository, Revision: from.Revision, Path: path}, true
		}
	}
	path, revision, pinned := strings.Cut(text, "@")
	segments := strings.SplitN(strings.Trim(strings.ReplaceAll(path, `\`, "/"), "/"), "/", 3)
	if !pinned || len(segments) < 2 {
		return Reference{}, false
	}
	r = Reference{Repository: segments[0] + "/" + segments[1], Revision: revision}
	if len(segments) == 3 {
		r.Path = segments[2]
	}
	return r, true
}

// ParseReference reads a reference as String writes it.
//
// Trust: text may come from anybody.
func ParseReference(text string) (r Reference, ok bool) {
	if badAction(text) != "" || strings.HasPrefix(text, imagePrefix) {
		return Reference{}, false
	}
	return readReference(text, Reference{})
}

// Component is what a reference was resolved to. Problem says why it was not; then there is
// nothing else.
type Component struct {
	Reference Reference
	Commit    string // of its repository; "" for the run's own
	Tree      string // digest of the commit's tree
	File      string // the workflow's path, or that of the action's action.yml
	Text      []byte // of that file
	Problem   string
}

// Digest is what the component was resolved to as text; "" for the run's own commit.
func (c Component) Digest() string {
	if c.Commit == "" {
		return ""
	}
	return "git:" + c.Commit + ":" + c.Tree
}

// Components are all references that a compilation follows, by their text. A nil map stands for a
// look at the file alone, which follows none: references are left as they are.
type Components map[string]Component

// find looks a reference up. resolving is false where nothing is followed.
func (c Components) find(r Reference) (found Component, resolving bool) {
	found, ok := c[r.String()]
	if !ok && c != nil {
		found = Component{Reference: r, Problem: "it was not resolved"}
		if r.Repository == "" {
			found.Problem = "the commit has no such file"
		}
	}
	return found, c != nil
}

// sortedKeys are the keys of a map in their order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Wanted lists the references that a compilation of the file would follow and that are not in
// in.Components, those of known components included. Ask until there are none.
//
// Trust: src and the texts of components may come from anybody. The cost is bounded by lim.
func Wanted(src Source, in Inputs, lim Limits) []Reference {
	if in.Components == nil {
		in.Components = Components{}
	}
	lim = lim.lowered()
	return missing(needsOf(src.Path, src.Text, Reference{Path: src.Path}, 0, lim), in.Components, lim)
}

// need is a component that a file names.
type need struct {
	reference Reference
	workflow  bool // that a job calls; an action otherwise
	depth     int
}

// needsOf are those of a workflow's file: actions of its steps, and workflows that its jobs call.
func needsOf(path string, text []byte, of Reference, depth int, lim Limits) (out []need) {
	reports := syntax.NewReports(path)
	root := syntax.Load(text, lim.bounds(), reports)
	if root == nil {
		return nil
	}
	for _, job := range syntax.Read(root, reports).Jobs {
		if job.Call != nil && badWorkflow(job.Call.Uses.Value) == "" {
			if r, ok := readReference(job.Call.Uses.Value, of); ok {
				out = append(out, need{r, true, depth + 1})
			}
		}
		out = appendSteps(out, job.Steps, of, 1)
	}
	return out
}

func appendSteps(out []need, steps []*syntax.Step, from Reference, depth int) []need {
	for _, step := range steps {
		if r, ok := actionReference(step.Uses, from); ok {
			out = append(out, need{r, false, depth})
		}
	}
	return out
}

// missing walks breadth first, so that each component is met where it is nested least.
func missing(waiting []need, known Components, lim Limits) (out []Reference) {
	seen := make(map[string]bool)
	for len(waiting) > 0 {
		next := waiting[0]
		waiting = waiting[1:]
		name := next.reference.String()
		deepest := actionDepthMax + 1
		if next.workflow {
			deepest = callDepthMax + 1
		}
		if seen[name] || next.depth > deepest {
			continue
		}
		seen[name] = true
		found, ok := known[name]
		switch {
		case !ok:
			out = append(out, next.reference)
		case found.Problem != "":
		case next.workflow:
			waiting = append(waiting, needsOf(found.File, found.Text, next.reference, next.depth, lim)...)
		default:
			if action := readAction(found, lim, syntax.NewReports(found.File)); action != nil {
				waiting = appendSteps(waiting, action.Steps, next.reference, next.depth+1)
			}
		}
	}
	return out
}

// actionReference is the action that a step names; ok is false when that is no folder of a
// repository, or is built in. Within an action ./ is the run's own commit, as elsewhere, and $/ the
// repository of the action.
func actionReference(uses *syntax.Node, from Reference) (r Reference, ok bool) {
	if uses == nil {
		return Reference{}, false
	}
	text := scalarText(uses)
	if badAction(text) != "" || strings.HasPrefix(text, imagePrefix) {
		return Reference{}, false
	}
	if !strings.HasPrefix(text, "$/") {
		from = Reference{}
	}
	r, ok = readReference(text, from)
	return r, ok && !isCheckout(r)
}

const imagePrefix = "docker://"

// isCheckout reports whether it is the one action that is built in.
func isCheckout(r Reference) bool {
	return strings.EqualFold(r.Repository, "actions/checkout") && r.Path == ""
}
