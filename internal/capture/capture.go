package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// identity is the author of every captured tree. It is nobody: who asked for the run is
// in the run's own record, and the same tree must be the same commit for everybody.
const (
	identityName = "Fairlead working tree"
	identityMail = "working-tree@fairlead.invalid"
)

// Capture is an immutable commit that stands for a working tree.
type Capture struct {
	Commit   string
	Captured bool     // made of uncommitted changes; otherwise Commit is HEAD
	Ref      string   // full ref of a committed HEAD that is on a branch
	Notes    []string // what a person should know: what was left out, and why

	tree    *Tree
	scratch string // temporary folder with the objects; "" when there are none
}

// Take names the commit of the tree: HEAD when nothing changed (one git process), else a
// commit of the tree as it is now, untracked files included, ignored ones not. committed
// asks for HEAD whatever the working tree looks like.
//
// Close must be called when the capture was pushed or is not needed.
func (t *Tree) Take(ctx context.Context, committed bool) (*Capture, error) {
	if t.Bare || committed {
		if t.Head == "" {
			return nil, fmt.Errorf("%w: %s has no commit yet", ErrNoCommit, t.Root)
		}
		return &Capture{Commit: t.Head, Ref: t.Branch, tree: t}, nil
	}
	changes := t.changes
	t.changes = nil // a second look is a new one
	if changes == nil {
		changes = func() (*status, error) { return readStatus(ctx, t.Root) }
	}
	s, err := changes()
	if err != nil {
		return nil, err
	}
	if s.clean() {
		if t.Head == "" {
			return nil, fmt.Errorf("%w: %s has no commit and no file yet", ErrNoCommit, t.Root)
		}
		return &Capture{Commit: t.Head, Ref: t.Branch, Notes: s.notes(), tree: t}, nil
	}
	if err := t.measure(s); err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "fairlead-capture-")
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", t.Root, err)
	}
	c := &Capture{Captured: true, Notes: s.notes(), tree: t, scratch: scratch}
	if err := c.make(ctx, s); err != nil {
		return nil, errors.Join(fmt.Errorf("capture %s: %w", t.Root, err), c.Close())
	}
	if c.Commit == t.Head {
		// Staged and undone again: the tree is HEAD's own.
		c.Captured, c.Ref = false, t.Branch
	}
	return c, nil
}

// Close removes the temporary objects.
func (c *Capture) Close() error {
	if c.scratch == "" {
		return nil
	}
	if err := os.RemoveAll(c.scratch); err != nil {
		return fmt.Errorf("remove capture: %w", err)
	}
	c.scratch = ""
	return nil
}

// env lets git see the temporary objects together with the repository's own, and write
// only to the temporary ones.
func (c *Capture) env() []string {
	if c.scratch == "" {
		return nil
	}
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(c.tree.Objects) + `"`
	return []string{
		"GIT_OBJECT_DIRECTORY=" + filepath.Join(c.scratch, "objects"),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quoted,
		"GIT_INDEX_FILE=" + filepath.Join(c.scratch, "index"),
	}
}

// make writes the commit into the temporary objects.
func (c *Capture) make(ctx context.Context, s *status) error {
	if err := os.MkdirAll(filepath.Join(c.scratch, "objects"), 0o700); err != nil {
		return err
	}
	if err := copyIndex(c.tree.Index, filepath.Join(c.scratch, "index")); err != nil {
		return err
	}
	// Removals go first and without a look at the working tree: what was a folder may be
	// a file or a link there now.
	if err := c.update(ctx, s.removed, "--force-remove"); err != nil {
		return err
	}
	// Like "add": the working tree's content through the user's own filters.
	if err := c.update(ctx, s.paths, "--add", "--remove", "--replace"); err != nil {
		return err
	}
	var (
		both    sync.WaitGroup
		head    headCommit
		headErr error
	)
	both.Go(func() { head, headErr = c.head(ctx) })
	tree, err := c.git(ctx, call{args: []string{"write-tree"}})
	both.Wait()
	if err := errors.Join(err, headErr); err != nil {
		return err
	}
	tree = strings.TrimSpace(tree)
	if tree == head.tree {
		c.Commit = c.tree.Head
		return nil
	}
	args, message := []string{"commit-tree", tree}, "Working tree without a commit\n"
	if c.tree.Head != "" {
		args = append(args, "-p", c.tree.Head)
		message = "Working tree on " + c.tree.Head + "\n"
	}
	commit, err := c.git(ctx, call{args: args, stdin: strings.NewReader(message), env: []string{
		"GIT_AUTHOR_NAME=" + identityName, "GIT_AUTHOR_EMAIL=" + identityMail, "GIT_AUTHOR_DATE=" + head.date,
		"GIT_COMMITTER_NAME=" + identityName, "GIT_COMMITTER_EMAIL=" + identityMail, "GIT_COMMITTER_DATE=" + head.date,
	}})
	if err != nil {
		return err
	}
	c.Commit = strings.TrimSpace(commit)
	if !commitID().MatchString(c.Commit) {
		return fmt.Errorf("unexpected answer of git %.60q", c.Commit)
	}
	return nil
}

// update brings paths of the index copy to what the working tree has.
func (c *Capture) update(ctx context.Context, paths []string, options ...string) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := c.git(ctx, call{stdin: strings.NewReader(strings.Join(paths, "\x00") + "\x00"),
		args: append(append([]string{"update-index", "-z"}, options...), "--stdin")})
	return err
}

func (c *Capture) git(ctx context.Context, run call) (string, error) {
	run.env = append(run.env, c.env()...)
	return git(ctx, c.tree.Root, run)
}

// headCommit is what a capture takes from HEAD.
type headCommit struct{ tree, date string }

// head reads HEAD's tree and time. Without a commit the time is the first second there
// is: a capture must not depend on when it was made.
func (c *Capture) head(ctx context.Context) (headCommit, error) {
	h := headCommit{date: "@0 +0000"}
	if c.tree.Head == "" {
		return h, nil
	}
	raw, err := c.git(ctx, call{args: []string{"cat-file", "commit", c.tree.Head}})
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(raw) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			break
		}
		if tree, ok := strings.CutPrefix(line, "tree "); ok {
			h.tree = tree
		}
		if _, when, ok := strings.Cut(line, "> "); ok && strings.HasPrefix(line, "committer ") {
			h.date = "@" + when
		}
	}
	return h, nil
}

// copyIndex copies the user's index: the copy already knows every file, so only what
// changed is read. The copy keeps the time of the original: git compares it with a
// file's time to tell whether the file may have changed in the same second, and with a
// newer time such a change would be missed. A repository without an index starts with
// an empty one.
func copyIndex(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	at, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, at.ModTime(), at.ModTime())
}
