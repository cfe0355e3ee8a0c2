package credential

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

var someToken = domain.Token{Partition: "main-0", Epoch: 3, Position: 231, Digest: domain.DigestOf([]byte("x"))}

func TestAProofIsOfOneTokenAndOneKey(t *testing.T) {
	clock := newClock()
	p := must[*Prover](t)(OpenProver(t.TempDir(), clock.now))
	other := must[*Prover](t)(OpenProver(t.TempDir(), clock.now))
	token := someToken
	token.Proof = p.Prove(token)
	if domain.ParseProof(string(token.Proof)) != token.Proof || token.Proof.Key() != p.Key() {
		t.Fatalf("the proof %q has not the form of one, or not key %s", token.Proof, p.Key())
	}
	if p.Prove(token) != token.Proof || p.Examine(token) != domain.StandingProved {
		t.Fatal("it is not proved")
	}
	for name, change := range map[string]func(*domain.Token){
		"partition": func(t *domain.Token) { t.Partition = "main-1" },
		"epoch":     func(t *domain.Token) { t.Epoch++ },
		"position":  func(t *domain.Token) { t.Position++ },
		"digest":    func(t *domain.Token) { t.Digest = domain.DigestOf(nil) },
		"mac":       func(t *domain.Token) { t.Proof = t.Proof[:17] + domain.Proof(strings.Repeat("A", 22)) },
		// 16 bytes take 22 letters of which the last has four bits too many: none is let through.
		"spare bits": func(t *domain.Token) { t.Proof = t.Proof[:len(t.Proof)-1] + "B" },
	} {
		changed := token
		change(&changed)
		if got := p.Examine(changed); got != domain.StandingForged {
			t.Errorf("another %s is %s", name, got)
		}
	}
	if got := other.Examine(token); got != domain.StandingForeign {
		t.Errorf("to another installation it is %s", got)
	}
	token.Proof = ""
	if got := p.Examine(token); got != domain.StandingUnproved {
		t.Errorf("without a proof it is %s", got)
	}
}

// The form is fixed: tokens outlive versions.
func TestTheProofOfATokenIsFixed(t *testing.T) {
	p := NewProver("00112233445566ff", bytes.Repeat([]byte{7}, tokenKeySize))
	if got := p.Prove(someToken); got != "00112233445566ff.c95ETYS-JXvRn3tBMidQ3w" {
		t.Errorf("the proof is %s", got)
	}
}

func TestAKeyOfProofsIsPrivateAndRotates(t *testing.T) {
	clock := newClock()
	folder := t.TempDir()
	p := must[*Prover](t)(OpenProver(folder, clock.now))
	path := filepath.Join(folder, "keys", "acknowledgement-"+p.Key()+".key")
	if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != 0o600 {
		t.Fatalf("the key file: %v, %v", stat, err)
	}
	aged := func(at time.Time) {
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	aged(clock.at)
	content := must[[]byte](t)(os.ReadFile(path))
	first, token := p.Key(), someToken
	token.Proof = p.Prove(token)
	clock.at = clock.at.Add(KeyUse - KeyLead)
	if err := p.Tend(); err != nil {
		t.Fatal(err)
	}
	second := must[*Prover](t)(OpenProver(folder, clock.now))
	if second.Key() != first {
		t.Error("the next key proves before its time")
	}
	clock.at = clock.at.Add(KeyLead)
	for _, prover := range []*Prover{p, second} {
		if prover.Key() == first || prover.Examine(token) != domain.StandingProved {
			t.Errorf("after the rotation key %s, and an old token is %s", prover.Key(), prover.Examine(token))
		}
	}
	clock.at = clock.at.Add(KeyKeep + time.Second)
	if err := second.Tend(); err != nil || second.Examine(token) != domain.StandingForeign {
		t.Errorf("after its time the key counts as %s, %v", second.Examine(token), err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	put := clock.at
	aged(put)
	third := must[*Prover](t)(OpenProver(folder, clock.now))
	for _, later := range []time.Duration{0, KeyKeep} {
		clock.at = put.Add(later)
		for _, prover := range []*Prover{second, third} {
			if err := prover.Tend(); err != nil || prover.Examine(token) != domain.StandingProved || prover.Key() == first {
				t.Errorf("%s after it was put back, the key counts as %s, %v", later, prover.Examine(token), err)
			}
		}
	}
	clock.at = put.Add(KeyKeep + time.Second)
	if err := third.Tend(); err != nil || third.Examine(token) != domain.StandingForeign {
		t.Errorf("long after it was put back the key counts as %s, %v", third.Examine(token), err)
	}
}

// Servers that start together make one key.
func TestServersThatStartTogetherProveWithOneKey(t *testing.T) {
	folder := t.TempDir()
	var mu sync.Mutex
	keys := map[string]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			unlock, err := Lock(context.Background(), folder)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			p, err := OpenProver(folder, time.Now)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			keys[p.Key()] = true
		})
	}
	all.Wait()
	if len(keys) != 1 {
		t.Errorf("keys %v", keys)
	}
}

func TestProvingIsSafeForConcurrentUse(t *testing.T) {
	p := NewProver("00112233445566ff", bytes.Repeat([]byte{7}, tokenKeySize))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 500 {
				token := someToken
				token.Position = uint64(1000*i + n)
				token.Proof = p.Prove(token)
				if p.Examine(token) != domain.StandingProved {
					t.Errorf("position %d is not proved", token.Position)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkProve(b *testing.B) {
	p := NewProver("00112233445566ff", bytes.Repeat([]byte{7}, tokenKeySize))
	b.ReportAllocs()
	for b.Loop() {
		p.Prove(someToken)
	}
}
