package redact

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Mask is what stands in the place of a secret.
const Mask = "***"

// Bounds of a Set.
const (
	// SecretBytesMax: of a longer secret only the lines are registered, each cut to this.
	SecretBytesMax = 64 << 10
	// FormsMax: further secrets are not registered, and Add says so.
	FormsMax = 10_000
	// derivedBytesMin: a derived form that is shorter would hide harmless text.
	derivedBytesMin = 6
)

// Set holds the secrets of one attempt in all their forms. It has no lock of its own:
// callers serialise its use and that of streams over it.
type Set struct {
	known   map[string]bool
	byFirst [256][][]byte // longest first
	count   int
}

// Add registers a secret. Blank text registers nothing. ok is false when the set is full.
//
// Trust: secret may be anything a job prints; adding one can at worst hide its output.
func (s *Set) Add(secret string) (ok bool) {
	if s.known == nil {
		s.known = make(map[string]bool)
	}
	for _, form := range forms(secret) {
		if s.known[form] {
			continue
		}
		if s.count >= FormsMax {
			return false
		}
		s.known[form] = true
		s.count++
		first := form[0]
		s.byFirst[first] = append(s.byFirst[first], []byte(form))
		slices.SortStableFunc(s.byFirst[first], func(a, b []byte) int { return cmp.Compare(len(b), len(a)) })
	}
	return true
}

// Empty reports whether nothing was registered.
func (s *Set) Empty() bool { return s.count == 0 }

// Text masks a whole text.
func (s *Set) Text(text string) string {
	if s.Empty() {
		return text
	}
	t := Stream{set: s}
	out := t.Write(nil, []byte(text))
	return string(t.Flush(out))
}

// Contains reports whether text holds a registered form.
func (s *Set) Contains(text string) bool {
	for i := range len(text) {
		for _, form := range s.byFirst[text[i]] {
			if strings.HasPrefix(text[i:], string(form)) {
				return true
			}
		}
	}
	return false
}

// forms lists the ways in which a secret may appear in output.
func forms(secret string) []string {
	var list []string
	add := func(form string, least int) {
		if len(form) >= least && strings.TrimSpace(form) != "" && len(form) <= SecretBytesMax {
			list = append(list, form)
		}
	}
	if strings.TrimSpace(secret) == "" {
		return nil
	}
	add(secret, 1)
	for line := range strings.FieldsFuncSeq(secret, func(r rune) bool { return r == '\n' || r == '\r' }) {
		add(line[:min(len(line), SecretBytesMax)], 1)
	}
	if len(secret) > SecretBytesMax {
		return list
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		add(encoding.EncodeToString([]byte(secret)), derivedBytesMin)
		// Inside a longer text the secret starts at any of three phases; only whole
		// groups of three bytes look the same there.
		for phase := range min(3, len(secret)) {
			rest := secret[phase:]
			add(encoding.EncodeToString([]byte(rest[:len(rest)/3*3])), derivedBytesMin)
		}
	}
	add(jsonText(secret), derivedBytesMin)
	add(xmlEscapes.Replace(secret), derivedBytesMin)
	add(uriText(secret), derivedBytesMin)
	add(strings.ReplaceAll(secret, `"`, `\"`), derivedBytesMin)
	add(strings.ReplaceAll(secret, `'`, `''`), derivedBytesMin)
	if inner := strings.Trim(secret, `"'`); len(secret)-len(inner) == 2 && len(inner) > 8 {
		add(inner, derivedBytesMin)
	}
	return list
}

var xmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")

func jsonText(text string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(out.String()), `"`), `"`)
}

func uriText(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~", c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}
