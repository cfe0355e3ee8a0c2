package workflow

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// filter is a list of patterns over the names of branches or tags. The last pattern
// that matches decides; one that starts with ! takes names out again.
type filter struct {
	patterns []pattern
}

type pattern struct {
	negative bool
	match    *regexp.Regexp
}

// accepts reports whether a name passes the filter as an include list.
func (f *filter) accepts(name string) bool {
	accepted := false
	for _, p := range f.patterns {
		if p.match.MatchString(name) {
			accepted = !p.negative
		}
	}
	return accepted
}

// filter compiles a list of patterns and reports the ones that are not valid.
func (r *triggerReader) filter(f *syntax.Filter) *filter {
	if f == nil {
		return nil
	}
	out := &filter{}
	positive := false
	for _, n := range f.Patterns {
		text, negative := strings.CutPrefix(scalarText(n), "!")
		positive = positive || !negative
		match, err := compilePattern(text)
		if err != nil {
			r.reports.Add(syntax.CodeInvalidFilter, n.Range,
				fmt.Sprintf("the pattern %s is not valid: %v", syntax.Quote(text), err), "")
			continue
		}
		out.patterns = append(out.patterns, pattern{negative, match})
	}
	if !positive && len(f.Patterns) > 0 {
		r.reports.Add(syntax.CodeInvalidFilter, f.Key.Range,
			f.Key.Value+" has only patterns that start with !, so nothing matches",
			"put '**' before them")
	}
	return out
}

// compilePattern turns a pattern into a regular expression: * is any text without a
// slash, ** is any text, ? and + repeat the character before them, [a-z] is a set, and
// a backslash takes the next character as it is.
func compilePattern(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, errors.New("it is empty")
	}
	if len(text) > patternMax {
		return nil, fmt.Errorf("it is longer than %d characters", patternMax)
	}
	var out strings.Builder
	out.WriteString(`(?s)\A`)
	before := byte(0) // the construct that ended at i, by its first character
	for i := 0; i < len(text); {
		if repeats := text[i] == '?' || text[i] == '+'; repeats && i > 0 && strings.IndexByte("*?+", before) >= 0 {
			return nil, errors.New("? and + must follow a single character")
		}
		size, err := translate(&out, text, i)
		if err != nil {
			return nil, err
		}
		before = text[i]
		i += size
	}
	out.WriteString(`\z`)
	match, err := regexp.Compile(out.String())
	if err != nil {
		return nil, fmt.Errorf("it can't be read: %w", err)
	}
	return match, nil
}

// translate writes the construct that starts at text[i] and returns its length.
func translate(out *strings.Builder, text string, i int) (size int, err error) {
	rest := text[i:]
	switch {
	case strings.HasPrefix(rest, "**/"):
		out.WriteString(`(?:.+/)?`)
		return 3, nil
	case strings.HasPrefix(rest, "**"):
		out.WriteString(`.*`)
		return 2, nil
	case rest[0] == '*':
		out.WriteString(`[^/]*`)
		return 1, nil
	case (rest[0] == '?' || rest[0] == '+') && i > 0:
		out.WriteByte(rest[0])
		return 1, nil
	case rest[0] == '[':
		return translateSet(out, rest)
	case rest[0] == '\\':
		if len(rest) < 2 {
			return 0, errors.New("nothing follows the backslash")
		}
		out.WriteString(regexp.QuoteMeta(firstRune(rest[1:])))
		return 1 + len(firstRune(rest[1:])), nil
	}
	first := firstRune(rest)
	out.WriteString(regexp.QuoteMeta(first))
	return len(first), nil
}

func firstRune(text string) string {
	for i := range text {
		if i > 0 {
			return text[:i]
		}
	}
	return text
}

// translateSet writes a set of letters, digits and ranges of them.
func translateSet(out *strings.Builder, rest string) (size int, err error) {
	end := strings.IndexByte(rest, ']')
	if end < 0 {
		return 0, errors.New("the closing ] is missing")
	}
	set := rest[1:end]
	if set == "" {
		return 0, errors.New("[] is empty")
	}
	ended := -1 // where the last range ends, whose end begins no other
	for i := 0; i < len(set); i++ {
		if set[i] == '-' {
			if i == 0 || i == len(set)-1 || i-1 == ended || set[i-1] > set[i+1] || class(set[i-1]) != class(set[i+1]) ||
				class(set[i-1]) == 0 {
				return 0, errors.New("a range must go up within a-z, A-Z or 0-9")
			}
			ended = i + 1
		}
		if class(set[i]) == 0 && set[i] != '-' && set[i] != '_' && set[i] != '.' {
			return 0, fmt.Errorf("%q can't be part of a set", set[i])
		}
	}
	out.WriteString("[" + set + "]")
	return end + 1, nil
}

// class is which alphabet a character belongs to; 0 is none.
func class(c byte) int {
	switch {
	case c >= 'a' && c <= 'z':
		return 1
	case c >= 'A' && c <= 'Z':
		return 2
	case c >= '0' && c <= '9':
		return 3
	}
	return 0
}
