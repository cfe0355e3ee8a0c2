package capture

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
)

// plain looks at a repository as most are, without git: a folder ".git" in the folder itself or
// above it, with a configuration of the usual kind. It returns nil for every other one, and for
// whatever it is not sure of; then git is asked. What HEAD is, and whether git accepts the
// repository at all, it leaves to git: the question of what changed answers both.
//
// A program that git need not start is a sixth of what the whole client takes before its request.
func plain(dir string) *Tree {
	root, err := filepath.Abs(dir)
	if err == nil {
		root, err = filepath.EvalSymlinks(root) // as git names it
	}
	if err != nil || os.Getenv("GIT_DISCOVERY_ACROSS_FILESYSTEM") != "" {
		return nil
	}
	for device := deviceOf(root); ; root = filepath.Dir(root) {
		if device == 0 || deviceOf(root) != device || exists(filepath.Join(root, "HEAD")) {
			return nil // another file system, or a repository without a working tree
		}
		if exists(filepath.Join(root, ".git")) {
			break
		}
		if root == filepath.Dir(root) {
			return nil
		}
	}
	t := &Tree{Root: root, GitDir: filepath.Join(root, ".git")}
	t.Objects, t.Index = filepath.Join(t.GitDir, "objects"), filepath.Join(t.GitDir, "index")
	for _, name := range []string{t.GitDir, t.Objects, filepath.Join(t.GitDir, "refs")} {
		if at, err := os.Lstat(name); err != nil || !at.IsDir() {
			return nil
		}
	}
	for _, name := range []string{"commondir", "shallow", "config.worktree"} {
		if exists(filepath.Join(t.GitDir, name)) {
			return nil
		}
	}
	head, ok := readPlain(filepath.Join(t.GitDir, "HEAD"))
	if !ok {
		return nil
	}
	ref, on := strings.CutPrefix(strings.TrimSuffix(head, "\n"), "ref: ")
	switch {
	case on && branchRef().MatchString(ref):
		t.Branch = ref
	case on || !commitID().MatchString(strings.TrimSuffix(head, "\n")):
		return nil
	}
	config, ok := readPlain(filepath.Join(t.GitDir, "config"))
	if !ok || !t.configured(config) {
		return nil
	}
	return t
}

// configured takes what matters of the repository's configuration. False means that there is
// something in it that only git understands.
func (t *Tree) configured(text string) bool {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", line[0] == '#', line[0] == ';':
			continue
		case strings.HasSuffix(line, `\`):
			return false // it goes on in the next line
		case line[0] == '[':
			found := configSection().FindStringSubmatch(line)
			if found == nil {
				return false
			}
			section = strings.ToLower(found[1]) + found[2]
			switch strings.ToLower(found[1]) {
			case "include", "includeif", "extensions":
				return false
			}
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		switch section + "." + strings.ToLower(strings.TrimSpace(key)) {
		case "core.repositoryformatversion":
			if value != "0" {
				return false
			}
		case "core.bare":
			if value != "false" {
				return false
			}
		case "core.worktree":
			return false
		case `remote "origin".url`:
			if value == "" || strings.ContainsAny(value, `"\#;`) {
				return false
			}
			t.Origin = value // the last one is what git says
		}
	}
	return true
}

var (
	// configSection is the usual form of a section's line, and nothing behind it.
	configSection = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\[([A-Za-z0-9-]+)( "[^"\\\]]*")?\]$`)
	})
	branchRef = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^refs/heads/[^\x00-\x20\x7f]+$`)
	})
)

// plainBytesMax is more than such a file ever has.
const plainBytesMax = 1 << 20

// readPlain reads a regular file of the repository itself.
func readPlain(path string) (string, bool) {
	at, err := os.Lstat(path)
	if err != nil || !at.Mode().IsRegular() || at.Size() > plainBytesMax {
		return "", false
	}
	text, err := os.ReadFile(path)
	return string(text), err == nil && !bytes.ContainsRune(text, 0)
}

// exists is also true where nobody can tell.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !os.IsNotExist(err)
}

func deviceOf(path string) uint64 {
	at, err := os.Stat(path)
	if err != nil {
		return 0
	}
	if raw, ok := at.Sys().(*syscall.Stat_t); ok {
		return uint64(raw.Dev) // its size is the system's own
	}
	return 0
}
