package domain

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// decode reads the 26 characters back as a number, the way the specification writes it.
func decode(text string) *big.Int {
	n := new(big.Int)
	for _, c := range text {
		n.Mul(n, big.NewInt(32))
		n.Add(n, big.NewInt(int64(strings.IndexRune(alphabet, c))))
	}
	return n
}

func TestEncodeID(t *testing.T) {
	for _, id := range [][16]byte{
		{}, {15: 1}, {0: 1}, {0: 0xff, 15: 0xff}, {0x01, 0x89, 0x0a, 0x5d, 0xac, 0x96, 0x77, 0x4b, 0xbc, 0xce, 0xb3,
			0x02, 0x09, 0x9a, 0x80, 0x57},
	} {
		text := EncodeID(PrefixRun, id)
		if !ValidID(PrefixRun, text) {
			t.Errorf("%x gives %s, which is not valid", id, text)
		}
		if got := decode(strings.TrimPrefix(text, "run_")); got.Cmp(new(big.Int).SetBytes(id[:])) != 0 {
			t.Errorf("%x gives %s, which reads as %x", id, text, got)
		}
	}
	// The example of the TypeID specification.
	known := [16]byte{0x01, 0x89, 0x0a, 0x5d, 0xac, 0x96, 0x77, 0x4b, 0xbc, 0xce, 0xb3, 0x02, 0x09, 0x9a, 0x80, 0x57}
	if got := EncodeID("prefix", known); got != "prefix_01h455vb4pex5vsknk084sn02q" {
		t.Errorf("the specification's example gives %s", got)
	}
	if a, b := EncodeID("run", [16]byte{5: 1}), EncodeID("run", [16]byte{5: 2, 15: 0}); a >= b {
		t.Errorf("%s does not sort before %s", a, b)
	}
}

