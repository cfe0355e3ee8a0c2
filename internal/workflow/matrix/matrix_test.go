package matrix

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// expanded gives the legs of a matrix that is written as JSON, one line each: the name, then
// the values.
func expanded(t *testing.T, job, text string) (lines []string, problem string) {
	t.Helper()
	v, err := expr.FromJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Read(v)
	if err != nil {
		return nil, err.Error()
	}
	legs, err := d.Expand(0)
	if err != nil {
		return nil, err.Error()
	}
	for _, leg := range legs {
		values, err := json.Marshal(leg.Values)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, Name(job, leg)+" "+string(values))
	}
	return lines, ""
}

func check(t *testing.T, text string, want ...string) {
	t.Helper()
	got, problem := expanded(t, "j", text)
	if problem != "" {
		got = []string{problem}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s gives\n%s\nwant\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestS01OnlyInclude(t *testing.T) { check(t, `{"include":[{"foo":"a"}]}`, `j (a) {"foo":"a"}`) }

func TestS02ALaterIncludeOverwritesWhatAnEarlierAdded(t *testing.T) {
	check(t, `{"os":["w","u"],"p":[true,false],"include":[{"os":"w","t":"x86"},{"os":"w","t":"x64"}]}`,
		`j (w, true) {"os":"w","p":true,"t":"x64"}`, `j (w, false) {"os":"w","p":false,"t":"x64"}`,
		`j (u, true) {"os":"u","p":true}`, `j (u, false) {"os":"u","p":false}`)
}

// Promises: [RUN-19].
func TestS03TheDocumentedFruits(t *testing.T) {
	check(t, `{"fruit":["apple","pear"],"animal":["cat","dog"],"include":[{"color":"green"},
		{"color":"pink","animal":"cat"},{"fruit":"apple","shape":"circle"},{"fruit":"banana"},
		{"fruit":"banana","animal":"cat"}]}`,
		`j (apple, cat) {"fruit":"apple","animal":"cat","color":"pink","shape":"circle"}`,
		`j (apple, dog) {"fruit":"apple","animal":"dog","color":"green","shape":"circle"}`,
		`j (pear, cat) {"fruit":"pear","animal":"cat","color":"pink"}`,
		`j (pear, dog) {"fruit":"pear","animal":"dog","color":"green"}`,
		`j (banana) {"fruit":"banana"}`, `j (banana, cat) {"fruit":"banana","animal":"cat"}`)
}

func TestS04AnEmptyVectorIsNamed(t *testing.T) {
	check(t, `{"service":[]}`, `the matrix vector "service" has no values`)
}

func TestF2Filters(t *testing.T) {
	check(t, `{"os":["Linux","mac"],"v":[1,2],"exclude":[{"os":"linux","v":"1"}]}`,
		`j (Linux, 2) {"os":"Linux","v":2}`, `j (mac, 1) {"os":"mac","v":1}`, `j (mac, 2) {"os":"mac","v":2}`)
	check(t, `{"a":[{"n":1,"x":9},{"n":2,"x":9}],"exclude":[{"a":{"n":2}}]}`, `j (1, 9) {"a":{"n":1,"x":9}}`)
	check(t, `{"a":[1,2],"exclude":[{"a":2}],"include":[{"a":2,"z":1}]}`, `j (1) {"a":1}`, `j (2, 1) {"a":2,"z":1}`)
	check(t, `{"java":[8],"include":[{"s":1},{"s":2}]}`, `j (8) {"java":8,"s":2}`)
	check(t, `{"OS":["a"],"include":[{"os":"a","t":1}]}`, `j (a) {"OS":"a","t":1}`)
}

func TestF2Errors(t *testing.T) {
	check(t, `{"a":[1],"exclude":[{"b":1}]}`, `the exclude key "b" is no vector of the matrix`)
	check(t, `{"a":[1],"exclude":[{"a":1}]}`, "exclude takes away every combination of the matrix")
	check(t, `{}`, "the matrix has no vector and no include")
	check(t, `[1]`, "the matrix must be an object with a list for each key, not Array")
	check(t, `{"a":"x"}`, `the matrix vector "a" must be a list, not String`)
	check(t, `{"a":[1],"include":[1]}`, "entry 1 of the matrix's include must be an object with at least one key")
	check(t, `{"a":[1],"include":{"x":1}}`, `"include" of the matrix must be a list, not Object`)
}

func TestF2Names(t *testing.T) {
	got, _ := expanded(t, "b", `{"v":[1,true,null,""],"o":[{"k":[2,{"q":"z"}]}]}`)
	for i, want := range []string{"b (1, 2, z) ", "b (true, 2, z) ", "b (2, z) ", "b (2, z) "} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("leg %d is %s, want %s", i, got[i], want)
		}
	}
	got, _ = expanded(t, strings.Repeat("ü", 120), `{"a":[1]}`)
	if name, _, _ := strings.Cut(got[0], " {"); len([]rune(name)) != 100 || !strings.HasSuffix(name, "ü...") {
		t.Errorf("a long name became %q", name)
	}
}

