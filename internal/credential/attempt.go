package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

const (
	useAttempt   = "attempt"
	attemptBytes = 32
	claimVersion = 1
	keyIDBytes   = 16 // hex text of eight bytes
)

// AttemptClaim is what an attempt's token says: this attempt, under this lease epoch.
type AttemptClaim struct {
	Tenant  domain.TenantID
	Attempt domain.AttemptID
	Epoch   uint64
}

// AttemptTokens makes and checks the tokens that attempts authenticate with. A token is
// not stored anywhere: it is its claim and a MAC, and whether the attempt still lives is
// asked whenever it is presented.
type AttemptTokens struct {
	folder string
	now    func() time.Time

	mu   sync.RWMutex
	keys []keyFile // oldest first, never empty
}

// OpenAttemptTokens reads DATA/keys/attempt-*.key and makes the first key when there is none.
func OpenAttemptTokens(dataFolder string, now func() time.Time) (*AttemptTokens, error) {
	keys, err := loadKeys(dataFolder, useAttempt, attemptBytes)
	if err != nil {
		return nil, err
	}
	t := &AttemptTokens{folder: dataFolder, now: now, keys: keys}
	return t, t.Tend()
}

// Tend rotates keys when it is time; call it once a day.
func (t *AttemptTokens) Tend() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys, err := tend(t.folder, useAttempt, attemptBytes, reread(t.folder, useAttempt, attemptBytes, t.keys), t.now())
	if len(keys) > 0 {
		t.keys = keys
	}
	return err
}

// Mint makes the token of an attempt. The same claim gives the same token while the same
// key is active.
func (t *AttemptTokens) Mint(claim AttemptClaim) domain.Secret {
	t.mu.RLock()
	key := t.keys[active(t.keys, t.now())]
	t.mu.RUnlock()
	body := claim.encode(key.ID)
	return domain.NewSecret(prefixAttempt + base64.RawURLEncoding.EncodeToString(append(body, mac(key, body)...)))
}

// Verify reads the claim of a token that this server made. It doesn't say that the attempt
// is alive.
//
// Trust: text comes from anybody; nothing in it is believed before the MAC agreed.
func (t *AttemptTokens) Verify(text string) (AttemptClaim, bool) {
	encoded, ok := strings.CutPrefix(text, prefixAttempt)
	if !ok || len(encoded) > textBytesMax {
		return AttemptClaim{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(raw) < 1+keyIDBytes+sha256.Size {
		return AttemptClaim{}, false
	}
	body, sum := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	id := string(body[1 : 1+keyIDBytes])
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, key := range t.keys {
		if key.ID == id && hmac.Equal(mac(key, body), sum) {
			return decodeClaim(body)
		}
	}
	return AttemptClaim{}, false
}

func mac(key keyFile, body []byte) []byte {
	sum := hmac.New(sha256.New, key.Secret)
	sum.Write([]byte("fairlead attempt token\x00")) // no other use of the key can make these bytes
	sum.Write(body)
	return sum.Sum(nil)
}

// encode writes version, key id, epoch, tenant and attempt, each text with its length.
func (c AttemptClaim) encode(keyID string) []byte {
	out := append([]byte{claimVersion}, keyID...)
	out = binary.AppendUvarint(out, c.Epoch)
	for _, text := range []string{string(c.Tenant), string(c.Attempt)} {
		out = binary.AppendUvarint(out, uint64(len(text)))
		out = append(out, text...)
	}
	return out
}

func decodeClaim(body []byte) (AttemptClaim, bool) {
	if body[0] != claimVersion {
		return AttemptClaim{}, false
	}
	rest := body[1+keyIDBytes:]
	epoch, n := binary.Uvarint(rest)
	if n <= 0 {
		return AttemptClaim{}, false
	}
	rest = rest[n:]
	var texts [2]string
	for i := range texts {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return AttemptClaim{}, false
		}
		texts[i], rest = string(rest[n:n+int(size)]), rest[n+int(size):]
	}
	claim := AttemptClaim{Tenant: domain.TenantID(texts[0]), Attempt: domain.AttemptID(texts[1]), Epoch: epoch}
	_, _, _, wellFormed := claim.Attempt.Split()
	return claim, len(rest) == 0 && wellFormed
}
