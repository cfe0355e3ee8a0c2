package capture

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// status is what differs between HEAD, the index and the working tree.
type status struct {
	paths      []string // to be taken from the working tree as they are now
	removed    []string // gone from the working tree
	nested     []string // repositories inside this one that are not its submodules
	submodules []string // submodules with changes of their own that can't be captured
	unmerged   []string // files with conflicts
	staged     bool     // the index differs from HEAD
	head       string   // HEAD's commit; "(initial)" before the first one
}

func (s *status) clean() bool { return len(s.paths)+len(s.removed) == 0 && !s.staged }

// readStatus asks git what changed in the whole repository that dir is in. It does not
// touch the index: git's own refresh of it is an optional lock, which is off.
func readStatus(ctx context.Context, dir string) (*status, error) {
	out, err := git(ctx, dir, call{args: []string{"status", "--porcelain=v2", "-z", "--untracked-files=all",
		"--ignored=no", "--ignore-submodules=none", "--no-renames", "--branch", "--no-ahead-behind"}})
	if err != nil {
		return nil, fmt.Errorf("read status of %s: %w", dir, err)
	}
	s := new(status)
	for entry := range strings.SplitSeq(out, "\x00") {
		if entry == "" {
			continue
		}
		if err := s.add(entry); err != nil {
			return nil, fmt.Errorf("read status of %s: %w", dir, err)
		}
	}
	if n := len(s.paths) + len(s.removed); n > changesMax {
		return nil, fmt.Errorf("%w: %d changed or new files, at most %d are sent; add what is built to .gitignore",
			ErrTooLarge, n, changesMax)
	}
	return s, nil
}

// add reads one entry: "1 XY sub mH mI mW hH hI path", "u XY sub m1 m2 m3 mW h1 h2 h3
// path" or "? path".
func (s *status) add(entry string) error {
	kind, rest, _ := strings.Cut(entry, " ")
	fields := map[string]int{"1": 8, "u": 10, "?": 1, "#": 1}[kind]
	field := strings.SplitN(rest, " ", fields)
	if fields == 0 || len(field) != fields {
		return fmt.Errorf("unexpected line %.100q", entry)
	}
	name := field[fields-1]
	switch kind {
	case "?":
		// git does not look into a folder that is a repository of its own, and names the
		// folder instead.
		if strings.HasSuffix(name, "/") {
			s.nested = append(s.nested, strings.TrimSuffix(name, "/"))
			return nil
		}
	case "u":
		s.unmerged = append(s.unmerged, name)
		if field[0][1] == 'D' {
			// Deleted on one side: the working tree says whether the file is there now.
			s.removed = append(s.removed, name)
		}
	case "1":
		if field[0][0] != '.' {
			s.staged = true
		}
		if field[0][1] == 'D' {
			s.removed = append(s.removed, name)
			return nil
		}
		if sub := field[1]; sub[0] == 'S' {
			if sub[2] == 'M' || sub[3] == 'U' {
				s.submodules = append(s.submodules, name)
			}
			if sub[1] != 'C' {
				return nil // its commit is the recorded one
			}
		}
		if field[0][1] == '.' {
			return nil // the working tree equals the index
		}
	case "#":
		if commit, ok := strings.CutPrefix(name, "branch.oid "); ok {
			s.head = commit
		}
		return nil
	}
	s.paths = append(s.paths, name)
	return nil
}

// notes are sentences about what a capture leaves out or takes as it is.
func (s *status) notes() []string {
	var notes []string
	note := func(paths []string, one, many string) {
		switch {
		case len(paths) == 1:
			notes = append(notes, paths[0]+" "+one)
		case len(paths) > 1:
			notes = append(notes, named(paths)+" "+many)
		}
	}
	note(s.nested, "is a git repository of its own and no submodule, so its files were not captured",
		"are git repositories of their own and no submodules, so their files were not captured")
	note(s.submodules, "is a submodule with uncommitted changes, which were not captured",
		"are submodules with uncommitted changes, which were not captured")
	note(s.unmerged, "has merge conflicts and was captured with its conflict markers",
		"have merge conflicts and were captured with their conflict markers")
	return notes
}

func named(paths []string) string {
	if len(paths) <= namedMax {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(paths[:namedMax], ", "), len(paths)-namedMax)
}

// measure refuses changes that are too large before anything is read.
func (t *Tree) measure(s *status) error {
	var total int64
	var large []string
	for _, name := range s.paths {
		at, err := os.Lstat(filepath.Join(t.Root, name))
		if err != nil || !at.Mode().IsRegular() {
			continue // deleted, a link or a submodule: nothing to read
		}
		total += at.Size()
		if at.Size() > fileBytesMax {
			large = append(large, fmt.Sprintf("%s (%d MiB)", name, at.Size()>>20))
		}
	}
	slices.Sort(large)
	switch {
	case len(large) > 0:
		return fmt.Errorf("%w: %s; at most %d MiB a file are sent; add it to .gitignore or commit it",
			ErrTooLarge, named(large), fileBytesMax>>20)
	case total > changesBytesMax:
		return fmt.Errorf("%w: %d MiB of changed and new files, at most %d MiB are sent; add what is built to .gitignore",
			ErrTooLarge, total>>20, changesBytesMax>>20)
	}
	return nil
}
