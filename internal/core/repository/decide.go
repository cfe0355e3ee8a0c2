package repository

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Limits, and what happens at each: the command is rejected.
const (
	refsMax         = 20000 // of a repository; the baseline is one event
	refBytesMax     = 512
	nameBytesMax    = 256
	urlBytesMax     = 2048
	protectedMax    = 100
	patternStarsMax = 8
)

// Decision is an accepted command: what happened, and the answer.
type Decision struct {
	Events  []Event
	Reply   any
	Refusal *domain.Rejection
}

// policyRecord is the policy about references of a repository that was told of none.
const policyRecord = "record"

// Decide says what follows from a command and changes nothing.
func Decide(s *State, c Command, now time.Time) (Decision, *domain.Rejection) {
	now = domain.Later(domain.PlainTime(now), s.LastAt)
	if c, ok := c.(Register); ok {
		return register(s, c, now)
	}
	if !s.Exists() {
		return Decision{}, domain.Reject(domain.CodeNotFound, "There is no such repository.")
	}
	switch c := c.(type) {
	case ObserveRefs:
		return observe(s, c, now)
	case SetPolling:
		if c.Poll == s.Poll {
			return Decision{}, nil
		}
		if c.Poll && s.URL == "" {
			return refuse("poll", "There is no address to poll; clients push to this repository.")
		}
		return happened(&PollingSet{Base{now}, c.Cause.Actor, c.Poll})
	case SetComponents:
		if c.Policy == s.Components || c.Policy == policyRecord && s.Components == "" {
			return Decision{}, nil
		}
		if !slices.Contains([]string{policyRecord, "lock", "require"}, c.Policy) {
			return refuse("components", "The policies are record, lock and require.")
		}
		return happened(&ComponentsSet{Base{now}, c.Cause.Actor, c.Policy})
	case Forget:
		return happened(&RepositoryForgotten{Base{now}, c.Cause.Actor})
	case DefineSchedules:
		return define(s, c, now)
	case SettleOccurrence:
		return settle(s, c, now)
	case Withdraw:
		return withdraw(s, c, now)
	case Reinstate:
		return reinstate(s, c, now)
	case Wake:
		return Decision{}, nil
	}
	panic(fmt.Sprintf("decide repository %s: unknown command %T", s.Repository, c))
}

func happened(events ...Event) (Decision, *domain.Rejection) { return Decision{Events: events}, nil }

func refuse(field, format string, args ...any) (Decision, *domain.Rejection) {
	return Decision{}, &domain.Rejection{
		Code: domain.CodeInvalidArgument, Field: field, Message: fmt.Sprintf(format, args...),
	}
}

func register(s *State, c Register, now time.Time) (Decision, *domain.Rejection) {
	if s.Repository != "" {
		if !s.Forgotten && c.Tenant == s.Tenant && c.RepoName == s.RepoName && c.URL == s.URL {
			return Decision{}, nil
		}
		return Decision{}, domain.Reject(domain.CodeAlreadyExists, "The repository is registered, with other values.")
	}
	switch {
	case c.Tenant == "" || !domain.ValidID(domain.PrefixRepository, string(c.Repository)):
		return refuse("repository", "A repository has a tenant and an identifier.")
	case !plain(c.RepoName, nameBytesMax):
		return refuse("name", "A repository has a printable name of at most %d bytes.", nameBytesMax)
	case c.URL != "" && !plain(c.URL, urlBytesMax):
		return refuse("url", "The address is not printable, or over %d bytes.", urlBytesMax)
	case carriesCredential(c.URL):
		return refuse("url", "The address carries a credential, which history must not keep; store it as a secret.")
	case !validRef("refs/heads/" + c.DefaultBranch):
		return refuse("default_branch", "%q can't be a branch.", domain.Clip(c.DefaultBranch, nameBytesMax))
	case c.Poll && c.URL == "":
		return refuse("poll", "There is no address to poll; clients push to this repository.")
	case len(c.ProtectedRefs) > protectedMax:
		return refuse("protected_refs", "There are more than %d patterns.", protectedMax)
	}
	for _, pattern := range c.ProtectedRefs {
		if !validRef(strings.ReplaceAll(pattern, "*", "x")) || strings.Count(pattern, "*") > patternStarsMax {
			return refuse("protected_refs", "%q can't be a pattern of full refs.", domain.Clip(pattern, nameBytesMax))
		}
	}
	return happened(&RepositoryRegistered{
		Base{now}, c.Cause.Actor, c.Tenant, c.Repository, c.RepoName, c.URL, c.DefaultBranch, c.Poll,
		slices.Clone(c.ProtectedRefs),
	})
}

