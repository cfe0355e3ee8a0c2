package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// Keys of the installation whose engines are tested, and of another one.
var (
	ours   = credential.NewProver("00000000000000aa", bytes.Repeat([]byte{1}, 32))
	theirs = credential.NewProver("00000000000000bb", bytes.Repeat([]byte{2}, 32))
)

// worthless gives tokens of what is not held whose proof is none of ours, by what it is.
func worthless(like domain.Token) map[domain.Standing]domain.Token {
	like.Position += 1000
	bare, foreign, forged := like, like, like
	bare.Proof = ""
	foreign.Proof = theirs.Prove(foreign)
	// forged keeps the proof of the token that it was made from.
	return map[domain.Standing]domain.Token{domain.StandingUnproved: bare, domain.StandingForeign: foreign,
		domain.StandingForged: forged}
}

func refused(t *testing.T, what string, err error, code domain.Code) *domain.Rejection {
	t.Helper()
	r, ok := domain.AsRejection(err)
	if !ok || r.Code != code {
		t.Fatalf("%s: %v, want %s", what, err, code)
	}
	return r
}

// A token that nothing proves is refused and seen by the operator; the partition goes on. The
// same token with its proof stops it.
// Promises: [HIST-18].
func TestATokenThatNothingProvesStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		counted := map[domain.Standing]int{}
		e := New(Config{Store: memory.New(), Kinds: []*Kind{tallyKind()}, Partitions: []domain.PartitionID{home},
			Owner: "test", Fatal: func(err error) { t.Error(err) }, Prover: ours,
			Log: slog.New(slog.NewTextHandler(&log, nil)), Doubted: func(s domain.Standing) { counted[s]++ }})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		ack, err := e.Submit(t.Context(), envelope("x", tallyCommand{do: "add", n: 1}))
		if err != nil || ours.Examine(ack.Token) != domain.StandingProved {
			t.Fatalf("the answer's token is not proved: %+v, %v", ack, err)
		}
		held := ack.Token
		held.Proof = ""
		if err := e.Present(t.Context(), held); err != nil {
			t.Fatalf("an unproved token of what is held: %v", err)
		}
		ctx := HeldBy(t.Context(), "Runner build-1")
		for standing, token := range worthless(ack.Token) {
			for range 3 {
				r := refused(t, string(standing), e.Present(ctx, token), domain.CodeTokenUnproved)
				if !strings.Contains(r.Message, "Runner build-1 presented") || r.Field != "Fairlead-Token["+string(home)+"]" {
					t.Errorf("%s: field %q: %s", standing, r.Field, r.Message)
				}
			}
			if counted[standing] != 3 {
				t.Errorf("%s: counted %d", standing, counted[standing])
			}
			if n := strings.Count(log.String(), "proof="+string(standing)); n != 1 {
				t.Errorf("%s: %d lines in the log for three tries:\n%s", standing, n, log.String())
			}
		}
		synctest.Wait()
		if _, err := e.Submit(t.Context(), envelope("x", tallyCommand{do: "add", n: 1})); err != nil {
			t.Fatalf("the partition does not go on: %v", err)
		}
		status := e.Status()[0]
		if status.Stopped != nil || status.Claim == nil || status.Claim.Standing != domain.StandingForeign ||
			status.Claim.Key != theirs.Key() || !strings.Contains(status.Claim.Sentence(), ours.Key()) {
			t.Fatalf("shown: %+v, claim %+v", status, status.Claim)
		}
		time.Sleep(doubtsAge)
		_ = e.Present(ctx, worthless(ack.Token)[domain.StandingForged])
		if n := strings.Count(log.String(), "proof=forged"); n != 2 {
			t.Errorf("after a minute it is said %d times", n)
		}

		proved := worthless(ack.Token)[domain.StandingUnproved]
		proved.Proof = ours.Prove(proved)
		refused(t, "a proved token", e.Present(ctx, proved), domain.CodeHistoryLost)
		synctest.Wait()
		higher := proved
		higher.Position++
		higher.Proof = proved.Proof
		refused(t, "a forged one at a stopped partition", e.Present(ctx, higher), domain.CodeHistoryLost)
		synctest.Wait()
		stopped := e.Status()[0].Stopped
		if stopped == nil || !strings.Contains(stopped.Message, fmt.Sprintf("--position %d", proved.Position)) {
			t.Fatalf("stopped for %v, want position %d", stopped, proved.Position)
		}
	})
}

