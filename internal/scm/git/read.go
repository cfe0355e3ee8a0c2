package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/scm"
)

// Resolve implements scm.Reader. The order is git's own: a full ref, then a branch, then
// a tag. The server's own refs have no names here.
func (m *Mirrors) Resolve(ctx context.Context, repo scm.Repo, name string) (scm.Resolution, error) {
	dir, err := m.existing(repo)
	if err != nil {
		return scm.Resolution{}, err
	}
	if scm.ValidCommit(name) {
		if err := m.has(ctx, dir, name); err != nil {
			return scm.Resolution{}, fmt.Errorf("resolve %s: %w", name, err)
		}
		return scm.Resolution{Commit: name}, nil
	}
	if !scm.ValidRefName(name) {
		return scm.Resolution{}, fmt.Errorf("resolve %.100q: malformed name: %w", name, scm.ErrNotFound)
	}
	candidates := []string{"refs/heads/" + name, "refs/tags/" + name}
	if strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/") {
		candidates = append([]string{name}, candidates...)
	}
	refs, err := m.list(ctx, dir, candidates...)
	if err != nil {
		return scm.Resolution{}, fmt.Errorf("resolve %s: %w", name, err)
	}
	for _, candidate := range candidates {
		// The pattern refs/heads/a also lists refs/heads/a/b, so names are compared.
		for _, ref := range refs {
			if ref.Name == candidate {
				return scm.Resolution{Ref: ref.Name, Commit: ref.Commit}, nil
			}
		}
	}
	return scm.Resolution{}, fmt.Errorf("resolve %s: %w", name, scm.ErrNotFound)
}

