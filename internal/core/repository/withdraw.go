package repository

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Bounds of withdrawals, and what happens at each: the command is rejected.
const (
	withdrawalsMax = 1000 // of a repository, at the same time
	reasonBytesMax = 1000
)

// FormatWithdrawals is the event format that brought withdrawals.
const FormatWithdrawals = 5

// Withdrawal says that a workflow or a component does not count as it is written. One with a
// commit is restored: the workflow's text at that commit counts instead of its own. One without is
// disabled: nothing new starts with it.
type Withdrawal struct {
	Workflow  string        `json:"workflow,omitempty"`  // path of the file; empty for a component
	Component string        `json:"component,omitempty"` // OWNER/REPO@COMMIT, or a digest
	Commit    string        `json:"commit,omitempty"`    // of a restored workflow
	Text      domain.Digest `json:"text,omitempty"`      // of the file at Commit
	Reason    string        `json:"reason"`
	Actor     domain.Actor  `json:"actor"`
	Request   string        `json:"request,omitempty"` // id of the request that did it
	At        time.Time     `json:"at"`
}

// Restored reports whether another text counts; otherwise nothing new starts.
func (w *Withdrawal) Restored() bool { return w.Commit != "" }

// order sorts withdrawals by what they are about.
func (w Withdrawal) order(b Withdrawal) int {
	return cmp.Or(strings.Compare(w.Workflow, b.Workflow), strings.Compare(w.Component, b.Component))
}

func (s *State) withdrawal(workflow, component string) (int, bool) {
	return slices.BinarySearchFunc(s.Withdrawals, Withdrawal{Workflow: workflow, Component: component}, Withdrawal.order)
}

// Withdrawn is the withdrawal of a workflow, by its path; nil when its own text counts.
func (s *State) Withdrawn(workflow string) *Withdrawal {
	if i, ok := s.withdrawal(workflow, ""); ok && workflow != "" {
		return &s.Withdrawals[i]
	}
	return nil
}

// WithdrawnComponent is the withdrawal of a component that has one of those names; nil when there
// is none. Owner and name of a repository count without case.
func (s *State) WithdrawnComponent(names ...string) *Withdrawal {
	for _, name := range names {
		if name == "" {
			continue
		}
		if i, ok := s.withdrawal("", strings.ToLower(name)); ok {
			return &s.Withdrawals[i]
		}
	}
	return nil
}

func lowerWithdrawal(e Event, format uint32) (Event, error) {
	if format < FormatWithdrawals {
		return nil, codec.ErrFormat // a server that does not know of it would go on starting runs
	}
	return e, nil
}

func withdraw(s *State, c Withdraw, now time.Time) (Decision, *domain.Rejection) {
	w := Withdrawal{Workflow: c.Workflow, Component: strings.ToLower(c.Component), Commit: c.Commit, Text: c.Text,
		Reason: strings.TrimSpace(c.Reason), Actor: c.Cause.Actor, At: now,
		Request: domain.Clip(c.Cause.Request, nameBytesMax)}
	if field, why := w.wrong(); why != "" {
		return refuse(field, "%s", why)
	}
	at, there := s.withdrawal(w.Workflow, w.Component)
	if there {
		if was := s.Withdrawals[at]; was.Commit == w.Commit && was.Text == w.Text && was.Reason == w.Reason {
			return Decision{}, nil
		}
	} else if len(s.Withdrawals) >= withdrawalsMax {
		return Decision{}, &domain.Rejection{Code: domain.CodeTooLarge, Field: "workflow",
			Message: fmt.Sprintf("The repository has %d withdrawals; enable what may start again.", withdrawalsMax)}
	}
	return happened(&Withdrew{Base{now}, w})
}

