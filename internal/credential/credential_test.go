package credential

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// clock is a wall clock that a test moves.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time { return c.at }

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

var testAttempt = domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 2, 3})).Job(0).Attempt(1)

func TestAdminTokenSurvivesARestartAndIsOnlyAcceptedWhole(t *testing.T) {
	folder := t.TempDir()
	first := must[*AdminToken](t)(OpenAdminToken(folder))
	text := strings.TrimSpace(string(must[[]byte](t)(os.ReadFile(first.Path()))))
	again := must[*AdminToken](t)(OpenAdminToken(folder))
	if !first.Verify(text) || !again.Verify(text) {
		t.Fatal("the token in the file is refused")
	}
	for _, wrong := range []string{"", text[:len(text)-1], text + "x", strings.ToUpper(text),
		strings.Repeat("x", 1<<20)} {
		if again.Verify(wrong) {
			t.Errorf("accepted %.40q", wrong)
		}
	}
	if err := again.Rotate(); err != nil {
		t.Fatal(err)
	}
	if again.Verify(text) {
		t.Error("the old token is accepted after a rotation")
	}
}

// Promises: [ACC-5].
func TestSecretFilesAreOnlyForTheirOwner(t *testing.T) {
	folder := t.TempDir()
	_ = must[*Gate](t)(OpenGate(folder, newClock().now))
	_ = must[*Signer](t)(OpenSigner(folder, newClock().now))
	files := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		mode := must[fs.FileInfo](t)(entry.Info()).Mode()
		if mode.Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, mode)
		}
		if !entry.IsDir() {
			files++
		}
		return nil
	})
	if err != nil || files != 4 {
		t.Fatalf("walked %d files, %v; want 4: token, sessions, two keys", files, err)
	}
}

// Promises: [ACC-5].
func TestASecretThatOthersCanReadIsRefused(t *testing.T) {
	folder := t.TempDir()
	token := must[*AdminToken](t)(OpenAdminToken(folder))
	if err := os.Chmod(token.Path(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAdminToken(folder); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Fatalf("got %v, want a refusal that says what to do", err)
	}
}

// Promises: [ACC-6].
func TestACodeSignsInOnce(t *testing.T) {
	clock := newClock()
	sessions := must[*Sessions](t)(OpenSessions(t.TempDir(), clock.now))
	code := sessions.NewCode().Reveal()
	cookie, ok, err := sessions.Redeem(code)
	if !ok || err != nil || !sessions.Verify(cookie.Reveal()) {
		t.Fatalf("redeem: %v %v", ok, err)
	}
	if _, ok, _ := sessions.Redeem(code); ok {
		t.Error("the code worked twice")
	}
	late := sessions.NewCode().Reveal()
	clock.at = clock.at.Add(CodeLife)
	if _, ok, _ := sessions.Redeem(late); ok {
		t.Error("the code worked after its life")
	}
	for _, wrong := range []string{"", "flc_", strings.Repeat("x", 1<<20)} {
		if _, ok, _ := sessions.Redeem(wrong); ok {
			t.Errorf("accepted code %.20q", wrong)
		}
	}
}

func TestSessionsSurviveARestartAndEnd(t *testing.T) {
	folder, clock := t.TempDir(), newClock()
	sessions := must[*Sessions](t)(OpenSessions(folder, clock.now))
	cookie := must[domain.Secret](t)(sessions.Begin()).Reveal()
	content := must[[]byte](t)(os.ReadFile(filepath.Join(folder, "credentials", "sessions.json")))
	if bytes.Contains(content, []byte(cookie)) {
		t.Fatal("the file holds the cookie itself")
	}
	again := must[*Sessions](t)(OpenSessions(folder, clock.now))
	if again.CookieName() != sessions.CookieName() || !again.Verify(cookie) {
		t.Fatal("a restart ended the session")
	}
	for range 5 { // used daily, it lives on
		clock.at = clock.at.Add(SessionIdle - time.Hour)
		if clock.at.Sub(newClock().at) < SessionLife && !again.Verify(cookie) {
			t.Fatalf("a used session ended after %v", clock.at.Sub(newClock().at))
		}
	}
	if again.Verify(cookie) {
		t.Error("a session outlived SessionLife")
	}
	idle := must[domain.Secret](t)(again.Begin()).Reveal()
	clock.at = clock.at.Add(SessionIdle)
	if again.Verify(idle) {
		t.Error("an idle session outlived SessionIdle")
	}
	ended := must[domain.Secret](t)(again.Begin()).Reveal()
	if err := again.End(ended); err != nil || again.Verify(ended) {
		t.Errorf("signed out, still in: %v", err)
	}
}

func TestSessionsAndCodesAreBounded(t *testing.T) {
	clock := newClock()
	sessions := must[*Sessions](t)(OpenSessions(t.TempDir(), clock.now))
	first := sessions.NewCode().Reveal()
	for range codesMax {
		clock.at = clock.at.Add(time.Second)
		sessions.NewCode()
	}
	if _, ok, _ := sessions.Redeem(first); ok || len(sessions.codes) > codesMax {
		t.Errorf("oldest code still works, %d codes", len(sessions.codes))
	}
	for i := range sessionsMax {
		sessions.sessions[fingerprintOf(fmt.Sprint(i))] = &session{Began: clock.at, Used: clock.at}
	}
	if _ = must[domain.Secret](t)(sessions.Begin()); len(sessions.sessions) > sessionsMax {
		t.Errorf("%d sessions", len(sessions.sessions))
	}
}

// Promises: [ACC-3].
func TestAttemptTokenNamesItsAttemptAndNothingElse(t *testing.T) {
	folder, clock := t.TempDir(), newClock()
	tokens := must[*AttemptTokens](t)(OpenAttemptTokens(folder, clock.now))
	claim := AttemptClaim{Tenant: "tnt_default", Attempt: testAttempt, Epoch: 7}
	text := tokens.Mint(claim).Reveal()
	if tokens.Mint(claim).Reveal() != text {
		t.Error("the same claim gave another token")
	}
	again := must[*AttemptTokens](t)(OpenAttemptTokens(folder, clock.now))
	if got, ok := again.Verify(text); !ok || got != claim {
		t.Fatalf("got %v %v, want %v", got, ok, claim)
	}
	for i := range text { // no single change goes through
		changed := []byte(text)
		changed[i] ^= 1
		if got, ok := again.Verify(string(changed)); ok {
			t.Fatalf("byte %d changed and still accepted as %v", i, got)
		}
	}
	other := must[*AttemptTokens](t)(OpenAttemptTokens(t.TempDir(), clock.now))
	if _, ok := other.Verify(text); ok {
		t.Error("another server's token was accepted")
	}
	if fmt.Sprintf("%v %+v %#v", tokens.Mint(claim), tokens.Mint(claim), tokens.Mint(claim)) !=
		"[secret] [secret] [secret]" {
		t.Error("a minted token prints itself")
	}
}

func FuzzVerifyAttemptToken(f *testing.F) {
	tokens, err := OpenAttemptTokens(f.TempDir(), newClock().now)
	if err != nil {
		f.Fatal(err)
	}
	genuine := tokens.Mint(AttemptClaim{Tenant: "t", Attempt: testAttempt, Epoch: 1}).Reveal()
	for _, seed := range []string{"", "fat_", genuine, genuine[:20], "fat_" + strings.Repeat("A", 200),
		"fat_=\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if claim, ok := tokens.Verify(text); ok && text != genuine {
			t.Fatalf("forged %q as %v", text, claim)
		}
	})
}

