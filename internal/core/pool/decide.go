package pool

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Limits, and what happens at each: the command is rejected.
const (
	capacityMax  = 1000
	tokensMax    = 1000 // unused registration tokens
	runnersMax   = 200_000
	labelsMax    = 64
	nameBytesMax = 128
	textBytesMax = 1024
	// TokenLifeMax bounds how long a registration token may be good.
	TokenLifeMax = 30 * 24 * time.Hour
)

// Decision is an accepted command: what happened, and the answer.
type Decision struct {
	Events  []Event
	Reply   any
	Refusal *domain.Rejection
}

// Decide says what follows from a command and changes nothing.
func Decide(s *State, c Command, now time.Time) (Decision, *domain.Rejection) {
	now = domain.Later(domain.PlainTime(now), s.LastAt)
	if c, ok := c.(CreatePool); ok {
		return createPool(s, c, now)
	}
	if !s.Exists() {
		return Decision{}, domain.Reject(domain.CodeNotFound, "There is no such pool.")
	}
	switch c := c.(type) {
	case IssueRegistrationToken:
		return issueToken(s, c, now)
	case RegisterRunner:
		return registerRunner(s, c, now)
	case RemoveRunner:
		return removeRunner(s, c, now)
	case RotateSession:
		return rotateSession(s, c, now)
	case Wake:
		return expireTokens(s, now), nil
	}
	panic(fmt.Sprintf("decide pool %s: unknown command %T", s.Pool, c))
}

func happened(events ...Event) (Decision, *domain.Rejection) { return Decision{Events: events}, nil }

func refuse(field, format string, args ...any) (Decision, *domain.Rejection) {
	return Decision{}, &domain.Rejection{
		Code: domain.CodeInvalidArgument, Field: field, Message: fmt.Sprintf(format, args...),
	}
}

func createPool(s *State, c CreatePool, now time.Time) (Decision, *domain.Rejection) {
	if s.Exists() {
		if c.Tenant == s.Tenant && c.Pool == s.Pool && equalConfig(c.Config, s.Config) {
			return Decision{}, nil
		}
		return Decision{}, domain.Reject(domain.CodeAlreadyExists,
			"There is a pool of that name, with another configuration.")
	}
	switch {
	case c.Tenant == "":
		return refuse("tenant", "The pool has no tenant.")
	case !plainName(string(c.Pool)):
		return refuse("pool", "A pool is named by lower-case letters, digits and dashes.")
	case len(c.Config.Tiers) == 0 || slices.ContainsFunc(c.Config.Tiers,
		func(t domain.Tier) bool { return t.Rank() == 0 }):
		return refuse("tiers", "A pool names the trust tiers that it accepts.")
	case len(c.Config.Isolation) == 0:
		return refuse("isolation", "A pool names the isolation drivers that its runners may use.")
	}
	if field := badLabels(c.Config.Labels); field != "" {
		return refuse("labels", "%q can't be a label.", field)
	}
	for _, alias := range c.Config.Aliases {
		if alias.Pattern == "" || alias.Pattern == "*" || badLabels([]string{alias.Pattern}) != "" {
			return refuse("aliases", "%q can't be a pattern of labels.", alias.Pattern)
		}
	}
	return happened(&PoolCreated{Base{now}, c.Cause.Actor, c.Tenant, c.Pool, c.Config})
}

func equalConfig(a, b Config) bool {
	return slices.Equal(a.Labels, b.Labels) && slices.Equal(a.Aliases, b.Aliases) &&
		slices.Equal(a.Tiers, b.Tiers) && slices.Equal(a.Isolation, b.Isolation)
}