func TestValidID(t *testing.T) {
	good := EncodeID(PrefixRun, [16]byte{1})
	for text, want := range map[string]bool{
		good: true, "": false, "run_": false, good + "0": false, strings.ToUpper(good): false, "rep" + good[3:]: false,
		"run_8" + good[5:]: false, good[:29] + "u": false, good[:29] + "/": false,
	} {
		if got := ValidID(PrefixRun, text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestDerivedIDs(t *testing.T) {
	run := RunID(EncodeID(PrefixRun, [16]byte{7: 9}))
	job := run.Job(12)
	attempt := job.Attempt(3)
	if r, index, ok := job.Split(); !ok || r != run || index != 12 {
		t.Errorf("%s is job %d of %s, %t", job, index, r, ok)
	}
	if r, index, number, ok := attempt.Split(); !ok || r != run || index != 12 || number != 3 || attempt.Job() != job {
		t.Errorf("%s is attempt %d of job %d of %s, %t", attempt, number, index, r, ok)
	}
	if got := run.Stream(); got.Kind() != "run" || got.ID() != string(run) {
		t.Errorf("stream %s", got)
	}
	if got := PoolID("default"); got.Stream() != "pool/default" || got.Partition() != "pool-default" {
		t.Errorf("pool %s %s", got.Stream(), got.Partition())
	}
	if RepositoryID("rep_1").Stream() != "repository/rep_1" {
		t.Error("repository stream")
	}
	suffix := strings.TrimPrefix(string(run), "run_")
	for _, bad := range []string{
		"", "att", "att_" + suffix, "att_" + suffix + "_0_0", "att_" + suffix + "_0_01", "att_" + suffix + "_+1_1",
		"att_" + suffix + "_-1_1",
		"att_" + suffix + "_1_1_1", "job_" + suffix + "_1_1", "att_" + strings.ToUpper(suffix) + "_1_1",
		"att_" + suffix + "_1_9999999999999999999",
	} {
		if _, _, _, ok := AttemptID(bad).Split(); ok || AttemptID(bad).Job() != "" {
			t.Errorf("%q is an attempt", bad)
		}
	}
	for _, bad := range []string{"", "job_" + suffix, "job_" + suffix + "_-1", "job_" + suffix + "_00",
		"att_" + suffix + "_1"} {
		if _, _, ok := JobID(bad).Split(); ok {
			t.Errorf("%q is a job", bad)
		}
	}
}

func FuzzIDs(f *testing.F) {
	f.Add("att_00000000000000000000000001_0_1")
	f.Fuzz(func(t *testing.T, text string) {
		if run, job, number, ok := AttemptID(text).Split(); ok && string(run.Job(job).Attempt(number)) != text {
			t.Fatalf("%q reads as %s", text, run.Job(job).Attempt(number))
		}
		if run, job, ok := JobID(text).Split(); ok && string(run.Job(job)) != text {
			t.Fatalf("%q reads as %s", text, run.Job(job))
		}
		if token, ok := ParseToken(text); ok && token.String() != text {
			t.Fatalf("%q reads as %s", text, token)
		}
	})
}

func TestDigest(t *testing.T) {
	d := DigestOf([]byte("abc"))
	if d != "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" || !d.Valid() ||
		len(d.Hex()) != 64 {
		t.Errorf("digest %s", d)
	}
	for _, bad := range []Digest{"", "sha256:", "sha256:" + Digest(strings.Repeat("A", 64)),
		"md5:" + Digest(strings.Repeat("a", 64)), d + "0", d[7:]} {
		if bad.Valid() {
			t.Errorf("%q is a digest", bad)
		}
	}
}

func TestToken(t *testing.T) {
	token := Token{Partition: "tnt_default", Epoch: 3, Position: 99, Digest: DigestOf(nil)}
	if got, ok := ParseToken(token.String()); !ok || got != token {
		t.Errorf("%s reads as %v, %t", token, got, ok)
	}
	if got, ok := ParseToken(""); !ok || got != (Token{}) || (Token{}).String() != "" {
		t.Error("no token is a token too")
	}
	for _, bad := range []string{"a", "a:1:2", "a:1:2:zz", "a:-1:2:" + token.Digest.Hex(),
		"a:1:x:" + token.Digest.Hex(), strings.Repeat("p", 65) + ":1:2:" + token.Digest.Hex()} {
		if _, ok := ParseToken(bad); ok {
			t.Errorf("%q is a token", bad)
		}
	}
}

func TestRanks(t *testing.T) {
	if !(TierUntrusted.Rank() < TierTrusted.Rank() && TierTrusted.Rank() < TierProtected.Rank()) ||
		Tier("root").Rank() != 0 {
		t.Error("tiers")
	}
	if !(ClassBatch.Rank() < ClassInteractive.Rank() && ClassInteractive.Rank() < ClassProtected.Rank() &&
		ClassProtected.Rank() < ClassRollback.Rank()) ||
		Class("now").Rank() != 0 {
		t.Error("classes")
	}
}

// Promises: [ACC-4].
func TestSecretIsNeverPrinted(t *testing.T) {
	secret := NewSecret("hunter2")
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", secret, "in", struct{ S Secret }{secret})
	data, err := json.Marshal(map[string]any{"s": secret, "p": &secret})
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(data) + secret.String() + secret.GoString()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		all += fmt.Sprintf(verb, secret) + fmt.Sprintf(verb, &secret) + fmt.Sprintf(verb, struct{ S Secret }{secret})
	}
	if strings.Contains(all, "hunter2") || strings.Contains(all, "68756e74657232") || secret.Reveal() != "hunter2" {
		t.Errorf("the secret shows in %s", all)
	}
}

func TestRejections(t *testing.T) {
	r := Reject(CodeNotFound, "There is no such run.")
	if got, ok := AsRejection(fmt.Errorf("show run: %w", r)); !ok || got != r ||
		r.Error() != "not_found: There is no such run." {
		t.Errorf("got %v, %t", got, ok)
	}
	if _, ok := AsRejection(errors.New("disk on fire")); ok {
		t.Error("a fault is no rejection")
	}
}

// TestEveryCodeIsListed keeps the list that pages are made from complete.
// Promises: [FORMAT-9].
func TestEveryCodeIsListed(t *testing.T) {
	source, err := os.ReadFile("codes.go")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, c := range Codes() {
		listed = append(listed, string(c.Code))
		if !strings.HasSuffix(c.Means, ".") || strings.ToLower(string(c.Code)) != string(c.Code) {
			t.Errorf("%s: %s", c.Code, c.Means)
		}
	}
	for _, line := range strings.Split(string(source), "\n") {
		if _, value, ok := strings.Cut(line, "Code = \""); ok {
			code := strings.TrimSuffix(value, "\"")
			if i := slices.Index(listed, code); i < 0 {
				t.Errorf("%s is not listed", code)
			} else {
				listed = slices.Delete(listed, i, i+1)
			}
		}
	}
	if len(listed) > 0 {
		t.Errorf("listed twice, or not declared: %v", listed)
	}
}

func TestClip(t *testing.T) {
	for _, test := range []struct {
		text string
		max  int
		want string
	}{
		{"short", 10, "short"}, {"exactly ten", 11, "exactly ten"}, {"longer than that", 10, "longer " + ClipMark},
		{"äöüäöü", 8, "äö" + ClipMark},
		{"a\xffb", 10, "a?b"}, {"", 5, ""}, {"\xff\xff\xff\xff\xff\xff", 5, "?" + ClipMark},
	} {
		if got := Clip(test.text, test.max); got != test.want || len(got) > test.max || !utf8.ValidString(got) {
			t.Errorf("%q at %d: %q", test.text, test.max, got)
		}
	}
}

func TestPlainTime(t *testing.T) {
	local := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("x", 3600))
	if got := PlainTime(local); got.Location() != time.UTC || !got.Equal(local) {
		t.Errorf("got %s", got)
	}
	for _, odd := range []time.Time{{}, time.Unix(1<<60, 0), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Unix(-1, 0)} {
		if got := PlainTime(odd); !got.IsZero() {
			t.Errorf("%v counts as %s", odd, got)
		}
	}
	if Later(local, local.Add(1)) != local.Add(1) || Later(local.Add(1), local) != local.Add(1) {
		t.Error("later")
	}
}

func TestProof(t *testing.T) {
	good := "0123456789abcdef.AbZ09-_AbZ09-_AbZ09-_x"
	if p := ParseProof(good); string(p) != good || p.Key() != "0123456789abcdef" || Proof("").Key() != "" {
		t.Errorf("%q reads as %q with key %q", good, p, p.Key())
	}
	for _, bad := range []string{"", "x", good + "A", good[:len(good)-1], strings.Replace(good, ".", "-", 1),
		"G" + good[1:], "A" + good[1:], good[:20] + "=" + good[21:], good[:20] + "." + good[21:]} {
		if p := ParseProof(bad); p != "" {
			t.Errorf("%q reads as %q", bad, p)
		}
	}
	token := Token{Partition: "p", Epoch: 1, Position: 2, Digest: DigestOf(nil)}
	got, ok := ParseProvenToken(token.String(), good)
	if !ok || string(got.Proof) != good || got.String() != token.String() {
		t.Errorf("with its proof it reads as %+v", got)
	}
	if got, ok := ParseProvenToken("", good); !ok || got != (Token{}) {
		t.Errorf("a proof of nothing reads as %+v", got)
	}
	// What a version before proofs wrote, and what it reads of ours.
	text, err := json.Marshal(token)
	if err != nil || strings.Contains(string(text), "Proof") {
		t.Errorf("without a proof it is written as %s, %v", text, err)
	}
}