// Promises: [ACC-3].
func TestGateAsksWhetherTheAttemptLives(t *testing.T) {
	gate := must[*Gate](t)(OpenGate(t.TempDir(), newClock().now))
	claim := AttemptClaim{Tenant: "tnt_default", Attempt: testAttempt, Epoch: 1}
	text := gate.Attempts.Mint(claim).Reveal()
	if _, ok := gate.Token(t.Context(), text); ok {
		t.Fatal("accepted without anybody to ask")
	}
	live := true
	var refused []AttemptClaim
	gate.Live = func(_ context.Context, c AttemptClaim) bool { return live && c == claim }
	gate.Refused = func(_ context.Context, c AttemptClaim) { refused = append(refused, c) }
	principal, ok := gate.Token(t.Context(), text)
	if !ok || principal.Kind != KindAttempt || principal.Attempt != claim {
		t.Fatalf("got %+v %v", principal, ok)
	}
	live = false
	if _, ok := gate.Token(t.Context(), text); ok || len(refused) != 1 || refused[0] != claim {
		t.Fatalf("a dead attempt: accepted %v, told of %v", ok, refused)
	}
	if principal, ok := gate.Token(t.Context(), "fla_wrong"); ok || principal != (Principal{}) {
		t.Fatalf("wrong token: %+v %v", principal, ok)
	}
}

// Promises: [ACC-12].
func TestKeysArePublishedBeforeUseAndKeptAfter(t *testing.T) {
	folder, clock := t.TempDir(), newClock()
	signer := must[*Signer](t)(OpenSigner(folder, clock.now))
	verify := func(id string, signature []byte) bool {
		for _, key := range signer.PublicKeys() {
			if key.ID == id {
				return ed25519.Verify(key.Key, []byte("payload"), signature)
			}
		}
		return false
	}
	first, old := signer.Sign([]byte("payload"))
	if !verify(first, old) {
		t.Fatal("own signature does not verify")
	}
	clock.at = clock.at.Add(KeyUse - KeyLead)
	if err := signer.Tend(); err != nil || len(signer.PublicKeys()) != 2 {
		t.Fatalf("tend: %v, %d keys", err, len(signer.PublicKeys()))
	}
	if id, _ := signer.Sign([]byte("payload")); id != first {
		t.Fatal("the next key signs before it was published for KeyLead")
	}
	clock.at = clock.at.Add(KeyLead)
	second, fresh := signer.Sign([]byte("payload"))
	if second == first || !verify(second, fresh) || !verify(first, old) {
		t.Fatal("after the change both keys must verify, and the new one sign")
	}
	signer = must[*Signer](t)(OpenSigner(folder, clock.now))
	if id, _ := signer.Sign([]byte("payload")); id != second {
		t.Fatal("a restart changed the active key")
	}
	clock.at = clock.at.Add(KeyKeep + time.Second)
	if err := signer.Tend(); err != nil || verify(first, old) || !verify(second, fresh) {
		t.Fatalf("after KeyKeep the first key must be gone: %v", err)
	}
	if left := must[[]keyFile](t)(loadKeys(folder, useManifest, ed25519.SeedSize)); len(left) != 1 {
		t.Fatalf("%d key files left", len(left))
	}
}

