package workflow

import (
	"fmt"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Policies about references to other repositories.
const (
	PinsRecord  = "record"  // resolved and recorded; a name that can move is a warning
	PinsLock    = "lock"    // resolved to what the committed lock file has
	PinsRequire = "require" // only full commit ids in the text
)

// LockFile is where the lock file of a repository is.
const LockFile = ".fairlead/components.lock"

// Pins are the policy about references and the lock file that it may rest on.
type Pins struct {
	Policy string // "": PinsRecord
	Lock   Lock
}

// Lock has the digest that each reference must have, by its repository and revision.
type Lock map[string]string

// lockHeader begins every lock file.
const lockHeader = "# Written by fairlead lock. Each line: what uses: names, and what it was resolved to.\n"

// lockEntriesMax bounds the lines of a lock file.
const lockEntriesMax = 10_000

// Encode is the lock file: one line for each entry, sorted.
func (l Lock) Encode() []byte {
	var out strings.Builder
	out.WriteString(lockHeader)
	for _, name := range sortedKeys(l) {
		out.WriteString(name + " " + l[name] + "\n")
	}
	return []byte(out.String())
}

// ParseLock reads a lock file.
//
// Trust: text may come from anybody.
func ParseLock(text []byte) (Lock, error) {
	out := make(Lock)
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 2 || !strings.Contains(fields[0], "@") || !strings.HasPrefix(fields[1], "git:") {
			return nil, fmt.Errorf("line %d is not a reference and its digest", i+1)
		}
		if _, twice := out[fields[0]]; twice {
			return nil, fmt.Errorf("line %d has %q a second time", i+1, fields[0])
		}
		if out[fields[0]] = fields[1]; len(out) > lockEntriesMax {
			return nil, fmt.Errorf("it has more than %d entries", lockEntriesMax)
		}
	}
	return out, nil
}

// pinned checks a reference to another repository against the policy.
func (c *compiler) pinned(n *syntax.Node, found Component) {
	r := found.Reference
	if r.Repository == "" {
		return
	}
	name, digest := r.Source(), found.Digest()
	switch policy := c.in.Pins.Policy; {
	case policy == PinsRequire && !fullCommit(r.Revision):
		c.reports.Add(syntax.CodeUnpinned, n.Range,
			fmt.Sprintf("%s must name a full commit id, not %s: the repository requires it", syntax.Quote(r.String()),
				syntax.Quote(r.Revision)), "write "+r.At(found.Commit).String()+", which is what it leads to now")
	case policy == PinsLock && c.in.Pins.Lock[name] == "":
		c.reports.Add(syntax.CodeNotLocked, n.Range, fmt.Sprintf("%s is not in %s", syntax.Quote(name), LockFile),
			"fairlead lock adds it")
	case policy == PinsLock && c.in.Pins.Lock[name] != digest:
		c.reports.Add(syntax.CodeNotLocked, n.Range, fmt.Sprintf("%s is locked to %s, and leads to %s", syntax.Quote(name),
			c.in.Pins.Lock[name], digest), "look at what changed, then fairlead lock takes the new commit")
	case policy != PinsLock && !fullCommit(r.Revision):
		c.reports.Add(syntax.CodeMovingReference, n.Range,
			fmt.Sprintf("%s leads to commit %s now, and may lead to another one tomorrow", syntax.Quote(r.String()),
				found.Commit), "write "+r.At(found.Commit).String())
	}
}

// fullCommit reports whether a revision is a whole commit id.
func fullCommit(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}
