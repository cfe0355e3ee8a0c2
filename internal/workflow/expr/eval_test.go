package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const contexts = `{
  "github": {"ref": "refs/heads/main", "event": {"labels": [{"name": "bug"}, {"name": "ui"}, {"id": 3}]}},
  "a": [{"b": "x"}, {"b": "y"}], "n": [[1, 2], [3]], "o": {"p": {"k": 1}, "q": {"k": 2}, "r": 5},
  "env": {"T": "true", "dash-ed": "d"}, "none": null
}`

func testEnv(t testing.TB) Env {
	root, err := FromJSON(contexts)
	if err != nil {
		t.Fatal(err)
	}
	return Env{Context: root.Field, Status: StepStatus{}}
}

func TestEval(t *testing.T) {
	tests := []struct{ text, want string }{
		// literals and operators
		{"null", "null"}, {"true", "true"}, {"0xff", "255"}, {"-1.5e2", "-150"}, {".5", "0.5"}, {"'it''s'", `"it's"`},
		{"'' == 0", "true"}, {"!''", "true"}, {"!!'x'", "true"}, {"1 < 2 == true", "true"}, {"'b' > 'A'", "true"},
		{"'a' < 'B' && 'x'", `"x"`}, {"'' || 'y'", `"y"`}, {"0 && 'y'", "0"}, {"true || fromJSON('broken')", "true"},
		{"'a' && 'b' || 'c'", `"b"`}, {"null >= null", "true"}, {"null > null", "false"}, {"'x' < 1", "false"},
		{"NaN == NaN", "false"}, {"true > false", "true"}, {"1 == 1 == 1", "true"}, {"(1 == 2) == false", "true"},
		// references
		{"github.ref", `"refs/heads/main"`}, {"GitHub.REF", `"refs/heads/main"`}, {"github['ref']", `"refs/heads/main"`},
		{"github.nope.deeper", "null"}, {"none.x", "null"}, {"a[1].b", `"y"`}, {"a['1'].b", `"y"`}, {"a[1.9].b", `"y"`},
		{"a[9]", "null"}, {"a[-1]", "null"}, {"a['x']", "null"}, {"env.dash-ed", `"d"`}, {"(a)[0].b", `"x"`},
		{"github[format('r{0}', 'ef')]", `"refs/heads/main"`},
		// filters (F4)
		{"toJSON(a.*.b)", `"[\n  \"x\",\n  \"y\"\n]"`}, {"join(github.event.labels.*.name, '+')", `"bug+ui"`},
		{"toJSON((a.*.b)[0])", `"[]"`}, {"toJSON(none.*)", `"[]"`}, {"toJSON(github.ref.*)", `"[]"`},
		{"join(o.*.k)", `"1,2"`},
		{"join(n.*.*)", `"1,2,3"`}, {"join((n.*)[0])", `"1,3"`}, {"join(a[*].b)", `"x,y"`},
		// functions
		{"contains('Hello', 'ELL')", "true"}, {"contains(a.*.b, 'Y')", "true"}, {"contains(o, 'k')", "false"},
		{"contains('true', true)", "true"}, {"startsWith('abc', 'AB')", "true"}, {"endsWith('abc', 'x')", "false"},
		{"startsWith(a, 'A')", "false"}, {"format('{0}{{{1}}}', 'a', null)", `"a{}"`}, {"format('x')", `"x"`},
		{"format('{1}{0}', 1, 2)", `"21"`}, {"join('x')", `"x"`}, {"join(o)", `""`}, {"join(a.*.b, a)", `"x,y"`},
		{"fromJSON('[1, {\"B\": 2}]')[1].b", "2"}, {"toJSON(fromJSON('{}'))", `"{}"`}, {"toJSON('a\"\\')", `"\"a\\\"\\\\\""`},
		{"case(false, 1, true, 2, 3)", "2"}, {"case(1 == 2, 1, 3)", "3"}, {"success()", "true"}, {"Failure()", "false"},
		{"always() && !cancelled()", "true"},
	}
	for _, test := range tests {
		e, err := Parse(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		v, err := e.Eval(testEnv(t))
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got := v.JSON(); got != test.want {
			t.Errorf("%s is %s, want %s", test.text, got, test.want)
		}
	}
}

func TestErrorsHaveCodeAndPlace(t *testing.T) {
	tests := []struct {
		text       string
		code       Code
		start, end int
	}{
		{"", CodeSyntax, 0, 0}, {"  ", CodeSyntax, 0, 2}, {"a b", CodeSyntax, 2, 3}, {"a.", CodeSyntax, 2, 2},
		{"(a", CodeSyntax, 2, 2}, {"a)", CodeSyntax, 1, 2}, {"a[0", CodeSyntax, 3, 3}, {"'x", CodeSyntax, 0, 2},
		{`"x"`, CodeSyntax, 0, 1}, {"a = b", CodeSyntax, 2, 3}, {"a & b", CodeSyntax, 2, 3}, {"1x", CodeSyntax, 0, 2},
		{"a..b", CodeSyntax, 2, 4}, {"'a'.b", CodeSyntax, 3, 5}, {"a.5", CodeSyntax, 2, 3}, {"a + b", CodeSyntax, 2, 3},
		{"#", CodeSyntax, 0, 1}, {"f(", CodeUnknownFunction, 0, 1}, {"contains(a,)", CodeSyntax, 11, 12},
		{"contains(a)", CodeArgumentCount, 0, 11}, {"join(a, b, c)", CodeArgumentCount, 0, 13},
		{"nope.x", CodeUnknownContext, 0, 4},
		{"fromJSON('')", CodeFailed, 0, 12}, {"fromJSON('{} x')", CodeFailed, 0, 16}, {"format('{')", CodeFailed, 0, 11},
		{"format('}')", CodeFailed, 0, 11}, {"format('{1}', 'a')", CodeFailed, 0, 18},
		{"format('{-1}', 'a')", CodeFailed, 0, 19},
		{"hashFiles('x')", CodeFunctionNotAllowed, 0, 14}, {"case('a', 1, 2)", CodeFailed, 5, 8},
		{"case(true, 1, 2, 3)", CodeArgumentCount, 0, 19},
		{strings.Repeat("!", 60) + "a", CodeTooDeep, 10, 61}, {"a" + strings.Repeat(".b", 60), CodeTooDeep, 0, 101},
		{strings.Repeat("x", 21_001), CodeTooLong, 0, 21_001},
	}
	for _, test := range tests {
		e, err := Parse(test.text)
		if err == nil {
			_, err = e.Eval(testEnv(t))
		}
		var got *Error
		if !errors.As(err, &got) {
			t.Errorf("%.40s: no error", test.text)
			continue
		}
		if got.Code != test.code || got.Span != (Span{test.start, test.end}) {
			t.Errorf("%.40s: %s at %v, want %s at %d-%d", test.text, got.Code, got.Span, test.code, test.start, test.end)
		}
	}
}

func TestWhatIsAllowedToBeLong(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("true && ", 2_000) + "true", strings.Repeat("(", 5_000) + "1" + strings.Repeat(")", 5_000),
		strings.Repeat("true && (", 1_900) + "true" + strings.Repeat(")", 1_900),
		strings.Repeat("(", 1_900) + "true" + strings.Repeat(" && true)", 1_900),
		"'" + strings.Repeat("x", 20_998) + "'",
	} {
		e, err := Parse(text)
		if err != nil {
			t.Errorf("%.20s…: %v", text, err)
			continue
		}
		if _, err := e.Eval(Env{}); err != nil {
			t.Errorf("%.20s…: %v", text, err)
		}
	}
}

