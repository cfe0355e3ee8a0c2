package credential

import (
	"context"
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
	shared   bool      // other servers write the file too, and codes are in it
	looked   time.Time // when the file was looked at last
	stamp    time.Time // of the file as it was read or written last
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
	// Codes are sign-in codes that any server of a fleet redeems, by fingerprint.
	Codes map[string]time.Time `json:"codes,omitempty"`
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
	return s, s.decode(content)
}

// decode takes in what the file holds.
func (s *Sessions) decode(content []byte) error {
	var file sessionsFile
	if err := json.Unmarshal(content, &file); err != nil {
		return fmt.Errorf("read sessions %s: %w; remove the file to sign everybody out", s.path, err)
	}
	s.name = file.Name
	before := s.sessions
	s.sessions = make(map[fingerprint]*session, len(file.Sessions))
	for text, one := range file.Sessions {
		if key, ok := parseFingerprint(text); ok && one != nil {
			one.saved = one.Used
			if known := before[key]; known != nil && known.Used.After(one.Used) {
				one.Used = known.Used
			}
			s.sessions[key] = one
		}
	}
	if !s.shared {
		return nil // codes live as long as the process
	}
	s.codes = make(map[fingerprint]time.Time, len(file.Codes))
	for text, until := range file.Codes {
		if key, ok := parseFingerprint(text); ok {
			s.codes[key] = until
		}
	}
	return nil
}

func parseFingerprint(text string) (key fingerprint, ok bool) {
	if hex.DecodedLen(len(text)) != len(key) {
		return key, false
	}
	_, err := hex.Decode(key[:], []byte(text))
	return key, err == nil
}

func (s *Sessions) share() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = true
	return s.load()
}

// load reads the file again. The caller holds mu.
func (s *Sessions) load() error {
	s.stamp, s.looked = modified(s.path), s.now()
	content, err := readSecret(s.path)
	if err != nil {
		return err
	}
	return s.decode(content)
}

// look reads the file if another server has changed it; unless it is urgent, it looks at
// most once in lookEvery. What can't be read now leaves everything as it was. The caller
// holds mu.
func (s *Sessions) look(urgent bool) {
	if !s.shared || !urgent && s.now().Sub(s.looked) < lookEvery {
		return
	}
	s.looked = s.now()
	if !modified(s.path).Equal(s.stamp) {
		_ = s.load()
	}
}

// change does something to sessions and codes and writes them, with the changes of other
// servers taken in before. The caller holds mu.
func (s *Sessions) change(act func()) error {
	if s.shared {
		unlock, err := Lock(context.Background(), filepath.Dir(filepath.Dir(s.path)))
		if err != nil {
			return err
		}
		defer unlock()
		if err := s.load(); err != nil {
			return err
		}
	}
	act()
	err := s.save()
	s.stamp = modified(s.path)
	return err
}

// CookieName is the name of this server's cookie. Cookies ignore ports, so two servers on
// one machine would sign each other out under a common name.
func (s *Sessions) CookieName() string { return s.name }

// NewCode makes the code of a sign-in link. In a shared folder that can't be written it is
// good at this server only.
func (s *Sessions) NewCode() domain.Secret {
	text := newText(prefixCode)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shared {
		s.addCode(fingerprintOf(text))
	} else if err := s.change(func() { s.addCode(fingerprintOf(text)) }); err != nil {
		s.addCode(fingerprintOf(text))
	}
	return domain.NewSecret(text)
}

// addCode notes a code. The caller holds mu.
func (s *Sessions) addCode(code fingerprint) {
	now := s.now()
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
	s.codes[code] = now.Add(CodeLife)
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
	until, known, err := s.spend(key)
	if err != nil {
		return domain.Secret{}, false, err
	}
	if !known || !until.After(s.now()) {
		return domain.Secret{}, false, nil
	}
	cookie, err = s.Begin()
	return cookie, err == nil, err
}

// spend takes a code away, so that it works once, whichever servers it is shown to.
func (s *Sessions) spend(code fingerprint) (until time.Time, known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared {
		err = s.change(func() {
			until, known = s.codes[code]
			delete(s.codes, code)
		})
		return until, known, err
	}
	until, known = s.codes[code]
	delete(s.codes, code)
	return until, known, nil
}

// Begin opens a session for somebody who proved to be the administrator just now. Every
// sign-in gets a session of its own, so a cookie planted before is worth nothing.
func (s *Sessions) Begin() (cookie domain.Secret, err error) {
	text := newText(prefixSession)
	now := s.now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fingerprintOf(text)
	err = s.change(func() {
		s.evict(now)
		s.sessions[key] = &session{Began: now, Used: now, saved: now}
	})
	if err != nil {
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
	s.look(s.sessions[key] == nil) // it may have begun at another server a moment ago
	one, known := s.sessions[key]
	if !known || !one.lives(now) {
		return false
	}
	one.Used = now
	if now.Sub(one.saved) >= renewalPersist {
		// A renewal that can't be written costs an early sign-in after a restart, no more.
		_ = s.change(func() {
			if one := s.sessions[key]; one != nil { // another server may have ended it
				one.Used, one.saved = now, now
			}
		})
	}
	return s.sessions[key] != nil
}

// End closes a session; it is not an error when there was none.
func (s *Sessions) End(cookie string) error {
	key := fingerprintOf(cookie)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.sessions[key]; !known && !s.shared {
		return nil
	}
	return s.change(func() { delete(s.sessions, key) })
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
	if s.shared {
		file.Codes = make(map[string]time.Time, len(s.codes))
		for key, until := range s.codes {
			file.Codes[hex.EncodeToString(key[:])] = until
		}
	}
	content, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return fmt.Errorf("encode sessions: %w", err)
	}
	return writeSecret(s.path, content)
}
