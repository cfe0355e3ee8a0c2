package credential

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Lives and bounds of sign-in codes and sessions.
const (
	// CodeLife is how long a sign-in link works, once.
	CodeLife = 15 * time.Minute
	// SessionIdle ends a session that nobody used.
	SessionIdle = 7 * 24 * time.Hour
	// SessionLife ends every session, used or not.
	SessionLife = 30 * 24 * time.Hour

	codesMax       = 64   // the oldest goes first
	sessionsMax    = 1000 // the longest unused goes first
	renewalPersist = time.Hour
)

// Sessions keeps sign-in codes in memory and browser sessions in a file, both by
// fingerprint: who reads the file can't sign in with it. A restart ends no session.
type Sessions struct {
	path string
	now  func() time.Time
	name string

	mu       sync.Mutex
	codes    map[fingerprint]time.Time // until
	sessions map[fingerprint]*session
}

type session struct {
	Began time.Time `json:"began"`
	Used  time.Time `json:"used"`
	// saved is Used as it is in the file: a renewal is written once an hour, not per request.
	saved time.Time
}

// sessionsFile is the form of DATA/credentials/sessions.json.
type sessionsFile struct {
	Name     string              `json:"name"`
	Sessions map[string]*session `json:"sessions"` // by fingerprint, hex
}

// OpenSessions reads DATA/credentials/sessions.json.
func OpenSessions(dataFolder string, now func() time.Time) (*Sessions, error) {
	s := &Sessions{
		path: filepath.Join(dataFolder, folderCredentials, "sessions.json"), now: now,
		codes: map[fingerprint]time.Time{}, sessions: map[fingerprint]*session{},
	}
	content, err := readSecret(s.path)
	if absent(err) {
		fresh := fingerprintOf(newText(""))
		s.name = "fairlead_session_" + hex.EncodeToString(fresh[:4])
		return s, s.save()
	}
	if err != nil {
		return nil, err
	}
	var file sessionsFile
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("read sessions %s: %w; remove the file to sign everybody out", s.path, err)
	}
	s.name = file.Name
	for text, one := range file.Sessions {
		var key fingerprint
		if n, err := hex.Decode(key[:], []byte(text)); err == nil && n == len(key) && one != nil {
			one.saved = one.Used
			s.sessions[key] = one
		}
	}
	return s, nil
}

// CookieName is the name of this server's cookie. Cookies ignore ports, so two servers on
// one machine would sign each other out under a common name.
func (s *Sessions) CookieName() string { return s.name }

// NewCode makes the code of a sign-in link.
func (s *Sessions) NewCode() domain.Secret {
	text := newText(prefixCode)
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest, when := fingerprint{}, time.Time{}
	for key, until := range s.codes {
		if !until.After(now) {
			delete(s.codes, key)
		} else if when.IsZero() || until.Before(when) {
			oldest, when = key, until
		}
	}
	if len(s.codes) >= codesMax {
		delete(s.codes, oldest)
	}
	s.codes[fingerprintOf(text)] = now.Add(CodeLife)
	return domain.NewSecret(text)
}

// Redeem turns a sign-in code into a session. ok is false for a code that is unknown,
// used or too old: the three answer alike.
//
// Trust: code comes from anybody.
func (s *Sessions) Redeem(code string) (cookie domain.Secret, ok bool, err error) {
	if len(code) > textBytesMax {
		return domain.Secret{}, false, nil
	}
	key := fingerprintOf(code)
	s.mu.Lock()
	until, known := s.codes[key]
	delete(s.codes, key)
	s.mu.Unlock()
	if !known || !until.After(s.now()) {
		return domain.Secret{}, false, nil
	}
	cookie, err = s.Begin()
	return cookie, err == nil, err
}

// Begin opens a session for somebody who proved to be the administrator just now. Every
// sign-in gets a session of its own, so a cookie planted before is worth nothing.
func (s *Sessions) Begin() (cookie domain.Secret, err error) {
	text := newText(prefixSession)
	now := s.now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict(now)
	key := fingerprintOf(text)
	s.sessions[key] = &session{Began: now, Used: now, saved: now}
	if err := s.save(); err != nil {
		delete(s.sessions, key)
		return domain.Secret{}, err
	}
	return domain.NewSecret(text), nil
}

// Verify reports whether cookie belongs to a living session, and renews it.
//
// Trust: cookie comes from anybody.
func (s *Sessions) Verify(cookie string) bool {
	if len(cookie) > textBytesMax {
		return false
	}
	key, now := fingerprintOf(cookie), s.now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	one, known := s.sessions[key]
	if !known || !one.lives(now) {
		return false
	}
	one.Used = now
	if now.Sub(one.saved) >= renewalPersist {
		one.saved = now
		// A renewal that can't be written costs an early sign-in after a restart, no more.
		_ = s.save()
	}
	return true
}

// End closes a session; it is not an error when there was none.
func (s *Sessions) End(cookie string) error {
	key := fingerprintOf(cookie)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.sessions[key]; !known {
		return nil
	}
	delete(s.sessions, key)
	return s.save()
}

func (one *session) lives(now time.Time) bool {
	return now.Sub(one.Used) < SessionIdle && now.Sub(one.Began) < SessionLife
}

// evict makes room for one session. The caller holds mu.
func (s *Sessions) evict(now time.Time) {
	var idlest fingerprint
	var found *session
	for key, one := range s.sessions {
		if !one.lives(now) {
			delete(s.sessions, key)
		} else if found == nil || one.Used.Before(found.Used) {
			idlest, found = key, one
		}
	}
	if len(s.sessions) >= sessionsMax {
		delete(s.sessions, idlest)
	}
}

// save writes the file. The caller holds mu, or is the only one to know s.
func (s *Sessions) save() error {
	file := sessionsFile{Name: s.name, Sessions: make(map[string]*session, len(s.sessions))}
	for key, one := range s.sessions {
		file.Sessions[hex.EncodeToString(key[:])] = one
	}
	content, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return fmt.Errorf("encode sessions: %w", err)
	}
	return writeSecret(s.path, content)
}
