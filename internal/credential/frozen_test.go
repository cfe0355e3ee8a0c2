package credential

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/testkit/frozen"
)

var rewrite = flag.Bool("rewrite", false, "write golden files that don't exist yet")

func golden(name string) frozen.Form {
	return frozen.Form{Name: "testdata/frozen/" + name, Newest: 1, Text: true, Rewrite: *rewrite}
}

// oldFolder is the data folder of a server of before, with these golden files in it.
func oldFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for path, name := range files {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, golden(name).Read(t, 1), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// Keys of the tests. They are in the repository, so they are no secrets.
var (
	frozenFrom = time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	frozenText = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8" // of what newText makes of 32 bytes
)

func frozenKey(use string) keyFile {
	return keyFile{ID: "00112233445566ff", Use: use, From: frozenFrom, Secret: bytes.Repeat([]byte{7}, 32)}
}

// The files of keys are copied between servers, and are in backups.
// Promises: [FORMAT-18].
func TestFrozenKeys(t *testing.T) {
	for _, use := range []string{useManifest, useAttempt, useToken} {
		folder := t.TempDir()
		key, err := makeKey(folder, use, 32, frozenFrom)
		if err != nil {
			t.Fatal(err)
		}
		written := must[[]byte](t)(os.ReadFile(keyPath(folder, use, key.ID)))
		// The id and the secret are random: here they are those of the file.
		text := base64.StdEncoding.EncodeToString
		written = bytes.ReplaceAll(written, []byte(key.ID), []byte(frozenKey(use).ID))
		written = bytes.ReplaceAll(written, []byte(text(key.Secret)), []byte(text(frozenKey(use).Secret)))
		golden("key-"+use).Written(t, written)
		old := oldFolder(t, map[string]string{"keys/" + use + "-00112233445566ff.key": "key-" + use})
		keys, err := loadKeys(old, use, 32)
		if err != nil || len(keys) != 1 || fmt.Sprint(keys[0]) != fmt.Sprint(frozenKey(use)) {
			t.Errorf("%s: read as %+v, %v", use, keys, err)
		}
	}
}

// What a client or a runner holds over an upgrade: a token of an attempt, an acknowledgement
// token with its proof, a signature.
// Promises: [FORMAT-18].
func TestFrozenTokens(t *testing.T) {
	now := newClock().now
	folder := oldFolder(t, map[string]string{
		"keys/manifest-00112233445566ff.key":        "key-manifest",
		"keys/attempt-00112233445566ff.key":         "key-attempt",
		"keys/acknowledgement-00112233445566ff.key": "key-acknowledgement",
	})
	attempts := must[*AttemptTokens](t)(OpenAttemptTokens(folder, now))
	claim := AttemptClaim{Tenant: "tnt_default", Attempt: testAttempt, Epoch: 700}
	form := golden("attempt-token")
	form.Written(t, []byte(attempts.Mint(claim).Reveal()))
	if got, ok := attempts.Verify(string(form.Read(t, 1))); !ok || got != claim {
		t.Errorf("the attempt's token is read as %+v, %v", got, ok)
	}

	prover := must[*Prover](t)(OpenProver(folder, now))
	text, proof := golden("acknowledgement-token"), golden("acknowledgement-proof")
	text.Written(t, []byte(someToken.String()))
	proof.Written(t, []byte(prover.Prove(someToken)))
	token, ok := domain.ParseProvenToken(string(text.Read(t, 1)), string(proof.Read(t, 1)))
	want := someToken
	want.Proof = token.Proof
	if !ok || token != want || prover.Examine(token) != domain.StandingProved {
		t.Errorf("the acknowledgement token is read as %+v, %v, and is %s", token, ok, prover.Examine(token))
	}

	signer := must[*Signer](t)(OpenSigner(folder, now))
	id, signature := signer.Sign([]byte("payload"))
	public := ed25519.NewKeyFromSeed(frozenKey(useManifest).Secret).Public().(ed25519.PublicKey)
	if id != "00112233445566ff" || !ed25519.Verify(public, []byte("payload"), signature) {
		t.Errorf("key %s signs otherwise", id)
	}
}

// A browser stays signed in, and the file that knows its session by fingerprint is read.
// Promises: [FORMAT-18].
func TestFrozenSessions(t *testing.T) {
	clock, cookie, code := newClock(), prefixSession+frozenText, prefixCode+frozenText
	written := &Sessions{path: filepath.Join(t.TempDir(), "sessions.json"), now: clock.now,
		name: "fairlead_session_0a0b0c0d", shared: true,
		codes:    map[fingerprint]time.Time{fingerprintOf(code): frozenFrom.Add(2 * time.Hour)},
		sessions: map[fingerprint]*session{fingerprintOf(cookie): {Began: frozenFrom, Used: frozenFrom.Add(time.Minute)}}}
	if err := written.save(); err != nil {
		t.Fatal(err)
	}
	golden("sessions").Written(t, must[[]byte](t)(os.ReadFile(written.path)))

	folder := oldFolder(t, map[string]string{"credentials/sessions.json": "sessions"})
	sessions := must[*Sessions](t)(OpenSessions(folder, clock.now))
	if err := sessions.share(); err != nil {
		t.Fatal(err)
	}
	if !sessions.Verify(cookie) || sessions.Verify(cookie+"x") || sessions.CookieName() != "fairlead_session_0a0b0c0d" {
		t.Errorf("the session is not known; the cookie is %s", sessions.CookieName())
	}
	if fresh, ok, err := sessions.Redeem(code); err != nil || !ok || !sessions.Verify(fresh.Reveal()) {
		t.Errorf("the sign-in code is not known: %v, %v", ok, err)
	}
}

// Texts that people and machines have stored: prefix and 43 letters.
// Promises: [FORMAT-18].
func TestFrozenTexts(t *testing.T) {
	folder := oldFolder(t, map[string]string{"credentials/admin-token": "admin-token",
		"credentials/peer-secret": "peer-secret"})
	if admin := must[*AdminToken](t)(OpenAdminToken(folder)); !admin.Verify("fla_" + frozenText) {
		t.Error("the administrator's token is refused")
	}
	peer := must[*PeerSecret](t)(OpenPeerSecret(folder))
	if !peer.Verify("flp_"+frozenText) || peer.Text().Reveal() != "flp_"+frozenText {
		t.Error("the secret of the fleet is refused")
	}
	const want = "sha256:eadd43833fb5d41a0901e9d736d62770a095c351a8b1e088f6827efdf965a398"
	if digest, ok := RegistrationDigest("frt_" + frozenText); !ok || digest != want {
		t.Errorf("the token of a registration digests to %s, %v", digest, ok)
	}
	for prefix, text := range map[string]string{
		"fla_": newText(prefixAdmin), "fls_": newText(prefixSession), "flc_": newText(prefixCode),
		"flp_": newText(prefixPeer), "frt_": newText(prefixRegistration),
	} {
		if text[:4] != prefix || len(text) != 4+43 {
			t.Errorf("%s is made as %s", prefix, text)
		}
	}
}