// Contains implements scm.Reader.
func (m *Mirrors) Contains(ctx context.Context, repo scm.Repo, commit string, refs []string) ([]string, error) {
	dir, err := m.existing(repo)
	if err != nil {
		return nil, err
	}
	if !scm.ValidCommit(commit) {
		return nil, fmt.Errorf("find refs of commit in %s: %w", repo.Repository, scm.ErrNotFound)
	}
	refs = slices.DeleteFunc(slices.Clone(refs), func(ref string) bool {
		return !strings.HasPrefix(ref, "refs/") || !scm.ValidRefName(ref)
	})
	if len(refs) == 0 {
		return nil, nil
	}
	args := append([]string{"for-each-ref", "--format=%(refname)", "--contains=" + commit}, refs...)
	out, err := m.run(ctx, call{dir: dir, timeout: readTimeout, args: args})
	var exit *exitError
	if errors.As(err, &exit) && m.has(ctx, dir, commit) != nil {
		return nil, fmt.Errorf("find refs of %s: %w", commit, scm.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("find refs of %s: %w", commit, err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSuffix(line, "\n"); slices.Contains(refs, name) {
			found = append(found, name)
		}
	}
	return found, nil
}

// Changed implements scm.Reader.
func (m *Mirrors) Changed(ctx context.Context, repo scm.Repo, before, after string, limit int,
) ([]string, bool, error) {
	dir, err := m.existing(repo)
	if err != nil {
		return nil, false, err
	}
	if !scm.ValidCommit(before) || !scm.ValidCommit(after) {
		return nil, false, fmt.Errorf("compare in %s: %w", repo.Repository, scm.ErrNotFound)
	}
	out, err := m.run(ctx, call{dir: dir, timeout: readTimeout, args: []string{
		"diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--end-of-options", before, after}})
	var exit *exitError
	if errors.As(err, &exit) && (m.has(ctx, dir, before) != nil || m.has(ctx, dir, after) != nil) {
		return nil, false, fmt.Errorf("compare %s with %s: %w", before, after, scm.ErrNotFound)
	}
	if err != nil {
		return nil, false, fmt.Errorf("compare %s with %s: %w", before, after, err)
	}
	paths := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(out) == 0 {
		paths = nil
	}
	if len(paths) > limit {
		return paths[:limit], true, nil
	}
	return paths, false, nil
}

// Read implements scm.Reader: one process answers for the commit, its folders and files.
func (m *Mirrors) Read(ctx context.Context, repo scm.Repo, commit string, q scm.Query,
) (c scm.Commit, files []scm.File, err error) {
	dir, err := m.existing(repo)
	if err != nil {
		return scm.Commit{}, nil, err
	}
	if !scm.ValidCommit(commit) {
		return scm.Commit{}, nil, fmt.Errorf("read commit in %s: %w", repo.Repository, scm.ErrNotFound)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	objects, err := m.open(ctx, dir)
	if err != nil {
		return scm.Commit{}, nil, fmt.Errorf("read commit %s: %w", commit, err)
	}
	defer objects.close()
	raw, err := objects.read(commit, "commit", objectBytesMax)
	if err != nil {
		return scm.Commit{}, nil, fmt.Errorf("read commit %s: %w", commit, err)
	}
	c, err = parseCommit(commit, raw)
	if err != nil {
		return scm.Commit{}, nil, fmt.Errorf("read commit %s: %w", commit, err)
	}
	left := q.TotalMax
	for _, folder := range q.Dirs {
		found, err := readFolder(objects, commit, folder, q, &left, q.FilesMax-len(files))
		if err != nil {
			return scm.Commit{}, nil, fmt.Errorf("read %s of %s: %w", folder, commit, err)
		}
		files = append(files, found...)
	}
	return c, files, nil
}

// modeLink marks a symbolic link in a tree.
const modeLink = "120000"

// readFolder reads the files of one folder that the query asks for.
//
// tidy:long the budget left to the caller travels with the query
func readFolder(objects *objects, commit, folder string, q scm.Query, left *int64, filesMax int,
) ([]scm.File, error) {
	raw, err := objects.read(commit+":"+folder, "tree", objectBytesMax)
	if errors.Is(err, scm.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(raw, len(commit)/2)
	if err != nil {
		return nil, err
	}
	var files []scm.File
	for _, entry := range entries {
		regular := entry.mode == "100644" || entry.mode == "100755" || entry.mode == "100664"
		wanted := slices.ContainsFunc(q.Suffixes, func(suffix string) bool {
			return strings.HasSuffix(entry.name, suffix)
		})
		link := entry.mode == modeLink
		if !regular && !link || !wanted {
			continue
		}
		path := folder + "/" + entry.name
		if len(files) == filesMax {
			return nil, fmt.Errorf("%s: over %d files: %w", path, q.FilesMax, scm.ErrTooLarge)
		}
		if link {
			files = append(files, scm.File{Path: path, Blob: entry.id, Link: true})
			continue
		}
		data, err := objects.read(entry.id, "blob", min(q.BytesMax, *left))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		*left -= int64(len(data))
		files = append(files, scm.File{Path: path, Blob: entry.id, Bytes: data})
	}
	return files, nil
}

// parseCommit reads a commit object.
//
// Trust: raw was written by whoever made the commit.
func parseCommit(id string, raw []byte) (scm.Commit, error) {
	head, message, _ := bytes.Cut(raw, []byte("\n\n"))
	if len(message) > scm.MessageBytesMax {
		message = message[:scm.MessageBytesMax]
	}
	c := scm.Commit{ID: id, Message: clean(message)}
	for line := range bytes.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		switch key {
		case "tree":
			if c.Tree == "" {
				c.Tree = value
			}
		case "parent":
			if scm.ValidCommit(value) {
				c.Parents = append(c.Parents, value)
			}
		case "author":
			c.Author = parsePerson(value)
		case "committer":
			c.Committer = parsePerson(value)
		}
	}
	if !scm.ValidCommit(c.Tree) {
		return scm.Commit{}, errors.New("malformed commit")
	}
	return c, nil
}

// parsePerson reads "Name <mail> seconds zone" and takes what it can.
func parsePerson(text string) scm.Person {
	name, rest, _ := strings.Cut(text, "<")
	mail, when, _ := strings.Cut(rest, ">")
	p := scm.Person{Name: clean([]byte(strings.TrimSpace(name))), Email: clean([]byte(mail))}
	seconds, _, _ := strings.Cut(strings.TrimSpace(when), " ")
	if n, err := strconv.ParseInt(seconds, 10, 64); err == nil && n >= 0 && n < 1<<40 {
		p.When = time.Unix(n, 0).UTC()
	}
	return p
}

// clean makes text valid UTF-8 without NUL, so that it can be stored and shown.
func clean(text []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(text), "\uFFFD"), "\x00", "\uFFFD")
}

type treeEntry struct{ mode, name, id string }

// parseTree reads a tree object; size is the length of an object id in bytes.
//
// Trust: raw was written by whoever made the commit.
func parseTree(raw []byte, size int) ([]treeEntry, error) {
	var entries []treeEntry
	for len(raw) > 0 {
		head, rest, ok := bytes.Cut(raw, []byte{0})
		mode, name, split := strings.Cut(string(head), " ")
		if !ok || !split || len(rest) < size {
			return nil, errors.New("malformed folder")
		}
		entries = append(entries, treeEntry{mode, name, fmt.Sprintf("%x", rest[:size])})
		raw = rest[size:]
	}
	return entries, nil
}