func TestTheBudgetEndsAnEvaluation(t *testing.T) {
	big := Env{Context: func(string) (Value, bool) { return String(strings.Repeat("x", 1<<20)), true }}
	tests := map[string]string{
		"bytes of format": "format('" + strings.Repeat("{0}", 20) + "', x.y || x)",
		"bytes of toJSON": "toJSON(fromJSON(toJSON(fromJSON(format('[{0}]', join(fromJSON('[" + strings.Repeat("[],",
			3_000) + "1]')))))))",
	}
	for name, text := range tests {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(name, err)
		}
		env := big
		if name == "bytes of toJSON" {
			env.Budget.Bytes = 5_000
		}
		var got *Error
		if _, err := e.Eval(env); !errors.As(err, &got) || got.Code != CodeBudget {
			t.Errorf("%s: %v", name, err)
		}
	}
	items := make([]Value, 1_000)
	for i := range items {
		items[i] = Array(items[:i]...)
	}
	env := Env{Context: func(string) (Value, bool) { return Array(items...), true }, Budget: Budget{Steps: 1_000}}
	e, _ := Parse("x.*.*.*.*.*.*")
	var got *Error
	if _, err := e.Eval(env); !errors.As(err, &got) || got.Code != CodeBudget {
		t.Errorf("steps: %v", err)
	}
}

func TestDeepJSONIsRefused(t *testing.T) {
	if _, err := FromJSON(strings.Repeat("[", 100) + strings.Repeat("]", 100)); err != nil {
		t.Errorf("100 levels: %v", err)
	}
	if _, err := FromJSON(strings.Repeat("[", 101) + strings.Repeat("]", 101)); err == nil {
		t.Error("101 levels passed")
	}
}