func plainName(name string) bool {
	return name != "" && len(name) <= nameBytesMax && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

// badLabels finds a label that is none: empty, too long, or with characters that would
// have to be quoted somewhere.
func badLabels(labels []string) string {
	for i, label := range labels {
		odd := strings.ContainsFunc(label, func(r rune) bool {
			return r <= ' ' || r == ',' || r == '"' || r == 0x7f || r == utf8.RuneError
		})
		if label == "" || len(label) > nameBytesMax || odd || i >= labelsMax {
			return domain.Clip(label+" ", nameBytesMax)
		}
	}
	return ""
}

func issueToken(s *State, c IssueRegistrationToken, now time.Time) (Decision, *domain.Rejection) {
	expires := domain.PlainTime(c.Expires)
	switch {
	case !c.Token.Valid():
		return refuse("token", "A token is named by its digest.")
	case slices.ContainsFunc(s.Tokens, func(t Token) bool { return t.Digest == c.Token }):
		return Decision{}, nil
	case s.index.tokens[c.Token] > 0:
		return Decision{}, domain.Reject(domain.CodeAlreadyExists, "The token was used.")
	case !expires.After(now) || expires.After(now.Add(TokenLifeMax)):
		return refuse("expires", "A token expires within %d days.", int(TokenLifeMax/(24*time.Hour)))
	case len(s.Tokens) >= tokensMax:
		return Decision{}, domain.Reject(domain.CodeTooLarge, "The pool has too many unused registration tokens.")
	}
	return happened(&RegistrationTokenIssued{Base{now},
		Token{Digest: c.Token, Issued: now, Expires: expires, By: c.Cause.Actor}})
}

func registerRunner(s *State, c RegisterRunner, now time.Time) (Decision, *domain.Rejection) {
	if i := s.index.at(s.index.tokens[c.Token]); i >= 0 && s.Runners[i].Resume == c.Resume && c.Resume != "" {
		r := &s.Runners[i]
		return Decision{Reply: RegisterReply{Runner: r.Runner, Session: r.Session, Repeat: true}}, nil
	}
	// One answer for unknown, used and expired: a guesser learns nothing.
	good := slices.ContainsFunc(s.Tokens, func(t Token) bool { return t.Digest == c.Token && now.Before(t.Expires) })
	name := c.RunnerName
	switch {
	case !good:
		return Decision{}, domain.Reject(domain.CodeRegistrationInvalid,
			"The registration token is unknown, used or expired.")
	case c.Runner == "" || c.Session == "" || !c.Resume.Valid():
		return refuse("resume_digest", "A runner has an identifier, a session and a resume digest.")
	case name == "" || name != domain.Clip(name, nameBytesMax) ||
		strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }):
		return refuse("name", "A runner has a printable name of at most %d bytes.", nameBytesMax)
	case c.Capacity < 1 || c.Capacity > capacityMax:
		return refuse("capacity", "A runner has 1 to %d slots.", capacityMax)
	case !slices.Contains(s.Config.Isolation, c.Isolation):
		return refuse("isolation", "The pool does not take runners with isolation %q.",
			domain.Clip(c.Isolation, nameBytesMax))
	case badLabels(c.Labels) != "":
		return refuse("labels", "%q can't be a label, or there are more than %d.", badLabels(c.Labels), labelsMax)
	case len(s.Runners) >= runnersMax:
		return Decision{}, domain.Reject(domain.CodeTooLarge, "The pool has as many runners as it may have.")
	}
	if s.index.names[name] > 0 || s.index.ids[c.Runner] > 0 || s.index.sessions[c.Session] > 0 {
		return Decision{}, &domain.Rejection{
			Code: domain.CodeAlreadyExists, Field: "name",
			Message: fmt.Sprintf("The pool has a runner named %q; remove it first.", name),
		}
	}
	return Decision{
		Events: []Event{&RunnerRegistered{Base{now}, Runner{
			Runner: c.Runner, Name: name, Labels: slices.Clone(c.Labels), Capacity: c.Capacity, Isolation: c.Isolation,
			Version: domain.Clip(c.Version, nameBytesMax), OS: domain.Clip(c.OS, nameBytesMax),
			Arch: domain.Clip(c.Arch, nameBytesMax), Session: c.Session, Resume: c.Resume, Token: c.Token, Registered: now,
		}}},
		Reply: RegisterReply{Runner: c.Runner, Session: c.Session},
	}, nil
}

func removeRunner(s *State, c RemoveRunner, now time.Time) (Decision, *domain.Rejection) {
	if _, ok := s.Runner(c.Runner); !ok {
		return Decision{}, domain.Reject(domain.CodeNotFound, "The pool has no such runner.")
	}
	return happened(&RunnerRemoved{Base{now}, c.Cause.Actor, c.Runner, domain.Clip(c.Reason, textBytesMax)})
}

