// Package scm is the port to source: commits, refs and files of repositories that the
// server keeps mirrors of.
//
// It is deliberately not a git library. It has no working tree, no merge and no write
// to anybody's branch; it fetches, resolves once, pins and reads. Who may ask for what
// is decided above it (trigger) and beside it (the authoriser of the smart HTTP door).
//
// Invariants: a commit that was pinned stays readable whatever happens to the branch it
// came from; a name is resolved to a commit by Resolve only, never implicitly; every
// byte that comes out of a repository is bounded by a limit that the caller names.
//
// Read next: internal/scm/git/mirror.go, internal/scm/scmtest
package scm

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Faults and answers, told apart with errors.Is.
var (
	// ErrNotFound: the mirror (or the remote) has no such repository, ref or commit.
	ErrNotFound = errors.New("not found in the repository")
	// ErrUnreachable: the remote did not answer, or not in a way that git understands.
	// Trying again later may help.
	ErrUnreachable = errors.New("remote can't be reached")
	// ErrRefused: policy does not allow that address, protocol or name.
	ErrRefused = errors.New("address not allowed")
	// ErrTooLarge: what was asked for is over the limit that the caller named.
	ErrTooLarge = errors.New("over the limit")
)

// Repo names a mirror. Both parts are identifiers, so they are safe in a path.
type Repo struct {
	Tenant     domain.TenantID
	Repository domain.RepositoryID
}

// Remote says where a mirror fetches from.
type Remote struct {
	// URL is https, ssh, http to this machine where that is allowed, or an absolute path.
	URL string
}

// Local reports whether the remote is a path on the server's machine. Only an
// administrator may register such a repository; the trigger room holds that line.
func (r Remote) Local() bool { return strings.HasPrefix(r.URL, "/") }

// Ref is a name and the commit it leads to.
type Ref struct {
	Name   string // in full: refs/heads/main
	Commit string // an annotated tag is followed to its commit
}

// Advertisement is what a remote says it has.
type Advertisement struct {
	Refs          []Ref  // branches and tags, ordered by name
	DefaultBranch string // short name ("main"); "" when the remote does not say
}

// Commit is what a commit says of itself. All text is valid UTF-8.
type Commit struct {
	ID        string
	Tree      string
	Parents   []string
	Author    Person
	Committer Person
	Message   string // cut at MessageBytesMax
}

// MessageBytesMax is how much of a commit message is read.
const MessageBytesMax = 64 << 10

// Person is who wrote or committed, as the commit claims. Nothing vouches for it.
type Person struct {
	Name  string
	Email string
	When  time.Time // UTC
}

// Title is the first line of the message.
func (c Commit) Title() string {
	line, _, _ := strings.Cut(strings.TrimLeft(c.Message, "\n\r\t "), "\n")
	return strings.TrimSpace(line)
}

// File is a file of a commit's tree.
type File struct {
	Path  string
	Blob  string // object id
	Bytes []byte
	// Link says that it is a symbolic link: links are listed and never followed, so Bytes is
	// empty. Where it points is the author's word about somebody else's file.
	Link bool
}

// Query says which files of a commit to read.
type Query struct {
	Dirs     []string // folders, not descended into; one that is missing has no files
	Suffixes []string // a file is read when its name ends with one of them
	FilesMax int      // in all folders together
	BytesMax int64    // of one file
	TotalMax int64    // of all files together
}

// Resolution is the answer to "which commit does this name mean now?".
type Resolution struct {
	Ref    string // in full; "" when the name was a commit
	Commit string
}

// Mirrors is the side of the port that changes mirrors.
type Mirrors interface {
	// Init makes an empty mirror; an existing one is left alone.
	Init(ctx context.Context, repo Repo) error
	// Advertised asks a remote for its refs, without fetching anything.
	Advertised(ctx context.Context, from Remote) (Advertisement, error)
	// Fetch brings the mirror's branches and tags to where the remote's are, then lists
	// them by name. Branches that the remote no longer has are dropped; pins stay.
	Fetch(ctx context.Context, repo Repo, from Remote) ([]Ref, error)
	// FetchCommit makes sure that the mirror has the commit, from the remote if need be.
	// ErrNotFound when the remote has it not, or does not give it.
	FetchCommit(ctx context.Context, repo Repo, from Remote, commit string) error
	// Pin keeps the commit and all it needs for ever, independent of any branch. Doing
	// it again is no error.
	Pin(ctx context.Context, repo Repo, commit string) error
}

// Reader is the side of the port that only reads.
type Reader interface {
	// Resolve finds the commit of a full ref, a branch, a tag or a full commit id.
	//
	// Trust: name may come from anybody.
	Resolve(ctx context.Context, repo Repo, name string) (Resolution, error)
	// Read reads a commit and the files that q asks for, in path order, in one pass.
	Read(ctx context.Context, repo Repo, commit string, q Query) (Commit, []File, error)
	// Contains lists those of the refs (in full) from which the commit can be reached.
	Contains(ctx context.Context, repo Repo, commit string, refs []string) ([]string, error)
	// Changed lists up to limit paths that differ between two commits; more reports
	// whether there were others.
	Changed(ctx context.Context, repo Repo, before, after string, limit int) (paths []string, more bool, err error)
}

// Source is the whole port.
type Source interface {
	Mirrors
	Reader
}

// ValidCommit reports whether text is a full commit id in git's lower-case form.
//
// Trust: text may come from anybody; a valid id is safe in an argument and a path.
func ValidCommit(text string) bool {
	if len(text) != 40 && len(text) != 64 {
		return false
	}
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// ZeroCommit reports whether text is the id of "no commit", as in a push that makes or
// deletes a ref.
func ZeroCommit(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0") == ""
}

// ValidRefName reports whether text is a well-formed name by git's rules for refs
// (git-check-ref-format), short or in full, and does not look like an option.
//
// Trust: text may come from anybody.
func ValidRefName(text string) bool {
	if text == "" || len(text) > 1024 || text == "@" || text[0] == '-' || text[0] == '/' ||
		strings.HasSuffix(text, "/") || strings.HasSuffix(text, ".") {
		return false
	}
	for _, bad := range []string{"..", "@{", "//"} {
		if strings.Contains(text, bad) {
			return false
		}
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c == 0x7f || strings.IndexByte("~^:?*[\\", c) >= 0 {
			return false
		}
	}
	for part := range strings.SplitSeq(text, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