// plain is text that is safe in a log line and on a page.
func plain(text string, bytesMax int) bool {
	return text != "" && text == domain.Clip(text, bytesMax) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// carriesCredential reports whether an address names a password, or a user of a web
// server: there the user's name may be a token.
func carriesCredential(url string) bool {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return false
	}
	authority, _, _ := strings.Cut(rest, "/")
	i := strings.LastIndexByte(authority, '@')
	if i < 0 {
		return false
	}
	return strings.HasPrefix(strings.ToLower(scheme), "http") || strings.Contains(authority[:i], ":")
}

// validRef is git's own rule for full ref names (git-check-ref-format), as far as it keeps
// names out of options, revisions and paths.
func validRef(name string) bool {
	if !strings.HasPrefix(name, "refs/") || !plain(name, refBytesMax) || strings.ContainsAny(name, " ~^:?*[\\") {
		return false
	}
	for _, part := range strings.Split(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasPrefix(part, "-") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.Contains(name, "..") && !strings.Contains(name, "@{") && !strings.HasSuffix(name, ".")
}

func validCommit(id string) bool {
	return (len(id) == 40 || len(id) == 64) && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'f')
	})
}

func observe(s *State, c ObserveRefs, now time.Time) (Decision, *domain.Rejection) {
	switch {
	case c.Source != SourcePoll && c.Source != SourcePush:
		return refuse("source", "Refs are observed by poll or push, not by %q.", domain.Clip(c.Source, nameBytesMax))
	case len(c.Refs) > refsMax:
		return Decision{}, &domain.Rejection{
			Code: domain.CodeTooLarge, Field: "refs",
			Message: fmt.Sprintf("The repository has %d refs; the limit is %d.", len(c.Refs), refsMax),
		}
	}
	for i, ref := range c.Refs {
		if !validRef(ref.Name) || (ref.Commit != "" && !validCommit(ref.Commit)) {
			return refuse("refs", "%q is no ref with a commit.", domain.Clip(ref.Name, refBytesMax))
		}
		if i > 0 && c.Refs[i-1].Name >= ref.Name {
			return refuse("refs", "Refs are sorted by name and named once; %q is not.", ref.Name)
		}
	}
	if !s.Baseline && c.Complete && c.Source == SourcePoll {
		return baseline(s, c, now)
	}
	events, reply := changes(s, c, now)
	if tooMany := len(s.Refs) + reply.Moved - reply.Removed; tooMany > refsMax && reply.Moved > 0 {
		return Decision{}, &domain.Rejection{
			Code: domain.CodeTooLarge, Field: "refs",
			Message: fmt.Sprintf("The repository would have more than %d refs.", refsMax),
		}
	}
	return Decision{Events: events, Reply: reply}, nil
}

