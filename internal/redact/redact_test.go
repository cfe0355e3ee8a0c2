package redact

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

// Promises: [LOG-10].
func TestFormsOfOneSecret(t *testing.T) {
	var s Set
	s.Add("p@ss \"word\"<1>\nsecond line")
	for _, text := range []string{
		"p@ss \"word\"<1>\nsecond line", "second line", `p@ss "word"<1>`,
		base64.StdEncoding.EncodeToString([]byte("p@ss \"word\"<1>\nsecond line")),
		`p@ss \"word\"<1>\nsecond line`, "p%40ss%20%22word%22%3C1%3E%0Asecond%20line",
	} {
		if got := s.Text("a " + text + " b"); got != "a *** b" {
			t.Errorf("%q became %q", text, got)
		}
	}
	for phase := range 3 {
		long := strings.Repeat("x", phase) + "p@ss \"word\"<1>\nsecond line"
		got := s.Text(base64.StdEncoding.EncodeToString([]byte(long)))
		if !strings.Contains(got, Mask) || len(got) > 20 {
			t.Errorf("at phase %d: %q", phase, got)
		}
	}
}

func TestBlankRegistersNothing(t *testing.T) {
	var s Set
	for _, text := range []string{"", " ", "\r\n", " \r \n"} {
		s.Add(text)
	}
	if !s.Empty() {
		t.Error("blank text was registered")
	}
}

// Promises: [LOG-10].
func TestOverlappingSecretsLeaveNoEnds(t *testing.T) {
	var s Set
	s.Add("abcd")
	s.Add("cdef")
	if got := s.Text("-abcdef-abcd-cdef-"); got != "-***-***-***-" {
		t.Error(got)
	}
}

func TestPlainOutputIsHeldBackOnlyWhereItMust(t *testing.T) {
	var s Set
	s.Add("secret")
	st := NewStream(&s)
	if got := st.Write(nil, []byte("progress: 10%")); string(got) != "progress: 10%" {
		t.Errorf("%q", got)
	}
	if got := st.Write(nil, []byte("the sec")); string(got) != "the " {
		t.Errorf("%q", got)
	}
	if got := st.Flush(nil); string(got) != "sec" {
		t.Errorf("%q", got)
	}
}

// FuzzStream: masking in pieces is masking at once, no secret remains, and text
// without one is unchanged.
func FuzzStream(f *testing.F) {
	f.Add("token", "the token is tok", uint8(3))
	f.Add("aa", "aaaaaaa", uint8(1))
	f.Add("ab\ncd", "xxabyycdzz", uint8(2))
	f.Fuzz(func(t *testing.T, secret, text string, size uint8) {
		var s Set
		s.Add(secret)
		whole := s.Text(text)
		st := NewStream(&s)
		var out []byte
		for rest := []byte(text); len(rest) > 0; {
			n := min(int(size)%7+1, len(rest))
			out = st.Write(out, rest[:n])
			rest = rest[n:]
		}
		out = st.Flush(out)
		if string(out) != whole {
			t.Fatalf("in pieces %q, at once %q", out, whole)
		}
		if s.Empty() && whole != text {
			t.Fatalf("changed: %q", whole)
		}
		if !s.Empty() && !strings.Contains(secret, "*") && bytes.Contains(out, []byte(secret)) {
			t.Fatalf("%q is in %q", secret, out)
		}
		if s.Contains(text) == (whole == text) && !strings.Contains(secret, "*") {
			t.Fatalf("contains %v but %q became %q", s.Contains(text), text, whole)
		}
	})
}
