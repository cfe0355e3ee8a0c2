package store

import (
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

func digestRow() Row {
	return Row{
		Position: 1, Tenant: "tnt", Stream: "run/a", Version: 2, Count: 2, Events: []byte("ev"),
		At: time.Date(2026, 11, 29, 12, 0, 0, 1000, time.UTC),
	}
}

// The digest is written into history, so this value may only change together with a new
// encoding of it.
// Promises: [FORMAT-3].
func TestTheDigestOfABatchIsFixed(t *testing.T) {
	const want = "sha256:9fe47d1cbc5575c2228f5dfb5f258c47addb5782b26990be7a500d41cb4b74e9"
	if got := BatchDigest("sha256:00", []Row{digestRow()}); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

// Promises: [HIST-2].
func TestTheDigestCoversEverythingOfEveryRow(t *testing.T) {
	seen := map[domain.Digest]string{BatchDigest("sha256:00", []Row{digestRow()}): "the row itself"}
	for name, change := range map[string]func(*Row){
		"position": func(r *Row) { r.Position++ },
		"tenant":   func(r *Row) { r.Tenant = "tn" },
		"stream":   func(r *Row) { r.Stream = "trun/a" },
		"version":  func(r *Row) { r.Version++ },
		"count":    func(r *Row) { r.Count-- },
		"events":   func(r *Row) { r.Events = []byte("eV") },
		"time":     func(r *Row) { r.At = r.At.Add(time.Microsecond) },
	} {
		row := digestRow()
		change(&row)
		digest := BatchDigest("sha256:00", []Row{row})
		if other, same := seen[digest]; same {
			t.Errorf("a changed %s has the digest of %s", name, other)
		}
		seen[digest] = name
	}
	if _, same := seen[BatchDigest("sha256:01", []Row{digestRow()})]; same {
		t.Error("the digest does not cover the one before")
	}
	if _, same := seen[BatchDigest("sha256:00", []Row{digestRow(), digestRow()})]; same {
		t.Error("the digest does not cover the second row")
	}
}

// What a database gives back (another zone, no nanoseconds) digests to the same.
// Promises: [FORMAT-3].
func TestTheDigestIsOfStoredTimes(t *testing.T) {
	row := digestRow()
	row.At = row.At.Add(999 * time.Nanosecond).In(time.FixedZone("elsewhere", 3600))
	stored := row
	stored.At = StoredTime(row.At)
	if BatchDigest("", []Row{row}) != BatchDigest("", []Row{stored}) {
		t.Error("the digest changes when the row is read back")
	}
}

func FuzzCleanText(f *testing.F) {
	for _, seed := range []string{"", "plain", "a\x00b", "\xff\xfe", "\xed\xa0\x80", "é\x00\xc3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		clean := CleanText(text)
		if !ValidText(clean) || CleanText(clean) != clean {
			t.Errorf("%q became %q", text, clean)
		}
		if ValidText(text) && clean != text {
			t.Errorf("valid text %q was changed to %q", text, clean)
		}
	})
}