func TestInterpolate(t *testing.T) {
	tests := []struct{ text, want string }{
		{"plain", "plain"}, {"", ""}, {"a ${{ env.T }} b ${{ 1.0 }}", "a true b 1"}, {"${{ null }}", ""}, {"${{ a }}",
			"Array"},
		{"${{ '}}' }}", "}}"}, {"$${{ 'x' }}", "$x"}, {"}} ${{ 'it''s }}' }}", "}} it's }}"}, {"${{ 'é' }}é", "éé"},
	}
	for _, test := range tests {
		got, err := Interpolate(test.text, testEnv(t))
		if err != nil || got != test.want {
			t.Errorf("%q is %q, %v", test.text, got, err)
		}
	}
	var e *Error
	if _, err := Interpolate("abc ${{ nope }}", testEnv(t)); !errors.As(err, &e) || e.Span != (Span{8, 12}) {
		t.Errorf("place of an evaluation error: %v", err)
	}
	if _, err := Interpolate("abc ${{ 'x }}", testEnv(t)); !errors.As(err, &e) || e.Code != CodeNotClosed ||
		e.Span != (Span{4, 7}) {
		t.Errorf("place of an open expression: %v", err)
	}
}

// A text that doubles as often as depth allows ends by the budget, long before memory does.
func TestATextThatDoublesIsStopped(t *testing.T) {
	const bytesMax = 64 << 20
	for _, text := range []string{
		strings.Repeat("format('{0}{0}', ", 48) + "'x'" + strings.Repeat(")", 48),
		strings.Repeat("toJSON(", 48) + "'\"'" + strings.Repeat(")", 48),
		"format('" + strings.Repeat("{0}", 6_000) + "', format('" + strings.Repeat("{0}", 600) + "', '" +
			strings.Repeat("x", 900) + "'))",
	} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var got *Error
		if _, err := e.Eval(Env{}); !errors.As(err, &got) || got.Code != CodeBudget || got.Phase != PhaseEvaluation {
			t.Errorf("%.40s…: %v", text, err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > bytesMax {
			t.Errorf("%.40s… allocates %d bytes", text, used)
		}
	}
}

func TestAnAnswerHasAKindOrAPhase(t *testing.T) {
	contexts, err := FromJSON(`{"a": {"b": [1, 0.1, "x", null]}, "s": "it"}`)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":             `{"kind":"Null","value":null}`,
		"a.b":          `{"kind":"Array","value":[1,0.1,"x",null]}`,
		"NaN":          `{"kind":"Number","value":{"$num":"NaN"}}`,
		"0.1":          `{"kind":"Number","value":0.1}`,
		"s == 'IT'":    `{"kind":"Boolean","value":true}`,
		"a":            `{"kind":"Object","value":{"b":[1,0.1,"x",null]}}`,
		"(1 < 2)[0].x": `{"kind":"Null","value":null}`,
		"'x":           `"phase":"lexing"`,
		"a.":           `"phase":"parsing"`,
		"b.c":          `"phase":"parsing"`,
		"success()":    `"phase":"parsing"`,
		"hashFiles(s)": `"phase":"parsing"`,
		"fromJSON(s)":  `"phase":"evaluation"`,
	} {
		got, err := json.Marshal(Ask(Question{Text: text, Contexts: contexts}))
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	got := Ask(Question{Text: "x ${{ s }} y ${{ 1 }}", Template: true, Contexts: contexts})
	if got.Value.Text() != "x it y 1" {
		t.Errorf("template: %+v", got)
	}
}

func TestAnExplanationShowsWhatWasNotReached(t *testing.T) {
	contexts, err := FromJSON(`{"a": {"b": 1}, "s": "it"}`)
	if err != nil {
		t.Fatal(err)
	}
	show := func(e Explanation) string {
		var out strings.Builder
		var walk func(Explanation, string)
		walk = func(e Explanation, indent string) {
			fmt.Fprintf(&out, "%s%s: ", indent, e.Text)
			switch {
			case e.Err != nil:
				out.WriteString("error")
			case e.Reached:
				out.Write(e.Value.Exact())
			default:
				out.WriteString("-")
			}
			out.WriteByte('\n')
			for _, p := range e.Parts {
				walk(p, indent+" ")
			}
		}
		walk(e, "")
		return out.String()
	}
	for text, want := range map[string]string{
		"a.b == 2 && s": "a.b == 2 && s: false\n a.b == 2: false\n  a.b: 1\n   a: {\"b\":1}\n s: -\n",
		"!fromJSON(s)":  "!fromJSON(s): -\n fromJSON(s): error\n  s: \"it\"\n",
	} {
		a := Ask(Question{Text: text, Contexts: contexts, Explain: true})
		if diff := cmp.Diff(want, show(a.Explanation[0])); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}