// A data folder may have any name: the characters that patterns are made of are no patterns
// in it, and a server that starts again there has the keys that it had.
func TestKeysAreFoundInAFolderOfAnyName(t *testing.T) {
	for _, name := range []string{"a[b]", "a*b", "a?b", "a[", `a\b`} {
		folder := filepath.Join(t.TempDir(), name)
		prover := must[*Prover](t)(OpenProver(folder, newClock().now))
		_ = must[*Gate](t)(OpenGate(folder, newClock().now))
		_ = must[*Signer](t)(OpenSigner(folder, newClock().now))
		_ = must[*Gate](t)(OpenGate(folder, newClock().now))
		_ = must[*Signer](t)(OpenSigner(folder, newClock().now))
		if again := must[*Prover](t)(OpenProver(folder, newClock().now)); again.Key() != prover.Key() {
			t.Errorf("in %s a proof's key became another one", name)
		}
		if entries := must[[]fs.DirEntry](t)(os.ReadDir(filepath.Join(folder, folderKeys))); len(entries) != 3 {
			t.Errorf("in %s there are %d keys after a restart, want 3: %v", name, len(entries), entries)
		}
	}
}

func TestRegistrationTokenDigest(t *testing.T) {
	text, digest := NewRegistrationToken()
	if got, ok := RegistrationDigest(text.Reveal()); !ok || got != digest || !digest.Valid() {
		t.Fatalf("got %v %v, want %v", got, ok, digest)
	}
	for _, wrong := range []string{"", "frt_", text.Reveal() + "x", strings.Repeat("x", 47)} {
		if _, ok := RegistrationDigest(wrong); ok {
			t.Errorf("accepted %q", wrong)
		}
	}
}

// Promises: [ACC-8].
func TestCheckListen(t *testing.T) {
	for addr, plain := range map[string]bool{
		"127.0.0.1:0": true, "127.8.8.8:80": true, "[::1]:8080": true, "localhost:8080": true,
		"[::ffff:127.0.0.1]:1": true,
		":8080":                false, "0.0.0.0:8080": false, "[::]:80": false, "192.168.1.4:80": false,
		"ci.example.org:443": false, "localhost.example.org:80": false,
	} {
		if err := CheckListen(addr, false); (err == nil) != plain {
			t.Errorf("%s without TLS: %v", addr, err)
		}
		if err := CheckListen(addr, true); err != nil {
			t.Errorf("%s with TLS: %v", addr, err)
		}
	}
	if CheckListen("no port", true) == nil {
		t.Error("accepted an address without port")
	}
}

func TestActors(t *testing.T) {
	for _, c := range []struct {
		principal Principal
		want      domain.Actor
	}{
		{admin(ViaAdminToken), domain.Actor{Kind: "token", ID: "admin", Via: "admin_token"}},
		{admin(ViaSessionCookie), domain.Actor{Kind: "user", ID: "admin", Via: "session_cookie"}},
		{Runner("ses_x"), domain.Actor{Kind: "runner", ID: "ses_x", Via: "runner_session"}},
	} {
		if got := c.principal.Actor(); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
	if admin(ViaAdminToken).Scope() != admin(ViaSessionCookie).Scope() {
		t.Error("the same person has two scopes for idempotency keys")
	}
}

func TestCertificateIsReadAgainWhenRenewed(t *testing.T) {
	folder := t.TempDir()
	certFile, keyFile := filepath.Join(folder, "c.pem"), filepath.Join(folder, "k.pem")
	writeCertificate(t, certFile, keyFile, 1)
	config := must[*tls.Config](t)(LoadTLS(certFile, keyFile))
	if config.MinVersion < tls.VersionTLS12 {
		t.Error("old TLS versions are allowed")
	}
	pair := must[tls.Certificate](t)(tls.LoadX509KeyPair(certFile, keyFile))
	held := &certificate{certFile: certFile, keyFile: keyFile, pair: &pair, modified: modified(certFile)}
	writeCertificate(t, certFile, keyFile, 2)
	now := time.Now().Add(time.Hour)
	if err := os.Chtimes(certFile, now, now); err != nil {
		t.Fatal(err)
	}
	if serial := held.current(now).Leaf.SerialNumber.Int64(); serial != 2 {
		t.Fatalf("serves serial %d after the renewal", serial)
	}
	if err := os.WriteFile(certFile, []byte("half written"), 0o600); err != nil {
		t.Fatal(err)
	}
	if serial := held.current(now.Add(2 * certCheckEvery)).Leaf.SerialNumber.Int64(); serial != 2 {
		t.Fatal("a broken renewal replaced a good certificate")
	}
}
