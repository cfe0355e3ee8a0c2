package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

const (
	useToken     = "acknowledgement"
	tokenKeySize = 32
	proofBytes   = 16 // of the MAC that a proof holds; nobody can try many, each try is a call
	proofLabel   = "fairlead acknowledgement token v1\x00"
)

// Prover proves of acknowledgement tokens that this installation gave them: with a MAC under
// a key that all its servers share. It is safe for concurrent use.
type Prover struct {
	folder string // "" when its key is in no file
	now    func() time.Time
	tend   sync.Mutex
	keys   atomic.Pointer[[]*proofKey] // oldest first, never empty
}

// proofKey is a key with states of its MAC that wait to be used again.
type proofKey struct {
	file   keyFile
	states sync.Pool // of *macState
}

type macState struct {
	hash hash.Hash
	body []byte
}

func newProofKey(file keyFile) *proofKey {
	k := &proofKey{file: file}
	k.states.New = func() any { return &macState{hash: hmac.New(sha256.New, file.Secret)} }
	return k
}

// OpenProver reads DATA/keys/acknowledgement-*.key and makes the first key when there is
// none. Precondition: where several servers share the folder, the caller holds the lock of
// Lock, so that no two of them make the first one.
func OpenProver(dataFolder string, now func() time.Time) (*Prover, error) {
	keys, err := loadKeys(dataFolder, useToken, tokenKeySize)
	if err != nil {
		return nil, err
	}
	p := &Prover{folder: dataFolder, now: now}
	p.hold(keys)
	return p, p.Tend()
}

// NewProver makes one of a key that is in no file, for worlds and tests that repeat. id is
// domain.ProofKeyBytes of hexadecimal text.
func NewProver(id string, secret []byte) *Prover {
	p := &Prover{now: func() time.Time { return time.Time{} }}
	p.hold([]keyFile{{ID: id, Use: useToken, Secret: secret}})
	return p
}

func (p *Prover) hold(files []keyFile) {
	keys := make([]*proofKey, len(files))
	for i, file := range files {
		keys[i] = newProofKey(file)
	}
	p.keys.Store(&keys)
}

// Tend rotates keys when it is time, and finds those that another server made; call it once
// a day. A key that stopped proving is kept as long as every other key: a token of before
// counts as another installation's afterwards. One whose file is put back later proves again
// for as long.
func (p *Prover) Tend() error {
	if p.folder == "" {
		return nil
	}
	p.tend.Lock()
	defer p.tend.Unlock()
	var held []keyFile
	for _, k := range *p.keys.Load() {
		held = append(held, k.file)
	}
	keys, err := tend(p.folder, useToken, tokenKeySize, reread(p.folder, useToken, tokenKeySize, held), p.now())
	if len(keys) > 0 {
		p.hold(keys)
	}
	return err
}

// Key is the id of the key that proves now.
func (p *Prover) Key() string { return p.active().file.ID }

func (p *Prover) active() *proofKey {
	keys := *p.keys.Load()
	if len(keys) == 1 {
		return keys[0]
	}
	at, now := 0, p.now()
	for i, k := range keys {
		if !k.file.From.After(now) {
			at = i
		}
	}
	return keys[at]
}

// Prove makes the proof of a token; the one that it has does not count.
func (p *Prover) Prove(token domain.Token) domain.Proof {
	k := p.active()
	var out [domain.ProofKeyBytes + 1 + domain.ProofMACBytes]byte
	copy(out[:], k.file.ID)
	out[domain.ProofKeyBytes] = '.'
	sum := k.mac(token)
	base64.RawURLEncoding.Encode(out[domain.ProofKeyBytes+1:], sum[:])
	return domain.Proof(out[:])
}

// Examine says what the proof of a token is worth.
//
// Trust: the token comes from anybody; nothing in it is believed unless it is proved.
func (p *Prover) Examine(token domain.Token) domain.Standing {
	proof := domain.ParseProof(string(token.Proof))
	if proof == "" {
		return domain.StandingUnproved
	}
	for _, k := range *p.keys.Load() {
		if k.file.ID != proof.Key() {
			continue
		}
		said, err := base64.RawURLEncoding.Strict().DecodeString(string(proof[domain.ProofKeyBytes+1:]))
		if sum := k.mac(token); err == nil && hmac.Equal(sum[:], said) {
			return domain.StandingProved
		}
		return domain.StandingForged
	}
	return domain.StandingForeign
}

// mac covers everything that a token states, each text with its length.
func (k *proofKey) mac(token domain.Token) (out [proofBytes]byte) {
	state, _ := k.states.Get().(*macState)
	defer k.states.Put(state)
	body := append(state.body[:0], proofLabel...)
	body = binary.AppendUvarint(body, uint64(len(token.Partition)))
	body = append(body, token.Partition...)
	body = binary.AppendUvarint(body, token.Epoch)
	body = binary.AppendUvarint(body, token.Position)
	body = binary.AppendUvarint(body, uint64(len(token.Digest)))
	body = append(body, token.Digest...)
	state.hash.Reset()
	state.hash.Write(body)
	state.body = state.hash.Sum(body[:0])
	copy(out[:], state.body)
	return out
}
