package expr

import (
	"strings"
	"testing"
)

func TestPointerMarksTheSpan(t *testing.T) {
	for _, test := range []struct {
		text       string
		at         Span
		line, mark string
	}{
		{"a b", Span{2, 3}, "a b", "  ^"}, {"a bcd", Span{2, 5}, "a bcd", "  ^~~"}, {"a", Span{1, 1}, "a", " ^"},
		{"x\n\tébc d", Span{5, 7}, "\tébc d", "\t ^~"}, {"ab\ncd", Span{1, 5}, "ab", " ^"}, {"", Span{}, "", "^"},
	} {
		line, mark := Pointer(test.text, test.at)
		if line != test.line || mark != test.mark {
			t.Errorf("%q at %v: %q %q", test.text, test.at, line, mark)
		}
	}
	long := strings.Repeat("é", 1_000) + "!" + strings.Repeat("x", 1_000)
	if line, mark := Pointer(long, Span{2_000, 2_001}); len(line) > 1_000 || !strings.Contains(line, "!") ||
		!strings.HasSuffix(mark, " ^") {
		t.Errorf("%q %q", line, mark)
	}
}
