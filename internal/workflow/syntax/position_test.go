package syntax

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func load(t *testing.T, text string) (*Node, *Reports) {
	t.Helper()
	reports := NewReports("w.yml")
	bounds := Bounds{SourceBytes: 1 << 20, Nodes: 50_000, Depth: 50, ScalarBytes: 10 << 20}
	return Load([]byte(text), bounds, reports), reports
}

// Every style of scalar: where the word "needle" of its value stands in the file.
func TestPlacesInsideScalars(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"plain":             {"a: x needle y", "1:6-1:12"},
		"plain, two lines":  {"a: x\n   y needle\nb: c", "2:6-2:12"},
		"single":            {"a: 'it''s needle'", "1:11-1:17"},
		"double":            {`a: "\ttab \u00e9\x20needle"`, "1:21-1:27"},
		"double, folded":    {"a: \"x \\\n   needle\"", "2:4-2:10"},
		"double, backslash": {`a: "\\ \"needle\""`, "1:10-1:16"},
		"literal":           {"a: |\n  one\n\n    needle\n", "4:5-4:11"},
		"literal, comment":  {"a: |2- # x\n    needle", "2:5-2:11"},
		"folded":            {"a: >\n  one\n  needle\n", "3:3-3:9"},
		"anchored":          {"a: &x needle", "1:7-1:13"},
		"tagged":            {"a: !!str 'needle'", "1:11-1:17"},
		"anchor and tag":    {"a: &x !!str\n  needle", "2:3-2:9"},
		"wide characters":   {"é: 'üß needle'", "1:8-1:14"},
		"byte order mark":   {"\ufeffa: needle", "1:4-1:10"},
		"windows lines":     {"b: c\r\na: |\r\n  needle\r\n", "3:3-3:9"},
		"far to the right":  {"b: [" + strings.Repeat("é, ", 1_000) + "needle]", "1:3005-1:3011"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root, reports := load(t, test.text)
			if root == nil {
				t.Fatal(reports.Sorted())
			}
			n := root.Pairs[len(root.Pairs)-1].Value
			for _, pair := range root.Pairs {
				if pair.Key.Value == "a" {
					n = pair.Value
				}
			}
			if n.Kind == Sequence {
				n = n.Items[len(n.Items)-1]
			}
			at := strings.Index(n.Value, "needle")
			p := n.Place(at, at+len("needle"))
			got := fmt.Sprintf("%d:%d-%d:%d", p.Start.Line, p.Start.Column, p.End.Line, p.End.Column)
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestEndsOfNodes(t *testing.T) {
	root, _ := load(t, "a: 'x''y'\nb: [1, \"two\"]\nc: |\n  x\n  yz\n")
	var got []string
	for _, pair := range root.Pairs {
		got = append(got, fmt.Sprintf("%d:%d-%d:%d", pair.Value.Start.Line, pair.Value.Start.Column,
			pair.Value.End.Line, pair.Value.End.Column))
	}
	if diff := cmp.Diff([]string{"1:4-1:10", "2:4-2:13", "3:4-5:5"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTypesOfScalars(t *testing.T) {
	for text, want := range map[string]Type{
		"on": TypeString, "yes": TypeString, "true": TypeBool, "FALSE": TypeBool, "tRue": TypeString, "~": TypeNull,
		"":   TypeNull,
		"12": TypeInt, "-7": TypeInt, "0o17": TypeInt, "0xfF": TypeInt, "0x": TypeString, "1_000": TypeString,
		"1.5": TypeFloat,
		".5":  TypeFloat, "5.": TypeFloat, "1e3": TypeFloat, "1e": TypeString, ".inf": TypeFloat, "-.Inf": TypeFloat,
		".nan": TypeFloat,
		"-":    TypeString, "+": TypeString, ".": TypeString, "1.2.3": TypeString,
		"2020-01-01": TypeString, "12:30": TypeString,
	} {
		if got := resolve(text); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

func TestSuggestions(t *testing.T) {
	reports := NewReports("w.yml")
	names := []string{"runs-on", "steps", "needs", "name", "if"}
	for word, want := range map[string]string{
		"run-on": "runs-on", "stpes": "steps", "Needs": "needs", "nam": "name", "fi": "if", "zzz": "", "on": "",
		strings.Repeat("x", 1_000): "",
	} {
		hint := reports.Suggest(word, names, "")
		if want != "" {
			want = fmt.Sprintf("did you mean %q?", want)
		}
		if hint != want {
			t.Errorf("%.20q: %q, want %q", word, hint, want)
		}
	}
}

func TestLinesCountAsPositionsDo(t *testing.T) {
	want := []string{"a", "b", "c", "d", "", ""}
	if diff := cmp.Diff(want, Lines([]byte("\ufeffa\nb\r\nc\rd\u2028\n"))); diff != "" {
		t.Error(diff)
	}
}