func rotateSession(s *State, c RotateSession, now time.Time) (Decision, *domain.Rejection) {
	r, ok := s.Runner(c.Runner)
	switch {
	case !ok:
		return Decision{}, domain.Reject(domain.CodeNotFound, "The pool has no such runner.")
	case c.Session == "" || !c.Resume.Valid():
		return refuse("resume_digest", "A session has an identifier and a resume digest.")
	case r.Session == c.Session && r.Resume == c.Resume:
		return Decision{}, nil
	case s.index.sessions[c.Session] > 0:
		return Decision{}, domain.Reject(domain.CodeAlreadyExists, "The session exists.")
	}
	return happened(&SessionRotated{Base{now}, c.Runner, c.Session, c.Resume})
}

func expireTokens(s *State, now time.Time) Decision {
	var expired []domain.Digest
	for _, t := range s.Tokens {
		if !now.Before(t.Expires) {
			expired = append(expired, t.Digest)
		}
	}
	if len(expired) == 0 {
		return Decision{}
	}
	return Decision{Events: []Event{&RegistrationTokensExpired{Base{now}, expired}}}
}

// NextWake is when the next unused token expires.
func NextWake(s *State) (time.Time, bool) {
	var next time.Time
	for i, t := range s.Tokens {
		if i == 0 || t.Expires.Before(next) {
			next = t.Expires
		}
	}
	return next, len(s.Tokens) > 0
}

// Evolve applies a committed event. It decides nothing.
func Evolve(s *State, e Event) {
	s.Version++
	s.LastAt = e.Time()
	switch e := e.(type) {
	case *PoolCreated:
		s.Tenant, s.Pool, s.Created, s.Config = e.Tenant, e.Pool, e.At, e.Config
	case *RegistrationTokenIssued:
		s.Tokens = append(s.Tokens, e.Token)
	case *RegistrationTokensExpired:
		s.Tokens = without(s.Tokens, func(t Token) bool { return slices.Contains(e.Tokens, t.Digest) })
	case *RunnerRegistered:
		s.Tokens = without(s.Tokens, func(t Token) bool { return t.Digest == e.Runner.Token })
		s.Runners = append(s.Runners, e.Runner)
		s.index.add(&e.Runner)
	case *RunnerRemoved:
		if i := s.index.at(s.index.ids[e.Runner]); i >= 0 {
			s.index.remove(&s.Runners[i], i)
			s.Runners = orNil(slices.Delete(s.Runners, i, i+1))
		}
	case *SessionRotated:
		if i := s.index.at(s.index.ids[e.Runner]); i >= 0 {
			r := &s.Runners[i]
			delete(s.index.sessions, r.Session)
			r.Session, r.Resume = e.Session, e.Resume
			s.index.sessions[r.Session] = s.index.ids[r.Runner]
		}
	}
}

// without takes some members out of a list.
func without[T any](list []T, gone func(T) bool) []T { return orNil(slices.DeleteFunc(list, gone)) }

// orNil is nil for an empty list, as it is after decoding.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// Check finds a broken invariant.
func Check(s *State) error {
	if !s.Exists() {
		if s.Version != 0 {
			return fmt.Errorf("check pool: %d events and no pool", s.Version)
		}
		return nil
	}
	seen := make(map[string]domain.RunnerID, 4*len(s.Runners))
	for _, r := range s.Runners {
		for _, key := range []string{"name " + r.Name, "id " + string(r.Runner), "session " + string(r.Session),
			"token " + string(r.Token)} {
			if other, ok := seen[key]; ok {
				return fmt.Errorf("check pool %s: runners %s and %s share the %s", s.Pool, other, r.Runner, key)
			}
			seen[key] = r.Runner
		}
		if found, ok := s.Runner(r.Runner); !ok || found.Session != r.Session {
			return fmt.Errorf("check pool %s: runner %s is not found by its id", s.Pool, r.Runner)
		}
		if r.Capacity < 1 || !slices.Contains(s.Config.Isolation, r.Isolation) {
			return fmt.Errorf("check pool %s: runner %s: capacity %d, isolation %q", s.Pool, r.Runner, r.Capacity, r.Isolation)
		}
	}
	for _, t := range s.Tokens {
		if _, used := seen["token "+string(t.Digest)]; used {
			return fmt.Errorf("check pool %s: token %s was used and can be used again", s.Pool, t.Digest)
		}
	}
	return nil
}