func reinstate(s *State, c Reinstate, now time.Time) (Decision, *domain.Rejection) {
	c.Component, c.Reason = strings.ToLower(c.Component), strings.TrimSpace(c.Reason)
	if (c.Workflow == "") == (c.Component == "") {
		return refuse("workflow", "Name either a workflow or a component.")
	}
	if !plain(c.Reason, reasonBytesMax) {
		return refuse("reason", "Say why, in one line of at most %d bytes.", reasonBytesMax)
	}
	if _, there := s.withdrawal(c.Workflow, c.Component); !there {
		return Decision{}, nil
	}
	return happened(&Reinstated{Base{now}, c.Workflow, c.Component, c.Reason, c.Cause.Actor,
		domain.Clip(c.Cause.Request, nameBytesMax)})
}

// wrong says what keeps a withdrawal from being one; why is empty when nothing does.
func (w *Withdrawal) wrong() (field, why string) {
	switch {
	case (w.Workflow == "") == (w.Component == ""):
		return "workflow", "Name either a workflow or a component."
	case w.Workflow != "" && !plain(w.Workflow, pathBytesMax):
		return "workflow", "The path of the workflow can't be printed, or is too long."
	case w.Component != "" && !validComponent(w.Component):
		return "component", "A component is named by a full commit (OWNER/REPO@COMMIT) or a digest (git:COMMIT:TREE, " +
			"sha256:…)."
	case !plain(w.Reason, reasonBytesMax):
		return "reason", fmt.Sprintf("Say why, in one line of at most %d bytes.", reasonBytesMax)
	case w.Commit != "" && (w.Component != "" || !validCommit(w.Commit)):
		return "commit", "A workflow is restored to its text at a commit, which is named by its full id."
	case (w.Commit != "") != (w.Text != "") || w.Text != "" && !validDigest(string(w.Text)):
		return "commit", "A workflow that is restored has a text."
	}
	return "", ""
}

// validComponent takes only what can't move: a full commit or a digest, never a tag.
func validComponent(name string) bool {
	if validDigest(name) {
		return true
	}
	if resolved, ok := strings.CutPrefix(name, "git:"); ok { // what a run's components are shown as
		commit, tree, both := strings.Cut(resolved, ":")
		return both && validCommit(commit) && validCommit(tree)
	}
	repository, commit, pinned := strings.Cut(name, "@")
	owner, rest, owned := strings.Cut(repository, "/")
	return pinned && owned && plain(name, pathBytesMax) && owner != "" && rest != "" && !strings.ContainsAny(rest, "/ ") &&
		!strings.Contains(owner, " ") && validCommit(commit)
}

func validDigest(text string) bool {
	digits, ok := strings.CutPrefix(text, "sha256:")
	return ok && len(digits) == 64 && validCommit(digits)
}

// withdrew keeps a withdrawal. A text that is another one has other schedules, so these are not
// known until they were read again.
func (s *State) withdrew(w Withdrawal) {
	at, there := s.withdrawal(w.Workflow, w.Component)
	if w.Restored() || there && s.Withdrawals[at].Restored() {
		s.SchedulesOf = ""
	}
	if there {
		s.Withdrawals = slices.Clone(s.Withdrawals)
		s.Withdrawals[at] = w
		return
	}
	s.Withdrawals = slices.Insert(slices.Clone(s.Withdrawals), at, w)
}

func (s *State) reinstated(workflow, component string) {
	at, there := s.withdrawal(workflow, component)
	if !there {
		return
	}
	if s.Withdrawals[at].Restored() {
		s.SchedulesOf = ""
	}
	s.Withdrawals = slices.Delete(slices.Clone(s.Withdrawals), at, at+1)
}

func checkWithdrawals(s *State) error {
	for i := range s.Withdrawals {
		w := &s.Withdrawals[i]
		if _, why := w.wrong(); why != "" || i > 0 && s.Withdrawals[i-1].order(*w) >= 0 {
			return fmt.Errorf("check repository %s: withdrawal %d of %s%s: %s", s.Repository, i, w.Workflow, w.Component, why)
		}
	}
	return nil
}
