package workflow

import "strings"

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