// list is a JSON list of so many numbers.
func list(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

func TestTheBoundIsFoundWithoutExpanding(t *testing.T) {
	one := expr.Array(make([]expr.Value, 256)...)
	square := expr.Object(expr.Field{Name: "a", Value: one}, expr.Field{Name: "b", Value: one})
	huge := square.With("c", one).With("d", one)
	for _, v := range []expr.Value{square, huge} {
		d, err := Read(v)
		if err != nil {
			t.Fatal(err)
		}
		allocated := testing.AllocsPerRun(3, func() {
			legs, err := d.Expand(0)
			if e, ok := err.(*Error); !ok || !e.Bound || legs != nil {
				t.Fatalf("%d legs, %v", len(legs), err)
			}
		})
		if allocated > 20 {
			t.Errorf("a matrix that is refused took %.0f allocations", allocated)
		}
	}
	check(t, `{"a":`+list(257)+`}`, "the matrix has 257 legs; at most 256 are allowed")
	check(t, `{"a":`+list(256)+`,"include":[{"a":2}]}`, "the matrix has 257 legs; at most 256 are allowed")
	check(t, `{"a":`+list(300)+`,"b":[1],"exclude":[{"b":2}]}`, "the matrix has 300 legs; at most 256 are allowed")
	if got, problem := expanded(t, "j", `{"a":`+list(16)+`,"b":`+list(16)+`}`); len(got) != 256 {
		t.Errorf("%d legs: %s", len(got), problem)
	}
	check(t, `{"a":`+list(256)+`,"b":`+list(256)+`,"exclude":[`+strings.TrimSuffix(strings.Repeat(`{"a":2},`, 100), ",")+
		`]}`, "the matrix has 65536 combinations and 100 entries of exclude, too many to look at; "+
		"at most 256 legs are allowed")
}

// Cases of another implementation, a JSON object a line, are compared when a file with them is
// named: {"job": …, "matrix": …, "expect": [{"name": …, "values": …}] or {"error": …}}.
func TestReferenceCases(t *testing.T) {
	name := os.Getenv("FAIRLEAD_MATRIX_CASES")
	if name == "" {
		return
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines, fine := bufio.NewScanner(file), 0
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one struct {
			ID, Job string
			Matrix  json.RawMessage
			Expect  json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		if reference(t, one.Job, one.Matrix, one.Expect) {
			fine++
		} else {
			t.Errorf("%s: %s\nwant %s", one.ID, one.Matrix, one.Expect)
		}
	}
	t.Logf("%d cases agree", fine)
}

func reference(t *testing.T, job string, definition, expect json.RawMessage) bool {
	t.Helper()
	got, problem := expanded(t, job, string(definition))
	var legs []struct {
		Name   string
		Values json.RawMessage
	}
	if json.Unmarshal(expect, &legs) != nil {
		return problem != ""
	}
	if len(got) != len(legs) {
		return false
	}
	for i, leg := range legs {
		v, err := expr.FromJSON(string(leg.Values))
		if err != nil {
			t.Fatal(err)
		}
		values, err := json.Marshal(v)
		if err != nil || got[i] != leg.Name+" "+string(values) {
			t.Log(got[i])
			return false
		}
	}
	return true
}
