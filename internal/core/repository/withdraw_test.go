package repository

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

const ci = ".github/workflows/ci.yml"

// Promises: [REPLAY-3].
func TestAWithdrawalLastsUntilItEnds(t *testing.T) {
	w, a := newWorld(t), strings.Repeat("a", 40)
	cause := domain.Cause{Actor: domain.Actor{Kind: "user", ID: "ada"}, Request: "req_1"}
	w.want(Withdraw{Workflow: ci, Reason: "bad"}, "not_found")
	w.want(registration(), "RepositoryRegistered")
	w.want(Withdraw{Cause: cause, Workflow: ci, Reason: " bad release "}, "Withdrew")
	w.want(Withdraw{Cause: cause, Workflow: ci, Reason: "bad release"}, "nothing new")
	got := w.live.Withdrawn(ci)
	if got == nil || got.Restored() || got.Reason != "bad release" || got.Actor.ID != "ada" || got.Request != "req_1" ||
		!got.At.Equal(start) {
		t.Fatalf("got %+v", got)
	}
	if w.live.Withdrawn("") != nil || w.live.Withdrawn(".github/workflows/other.yml") != nil {
		t.Error("another workflow is withdrawn")
	}
	w.want(Withdraw{Workflow: ci, Commit: a, Text: domain.DigestOf(nil), Reason: "the last good one"}, "Withdrew")
	if got := w.live.Withdrawn(ci); !got.Restored() || len(w.live.Withdrawals) != 1 {
		t.Errorf("got %+v", got)
	}
	w.want(Withdraw{Component: "Acme/Tool@" + a, Reason: "stolen"}, "Withdrew")
	if w.live.WithdrawnComponent("", "acme/tool@"+a) == nil || w.live.WithdrawnComponent("acme/tool@v1") != nil {
		t.Error("a component is found by its name without case, and no other one is")
	}
	w.want(Reinstate{Workflow: ci, Reason: "mended"}, "Reinstated")
	w.want(Reinstate{Workflow: ci, Reason: "mended"}, "nothing new")
	w.want(Reinstate{Component: "ACME/tool@" + a, Reason: "mended"}, "Reinstated")
	if len(w.live.Withdrawals) != 0 {
		t.Errorf("left: %v", w.live.Withdrawals)
	}
}

func TestWithdrawalsAreChecked(t *testing.T) {
	a := strings.Repeat("a", 40)
	w := newWorld(t)
	w.want(registration(), "RepositoryRegistered")
	for name, c := range map[string]Command{
		"nothing":     Withdraw{Reason: "x"},
		"both":        Withdraw{Workflow: ci, Component: "a/b@" + a, Reason: "x"},
		"no reason":   Withdraw{Workflow: ci, Reason: "  "},
		"two lines":   Withdraw{Workflow: ci, Reason: "a\nb"},
		"long reason": Withdraw{Workflow: ci, Reason: strings.Repeat("x", reasonBytesMax+1)},
		"long path":   Withdraw{Workflow: strings.Repeat("x", pathBytesMax+1), Reason: "x"},
		"tag":         Withdraw{Component: "acme/tool@v1", Reason: "x"},
		"no owner":    Withdraw{Component: "tool@" + a, Reason: "x"},
		"folder":      Withdraw{Component: "a/b/c@" + a, Reason: "x"},
		"digest":      Withdraw{Component: "sha256:" + a, Reason: "x"},
		"short":       Withdraw{Workflow: ci, Commit: "abc", Text: domain.DigestOf(nil), Reason: "x"},
		"no text":     Withdraw{Workflow: ci, Commit: a, Reason: "x"},
		"no commit":   Withdraw{Workflow: ci, Text: domain.DigestOf(nil), Reason: "x"},
		"component":   Withdraw{Component: "a/b@" + a, Commit: a, Text: domain.DigestOf(nil), Reason: "x"},
		"end nothing": Reinstate{Reason: "x"},
		"end silent":  Reinstate{Workflow: ci},
	} {
		if got, _ := w.do(c); got != "invalid_argument" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for i := range withdrawalsMax {
		w.want(Withdraw{Workflow: fmt.Sprintf("%d.yml", i), Reason: "x"}, "Withdrew")
	}
	w.want(Withdraw{Workflow: "more.yml", Reason: "x"}, "too_large")
	w.want(Withdraw{Workflow: "7.yml", Reason: "y"}, "Withdrew")
}

// What a restored text schedules is read again; being disabled changes no schedule.
func TestAnotherTextHasOtherSchedules(t *testing.T) {
	w, a := newWorld(t), strings.Repeat("a", 40)
	w.want(registration(), "RepositoryRegistered")
	w.want(polled("main:a"), "RefsRecorded")
	define := DefineSchedules{Commit: a}
	w.want(define, "SchedulesDefined")
	w.want(Withdraw{Workflow: ci, Reason: "x"}, "Withdrew")
	if w.live.SchedulesOf != a {
		t.Error("a disabled workflow keeps its schedules")
	}
	restore := Withdraw{Workflow: ci, Commit: a, Text: domain.DigestOf(nil), Reason: "x"}
	for _, c := range []Command{restore, Reinstate{Workflow: ci, Reason: "x"}, restore,
		Withdraw{Workflow: ci, Reason: "x"}} {
		w.do(c)
		if w.live.SchedulesOf != "" {
			t.Errorf("after %s schedules count that were read from another text", c.Name())
		}
		w.want(define, "SchedulesDefined")
	}
}

// Promises: [FORMAT-2].
func TestWithdrawalsWaitForTheLastOldServer(t *testing.T) {
	for _, e := range []Event{new(Withdrew), new(Reinstated)} {
		if _, err := Lower(e, FormatWithdrawals-1); !errors.Is(err, codec.ErrFormat) {
			t.Errorf("%s: %v", e.Name(), err)
		}
		if _, err := Lower(e, FormatWithdrawals); err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
	}
}
