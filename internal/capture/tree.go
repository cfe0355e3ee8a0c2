package capture

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Refusals, told apart with errors.Is. Each comes wrapped in a sentence for a person.
var (
	// ErrNoRepository: the folder is not in a git repository.
	ErrNoRepository = errors.New("not a git repository")
	// ErrNoCommit: the repository has neither a commit nor a file to capture.
	ErrNoCommit = errors.New("nothing to run on")
	// ErrUnsupported: a kind of repository that can't be sent.
	ErrUnsupported = errors.New("unsupported repository")
	// ErrTooLarge: the changes are over a limit.
	ErrTooLarge = errors.New("changes too large")
	// ErrPush: the server did not take the commit.
	ErrPush = errors.New("push refused")
	// ErrUnreached: no answer of the server came, or it could not give one now. The same
	// push may succeed later.
	ErrUnreached = errors.New("the server did not take the commit")
)

// Tree is a repository as one look found it.
type Tree struct {
	Root    string // top folder; the repository itself when it is bare
	GitDir  string // of this working tree
	Objects string // object folder
	Index   string // index file, which need not exist
	Bare    bool
	Shallow bool
	Head    string // commit id; "" before the first commit
	Branch  string // full ref that HEAD is on; "" when it is detached
	Origin  string // URL of the remote "origin"; "" without one

	changes func() (*status, error) // begun by OpenForTake; nil: not asked yet
}

// Open looks at the repository that dir is in. It costs two git processes, side by side.
func Open(ctx context.Context, dir string) (*Tree, error) {
	var (
		both      sync.WaitGroup
		origin    string
		originErr error
	)
	both.Go(func() {
		origin, originErr = git(ctx, dir, askOrigin())
	})
	t, err := look(ctx, dir)
	both.Wait()
	if err != nil {
		return nil, err
	}
	return t, t.named(origin, originErr)
}

// named takes git's answer to the question for the origin.
func (t *Tree) named(origin string, err error) error {
	var missing *gitError
	switch {
	case err == nil:
		t.Origin = strings.TrimSpace(origin)
	case errors.As(err, &missing) && missing.code == 1: // there is no such setting
	default:
		return fmt.Errorf("read origin of %s: %w", t.Root, err)
	}
	return nil
}

// openPlain is OpenForTake for a plain repository: one git process, or two where the origin may
// be in the user's own configuration. It returns nil if there was anything unusual.
func openPlain(ctx context.Context, dir string) *Tree {
	t := plain(dir)
	if t == nil {
		return nil
	}
	var both sync.WaitGroup
	var named error
	if t.Origin == "" {
		both.Go(func() { named = t.named(git(ctx, dir, askOrigin())) })
	}
	s, err := readStatus(ctx, dir)
	both.Wait()
	switch {
	case named != nil:
		return nil
	case errors.Is(err, ErrTooLarge):
		// Take says so.
	case err != nil || s.head != "(initial)" && !commitID().MatchString(s.head):
		return nil
	case s.head == "(initial)":
		t.Branch = "" // it does not exist yet
	default:
		t.Head = s.head
	}
	t.changes = func() (*status, error) { return s, err }
	return t
}

func askOrigin() call { return call{args: []string{"config", "--get", "remote.origin.url"}} }

// OpenForTake is Open for a caller that will Take the working tree as it is: what changed
// is asked at the same time, so that Take need not wait for it.
func OpenForTake(ctx context.Context, dir string) (*Tree, error) {
	if t := openPlain(ctx, dir); t != nil {
		return t, nil
	}
	asked, stop := context.WithCancel(ctx)
	answer := make(chan func() (*status, error), 1)
	go func() {
		s, err := readStatus(asked, dir)
		answer <- func() (*status, error) { return s, err }
	}()
	t, err := Open(ctx, dir)
	if err != nil || t.Bare {
		stop()
		<-answer
		return t, err
	}
	t.changes = sync.OnceValues(func() (*status, error) {
		defer stop()
		return (<-answer)()
	})
	return t, nil
}

// look asks one git process for everything about the repository. Questions that can
// fail come last: what was answered before is printed all the same.
func look(ctx context.Context, dir string) (*Tree, error) {
	out, err := git(ctx, dir, call{args: []string{"rev-parse", "--path-format=absolute", "--is-bare-repository",
		"--is-inside-work-tree", "--is-shallow-repository", "--show-object-format", "--absolute-git-dir",
		"--git-path", "objects", "--git-path", "index", "--show-toplevel", "HEAD", "--symbolic-full-name", "HEAD"}})
	line := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	var failed *gitError
	if err != nil && (!errors.As(err, &failed) || len(line) < 7) {
		if failed != nil && strings.Contains(failed.stderr, "not a git repository") {
			return nil, fmt.Errorf("%w: %s is not in one", ErrNoRepository, dir)
		}
		return nil, fmt.Errorf("look at %s: %w", dir, err)
	}
	if len(line) < 7 {
		return nil, fmt.Errorf("look at %s: unexpected answer of git", dir)
	}
	t := &Tree{Bare: line[0] == "true", Shallow: line[2] == "true", GitDir: line[4], Objects: line[5], Index: line[6]}
	switch {
	case line[3] != "sha1":
		return nil, fmt.Errorf("%w: object ids of the kind %s; only sha1 can be sent yet", ErrUnsupported, line[3])
	case t.Bare:
		// A bare repository has no top folder, so the last questions were not answered.
		t.Root = t.GitDir
		out, err = git(ctx, dir, call{args: []string{"rev-parse", "HEAD", "--symbolic-full-name", "HEAD"}})
		line = strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	case line[1] != "true" || len(line) < 8:
		return nil, fmt.Errorf("%w: %s is inside a .git folder; go to the working tree", ErrUnsupported, dir)
	default:
		t.Root, line = line[7], line[8:]
	}
	if err == nil && len(line) == 2 && commitID().MatchString(line[0]) {
		t.Head = line[0]
		if strings.HasPrefix(line[1], "refs/heads/") {
			t.Branch = line[1]
		}
	}
	return t, nil
}

var (
	commitID = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[0-9a-f]{40}$`)
	})
	scpURL = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[^/@:]+@[^/:]+:(.+)$`)
	})
	odd = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`[^A-Za-z0-9._-]+`)
	})
)

// Name is what the repository is called on a server: the last two parts of origin's
// address (acme/app), else the name of its folder.
func (t *Tree) Name() string {
	if t.Origin != "" {
		if name := nameOf(t.Origin); name != "" {
			return name
		}
	}
	root := t.Root
	if t.Bare {
		root = strings.TrimSuffix(root, "/.git")
	}
	return part(filepath.Base(root), "repository")
}

func nameOf(origin string) string {
	host, location := "", origin
	if scp := scpURL().FindStringSubmatch(origin); scp != nil {
		host, location = "host", scp[1]
	} else if _, rest, ok := strings.Cut(origin, "://"); ok {
		host, location, _ = strings.Cut(rest, "/")
	}
	location = strings.TrimSuffix(strings.Trim(path.Clean("/"+location), "/"), "/.git")
	folder, last := path.Split(location)
	name := part(last, "")
	if name == "" || host == "" { // a path on this machine: its folders mean nothing elsewhere
		return name
	}
	if owner := part(path.Base(folder), ""); owner != "" && folder != "" {
		return owner + "/" + name
	}
	return name
}

// part makes one part of a name of whatever a folder was called.
func part(text, otherwise string) string {
	text = strings.Trim(odd().ReplaceAllString(strings.TrimSuffix(text, ".git"), "-"), "-.")
	if text == "" {
		return otherwise
	}
	return text[:min(len(text), 100)]
}