// baseline records where everything is. Only what was pushed since the registration is
// known already, and only that can have moved.
func baseline(s *State, c ObserveRefs, now time.Time) (Decision, *domain.Rejection) {
	refs := slices.DeleteFunc(slices.Clone(c.Refs), func(r Ref) bool { return r.Commit == "" })
	var d Decision
	var reply ObserveReply
	for _, ref := range refs {
		if before := s.Tip(ref.Name); before != "" && before != ref.Commit {
			d.Events = append(d.Events, &RefMoved{
				Base{now}, ref.Name, before, ref.Commit, s.Protected(ref.Name), c.Source, c.Cause.Actor,
			})
			reply.Moved++
		}
	}
	d.Events = append(d.Events, &RefsRecorded{Base{now}, refs})
	d.Reply = reply
	return d, nil
}

// changes compares what was seen with what is known, in the order of names.
func changes(s *State, c ObserveRefs, now time.Time) ([]Event, ObserveReply) {
	var events []Event
	var reply ObserveReply
	gone := func(ref, before string) {
		events = append(events, &RefRemoved{Base{now}, ref, before, c.Source, c.Cause.Actor})
		reply.Removed++
	}
	known := 0
	forget := func(until string) { // refs that a complete observation does not mention
		for ; known < len(s.Refs) && (until == "" || s.Refs[known].Name < until); known++ {
			if c.Complete {
				gone(s.Refs[known].Name, s.Refs[known].Commit)
			}
		}
	}
	for _, ref := range c.Refs {
		forget(ref.Name)
		before := ""
		if known < len(s.Refs) && s.Refs[known].Name == ref.Name {
			before = s.Refs[known].Commit
			known++
		}
		switch {
		case ref.Commit == before:
		case ref.Commit == "":
			gone(ref.Name, before)
		default:
			events = append(events, &RefMoved{
				Base{now}, ref.Name, before, ref.Commit, s.Protected(ref.Name), c.Source, c.Cause.Actor,
			})
			reply.Moved++
		}
	}
	forget("")
	return events, reply
}

// Evolve applies a committed event. It decides nothing.
func Evolve(s *State, e Event) {
	s.Version++
	s.LastAt = e.Time()
	switch e := e.(type) {
	case *RepositoryRegistered:
		s.Tenant, s.Repository, s.RepoName, s.URL = e.Tenant, e.Repository, e.RepoName, e.URL
		s.DefaultBranch, s.Poll, s.ProtectedRefs, s.Registered = e.DefaultBranch, e.Poll, e.ProtectedRefs, e.At
	case *RefsRecorded:
		s.Baseline, s.Refs = true, slices.Clone(e.Refs)
	case *RefMoved:
		i, ok := find(s.Refs, e.Ref)
		if ok {
			s.Refs[i].Commit = e.After
		} else {
			s.Refs = slices.Insert(s.Refs, i, Ref{e.Ref, e.After})
		}
	case *RefRemoved:
		if i, ok := find(s.Refs, e.Ref); ok {
			s.Refs = slices.Delete(s.Refs, i, i+1)
		}
	case *PollingSet:
		s.Poll = e.Poll
	case *ComponentsSet:
		s.Components = e.Policy
	case *SchedulesDefined:
		s.Schedules, s.SchedulesOf = slices.Clone(e.Schedules), e.Commit
	case *OccurrenceSettled:
		s.settled(e)
	case *Withdrew:
		s.withdrew(e.Withdrawal)
	case *Reinstated:
		s.reinstated(e.Workflow, e.Component)
	case *RepositoryForgotten:
		s.Forgotten = true
	}
}

// Check finds a broken invariant.
func Check(s *State) error {
	if s.Repository == "" {
		if s.Version != 0 {
			return fmt.Errorf("check repository: %d events and no repository", s.Version)
		}
		return nil
	}
	for i, ref := range s.Refs {
		if !validRef(ref.Name) || !validCommit(ref.Commit) || (i > 0 && s.Refs[i-1].Name >= ref.Name) {
			return fmt.Errorf("check repository %s: ref %q at %q in place %d", s.Repository, ref.Name, ref.Commit, i)
		}
	}
	if err := checkWithdrawals(s); err != nil {
		return err
	}
	return checkSchedules(s)
}
