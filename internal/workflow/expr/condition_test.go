package expr

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConditions(t *testing.T) { // F5
	failed, stopped := StepStatus{Failed: true}, StepStatus{Stopped: true}
	tests := []struct {
		text   string
		status Status
		want   Verdict
	}{
		{"", StepStatus{}, Verdict{true, false}}, {"", failed, Verdict{false, true}}, {"  \n", failed, Verdict{false, true}},
		{"success()", failed, Verdict{false, true}}, {"true", failed, Verdict{false, true}},
		{"true", StepStatus{}, Verdict{true, false}},
		{"false", StepStatus{}, Verdict{false, false}}, {"${{ false }}", StepStatus{}, Verdict{false, false}},
		{"${{ false }} ", StepStatus{}, Verdict{true, false}}, {"${{ false }}\n", StepStatus{}, Verdict{true, false}},
		{"${{ env.T }} == \"false\"", StepStatus{}, Verdict{true, false}}, {"${{ env.T }} == \"false\"", failed,
			Verdict{false, true}},
		{"${{ failure() }} x", failed, Verdict{true, false}}, {"failure()", failed, Verdict{true, false}},
		{"failure() && false", failed, Verdict{false, false}}, {"always()", stopped, Verdict{true, false}},
		{"ALWAYS() && false", stopped, Verdict{false, false}}, {"cancelled()", stopped, Verdict{true, false}},
		{"!cancelled()", stopped, Verdict{false, false}}, {"failure()", stopped, Verdict{false, false}},
		{"'false'", StepStatus{}, Verdict{true, false}}, {"env.T == 'true'", StepStatus{}, Verdict{true, false}},
		{"'success()'", failed, Verdict{false, true}}, {"contains('x', success())", failed, Verdict{false, false}},
	}
	for _, test := range tests {
		c, err := ParseCondition(test.text)
		if err != nil {
			t.Errorf("%q: %v", test.text, err)
			continue
		}
		env := testEnv(t)
		env.Status = test.status
		got, err := c.Eval(env)
		if err != nil || got != test.want {
			t.Errorf("%q with %+v: %+v, %v; want %+v", test.text, test.status, got, err, test.want)
		}
	}
}

func TestDefaultCondition(t *testing.T) {
	for text, want := range map[string]bool{"": true, " ": true, "success()": true, "${{ success() }}": true,
		"success('a')": false,
		"true":         false, "success() && true": false, "${{ success() }} ": false} {
		c, err := ParseCondition(text)
		if err != nil || c.Default() != want {
			t.Errorf("%q: default is not %v, %v", text, want, err)
		}
	}
}

func TestJobStatusLooksAtAllAncestors(t *testing.T) { // F6
	of := func(results ...string) JobStatus {
		var s JobStatus
		for i, r := range results {
			s.Ancestors = append(s.Ancestors, JobResult{ID: string(rune('a' + i)), Result: r})
		}
		return s
	}
	tests := []struct {
		status           JobStatus
		ids              []string
		success, failure bool
	}{
		{of(), nil, true, false}, {of("success", "success"), nil, true, false}, {of("success", "skipped"), nil, false, false},
		{of("failure", "success"), nil, false, true}, {of("cancelled"), nil, false, false},
		{of("failure", "success"), []string{"B"}, true, false}, {of("failure", "success"), []string{"a", "b"}, false, true},
		{of("success"), []string{"nope"}, false, false}, {JobStatus{Stopped: true}, nil, false, false},
	}
	for i, test := range tests {
		if test.status.Success(test.ids) != test.success || test.status.Failure(test.ids) != test.failure {
			t.Errorf("case %d: %+v", i, test)
		}
	}
}

func TestReferences(t *testing.T) {
	tmpl, err := ParseTemplate("x ${{ github.event['a'].*.b && contains(env.X, inputs.y) || " +
		"format('{0}', a[needs.j.result].z) }} ${{ !q.r && (s.t) }}")
	if err != nil {
		t.Fatal(err)
	}
	type short struct {
		Path  []string
		Flows bool
	}
	var got []short
	for _, r := range tmpl.References() {
		got = append(got, short{r.Path, r.Flows})
	}
	want := []short{
		{[]string{"github", "event", "a", "*", "b"}, false}, {[]string{"env", "X"}, false}, {[]string{"inputs", "y"}, false},
		{[]string{"a"}, true}, {[]string{"needs", "j", "result"}, false}, {[]string{"q", "r"}, false}, {[]string{"s",
			"t"}, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r := tmpl.References()[0]; r.Span != (Span{6, 27}) {
		t.Errorf("span %v", r.Span)
	}
}