// What is presented to a server that follows is told to the owner, which judges for itself:
// a proved token stops it, and of another one it only shows the claim.
// Promises: [HIST-18].
func TestTheOwnerIsToldOfClaimsAndJudgesForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, "a", "b")
		defer s.close()
		s.give("a", home)
		token := s.must("b", "x", tallyCommand{do: "add", n: 1}).Token
		if ours.Examine(token) != domain.StandingProved {
			t.Fatalf("the proof of a forwarded command's token is lost on the way: %+v", token)
		}
		s.look()
		ctx := HeldBy(t.Context(), "A client")
		for standing, bad := range worthless(token) {
			refused(t, string(standing), s.engines["b"].Present(ctx, bad), domain.CodeTokenUnproved)
			// A server that presents it as its own finding proves nothing either.
			ack, err := s.carry(t.Context(), "a", Wire{Version: WireVersion, Partition: home, Present: bad})
			if err != nil || ack.Rejected == nil || ack.Rejected.Code != domain.CodeTokenUnproved {
				t.Fatalf("%s from a peer: %+v, %v", standing, ack, err)
			}
		}
		synctest.Wait()
		status := s.engines["a"].Status()[0]
		if status.Stopped != nil || status.Claim == nil || status.Claim.Standing != domain.StandingForeign {
			t.Fatalf("the owner shows %+v, claim %+v", status, status.Claim)
		}
		s.must("b", "x", tallyCommand{do: "add", n: 1})

		proved := worthless(token)[domain.StandingUnproved]
		proved.Proof = ours.Prove(proved)
		refused(t, "a proved token", s.engines["b"].Present(ctx, proved), domain.CodeHistoryLost)
		synctest.Wait()
		if s.engines["a"].Status()[0].Stopped == nil {
			t.Fatal("the owner goes on")
		}
	})
}

// A token of what is held passes whoever made it, but answers for no other one: an epoch that
// nobody had yet would hide what its owner loses later.
func TestAnEpochThatNobodyHadVouchesForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, "a", "b")
		defer s.close()
		s.give("a", home)
		token := s.must("b", "x", tallyCommand{do: "add", n: 1}).Token
		s.look()
		invented := token
		invented.Epoch, invented.Proof = token.Epoch+1, ""
		lost := invented
		lost.Digest = token.Digest[:len(token.Digest)-4] + "0000"
		lost.Proof = ours.Prove(lost)
		for _, name := range []string{"b", "a"} {
			for _, held := range []domain.Token{token, invented} {
				if err := s.engines[name].Present(t.Context(), held); err != nil {
					t.Fatalf("%s refuses what is held: %v", name, err)
				}
			}
			e := s.engines[name]
			verified := e.seats[home].verified
			if d := e.driver(home); d != nil {
				verified = d.verified
			}
			if verified.Epoch != token.Epoch || verified.Position != token.Position {
				t.Errorf("%s remembers %+v of %+v", name, verified, token)
			}
		}
		for _, name := range []string{"b", "a"} {
			refused(t, "lost history at "+name, s.engines[name].Present(t.Context(), lost), domain.CodeHistoryLost)
		}
	})
}

// Whoever can invent one foreign claim can invent many: the first one stays in sight.
func TestTheFirstForeignClaimIsShown(t *testing.T) {
	var s seat
	for _, c := range []*Claim{
		{Standing: domain.StandingForged, Position: 1}, {Standing: domain.StandingForeign, Position: 2},
		{Standing: domain.StandingForeign, Position: 3}, {Standing: domain.StandingUnproved, Position: 4},
	} {
		s.claim(c)
	}
	if got := s.claims(); got.Position != 2 {
		t.Errorf("shown: %+v", got)
	}
}

// Somebody with many names can't fill the log or the memory.
func TestDoubtsAreBounded(t *testing.T) {
	var d doubts
	said := 0
	for i := range 3 * doubtsMax {
		if d.first(doubted{home, fmt.Sprint(i), domain.StandingForged}, time.Second) {
			said++
		}
	}
	if said != doubtsMax || len(d.said) != doubtsMax {
		t.Errorf("said %d times, %d remembered", said, len(d.said))
	}
	if !d.first(doubted{home, "later", domain.StandingForged}, time.Second+doubtsAge) || len(d.said) != 1 {
		t.Errorf("after a while %d are remembered", len(d.said))
	}
}
