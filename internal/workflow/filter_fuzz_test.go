package workflow

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// token is one construct of a pattern as the manual describes it, for a matcher that shares no
// code with the compiled ones.
type token struct {
	any      bool   // any text …
	slashes  bool   // … with slashes
	folders  bool   // nothing, or any text that ends in a slash
	set      string // one of these characters
	one      string // this character
	optional bool
	repeated bool
}

// tokens reads a valid pattern.
func tokens(text string) []token {
	var out []token
	for text != "" {
		first := firstRune(text)
		size := len(first)
		t := token{one: first}
		switch {
		case strings.HasPrefix(text, "**/"):
			t, size = token{folders: true}, 3
		case strings.HasPrefix(text, "**"):
			t, size = token{any: true, slashes: true}, 2
		case first == "*":
			t = token{any: true}
		case first == "[":
			end := strings.IndexByte(text, ']')
			t, size = token{set: spelled(text[1:end])}, end+1
		case first == `\`:
			t.one = firstRune(text[1:])
			size = 1 + len(t.one)
		case (first == "?" || first == "+") && len(out) > 0:
			out[len(out)-1].optional = first == "?"
			out[len(out)-1].repeated = first == "+"
			text = text[size:]
			continue
		}
		out = append(out, t)
		text = text[size:]
	}
	return out
}

// spelled writes the ranges of a set out.
func spelled(set string) string {
	var out strings.Builder
	for i := 0; i < len(set); i++ {
		if set[i] == '-' {
			for c := set[i-1]; c < set[i+1]; c++ {
				out.WriteByte(c)
			}
			continue
		}
		out.WriteByte(set[i])
	}
	return out.String()
}

// ends are all places in name at which the token can end that begins at one of those places.
func (t token) ends(name string, from map[int]bool) map[int]bool {
	out := map[int]bool{}
	for at := range from {
		switch {
		case t.any:
			for end := at; end <= len(name); end++ {
				out[end] = true
				if end < len(name) && name[end] == '/' && !t.slashes {
					break
				}
			}
		case t.folders:
			out[at] = true
			for end := at + 1; end < len(name); end++ {
				if name[end] == '/' {
					out[end+1] = true
				}
			}
		default:
			if t.optional {
				out[at] = true
			}
			for end := at; ; {
				next := firstRune(name[end:])
				if next == "" || (t.set == "" && next != t.one) || (t.set != "" && !strings.Contains(t.set, next)) {
					break
				}
				end += len(next)
				out[end] = true
				if !t.repeated {
					break
				}
			}
		}
	}
	return out
}

// matchesSlowly is what a pattern means, step by step.
func matchesSlowly(pattern, name string) bool {
	places := map[int]bool{0: true}
	for _, t := range tokens(pattern) {
		places = t.ends(name, places)
	}
	return places[len(name)]
}

// FuzzFilter holds compiled patterns against a matcher that walks the manual's constructs, and the
// whole of a filter against its rule: the last pattern that matches decides.
func FuzzFilter(f *testing.F) {
	for _, c := range [][3]string{
		{"release/**", "!release/old*", "release/older"}, {"**/docs/**", "!**/*.md", "a/docs/b.md"},
		{"v[0-9]+.?", "v1?", "v12.3"}, {`a\*`, "**", "a*"}, {"*.js", "**.js", "a/b.js"}, {"[a-cx_]+", "!é?", "abé"},
	} {
		f.Add(c[0], c[1], c[2])
	}
	f.Fuzz(func(t *testing.T, first, second, name string) {
		if !utf8.ValidString(first+second+name) || len(name) > 200 {
			return
		}
		var whole filter
		want := false
		for _, text := range []string{first, second} {
			text, negative := strings.CutPrefix(text, "!")
			match, err := compilePattern(text)
			if err != nil {
				continue
			}
			slowly := matchesSlowly(text, name)
			if match.MatchString(name) != slowly {
				t.Fatalf("%q on %q: %v, and the manual says %v", text, name, !slowly, slowly)
			}
			whole.patterns = append(whole.patterns, pattern{negative, match})
			if slowly {
				want = !negative
			}
		}
		if whole.accepts(name) != want {
			t.Fatalf("%q, %q on %q: not %v", first, second, name, want)
		}
	})
}
