package workflow

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// using compiles a workflow of one job that uses the action ./a, whose definition and those of others
// are given by their folders.
func using(t *testing.T, step string, actions map[string]string, lim Limits) (*plan.Plan, []Diagnostic) {
	t.Helper()
	src := Source{Path: "w.yml", Text: []byte("on: push\njobs:\n  j:\n    runs-on: linux\n    steps:\n" + step)}
	in := Inputs{Event: EventPush, Ref: "refs/heads/main", Components: Components{}}
	for range 50 {
		wanted := Wanted(src, in, lim)
		if len(wanted) == 0 {
			return Compile(src, in, lim)
		}
		for _, r := range wanted {
			c := Component{Reference: r, File: r.Path + "/action.yml", Text: []byte(actions[r.Path])}
			if _, ok := actions[r.Path]; !ok {
				c.Problem = "there is none"
			}
			in.Components[r.String()] = c
		}
	}
	t.Fatal("Wanted has no end")
	return nil, nil
}

func composite(steps string) string { return "runs:\n  using: composite\n  steps:\n" + steps }

func codes(list []Diagnostic) (out []syntax.Code) {
	for _, d := range list {
		out = append(out, d.Code)
	}
	return out
}

const usesA = "      - uses: ./a\n"

func TestACompositeActionIsStepsWithinAStep(t *testing.T) {
	step := "      - id: greet\n        uses: ./a\n        with: {name: '${{ github.actor }}'}\n"
	p, list := using(t, step, map[string]string{
		"a": "inputs:\n  name: {required: true}\n  greeting: {default: 'Hi ${{ runner.os }}'}\n" +
			"outputs:\n  said: {value: '${{ steps.say.outputs.text }}'}\n" +
			composite("    - id: say\n      run: echo\n      shell: bash\n    - uses: ./b\n"),
		"b": composite("    - run: 'true'\n      shell: sh\n      continue-on-error: ${{ inputs.x == 'y' }}\n"),
	}, Limits{})
	if p == nil || len(list) > 0 {
		t.Fatalf("compile: %v", list)
	}
	it := p.Jobs[0].Steps[0]
	want := []plan.Binding{{Name: "name", Value: "${{ github.actor }}"}, {Name: "greeting", Value: "Hi ${{ runner.os }}"}}
	if it.Uses != plan.UsesComposite || !slices.Equal(it.With, want) || it.ActionPath != "a" || len(it.Steps) != 2 ||
		len(it.Outputs) != 1 {
		t.Errorf("the step is %+v", it)
	}
	if inner := it.Steps[1]; inner.Uses != plan.UsesComposite || inner.ActionPath != "b" ||
		inner.Steps[0].SoftFailText == "" {
		t.Errorf("the inner step is %+v", inner)
	}
}

func TestActionsThatAreRefused(t *testing.T) {
	deep := make(map[string]string)
	for i := range 12 {
		deep[fmt.Sprintf("d%d", i)] = composite(fmt.Sprintf("    - uses: ./d%d\n", i+1))
	}
	deep["d12"] = composite("    - run: 'true'\n      shell: sh\n")
	deep["a"] = composite("    - uses: ./d0\n")
	many := map[string]string{"a": composite(strings.Repeat("    - uses: ./b\n", 100)),
		"b": composite(strings.Repeat("    - run: 'true'\n      shell: sh\n", 100))}
	for _, c := range []struct {
		name    string
		actions map[string]string
		code    syntax.Code
		says    string
	}{
		{"circle", map[string]string{"a": composite("    - uses: ./b\n"), "b": composite("    - uses: ./a\n")},
			syntax.CodeInvalidAction, "./a uses ./b uses ./a"},
		{"too deep", deep, syntax.CodeInvalidAction, "nested more than 10 deep"},
		{"too many steps", many, syntax.CodeInvalidAction, "more than 1000 steps"},
		{"missing", map[string]string{}, syntax.CodeUnresolved, "there is none"},
		{"no shell", map[string]string{"a": composite("    - run: 'true'\n")}, syntax.CodeInvalidAction, `"shell"`},
		{"secrets", map[string]string{"a": composite("    - run: echo ${{ secrets.X }}\n      shell: sh\n")},
			syntax.CodeInvalidAction, `"secrets" does not exist`},
		{"timeout", map[string]string{"a": composite("    - run: echo\n      shell: sh\n      timeout-minutes: 1\n")},
			syntax.CodeInvalidAction, `no key "timeout-minutes"`},
		{"two kinds", map[string]string{"a": "runs:\n  using: composite\n  main: x.js\n  steps: []\n"},
			syntax.CodeInvalidAction, `no key "main"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, list := using(t, usesA, c.actions, Limits{})
			if p != nil || len(list) == 0 || list[0].Code != c.code || list[0].Pos.Line != 6 {
				t.Fatalf("plan %v, %v", p != nil, list)
			}
			text := fmt.Sprint(list)
			if !strings.Contains(text, c.says) {
				t.Errorf("%s does not say %q", text, c.says)
			}
		})
	}
}

// Kinds of actions that runners don't execute are in the plan, pinned, and a run of it is refused.
func TestKindsThatAreNotRun(t *testing.T) {
	for want, text := range map[string]string{
		plan.UsesNode:      "runs:\n  using: node20\n  main: x.js\n",
		plan.UsesContainer: "runs:\n  using: docker\n  image: Dockerfile\n",
	} {
		p, list := using(t, usesA, map[string]string{"a": text}, Limits{})
		if p == nil || p.Jobs[0].Steps[0].Uses != want {
			t.Fatalf("%s: %v", want, list)
		}
		if needs := plan.Requires(p); len(needs) != 1 || needs[0].Code != plan.RequireAction {
			t.Errorf("%s requires %+v", want, needs)
		}
	}
}

func TestAHundredActionsInOneJob(t *testing.T) {
	actions := map[string]string{"a": composite(strings.Repeat("    - uses: ./b\n", 100)),
		"b": composite("    - run: 'true'\n      shell: sh\n")}
	p, list := using(t, usesA, actions, Limits{})
	if p == nil || len(p.Jobs[0].Steps[0].Steps) != 100 {
		t.Fatalf("compile: %v", codes(list))
	}
}

func TestALockFileIsReadAsItIsWritten(t *testing.T) {
	lock := Lock{"octo/greet@v1": "git:a:b", "octo/a@main": "git:c:d"}
	back, err := ParseLock(lock.Encode())
	if err != nil || string(back.Encode()) != string(lock.Encode()) {
		t.Errorf("%v, %v", back, err)
	}
	for _, bad := range []string{"x", "octo/a@v1 sha1:x", "octo/a@v1 git:a:b\nocto/a@v1 git:a:b", "a b c"} {
		if _, err := ParseLock([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// What comes after the bound on a plan costs next to nothing, and a hint does not list thousands of names.
func TestHugeActionsAreBounded(t *testing.T) {
	var big strings.Builder
	big.WriteString("inputs:\n")
	for i := range 5_000 {
		fmt.Fprintf(&big, "  input_%d: {default: ''}\n", i)
	}
	big.WriteString(composite("    - {run: make, shell: bash}\n"))
	made := func(uses int, with string) (uint64, []Diagnostic) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, list := using(t, strings.Repeat("      - uses: ./a\n"+with, uses), map[string]string{"a": big.String()},
			Limits{PlanBytes: 1 << 20})
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc, list
	}
	few, list := made(50, "")
	if got := codes(list); !slices.Equal(got, []syntax.Code{syntax.CodePlanTooLarge}) {
		t.Errorf("50 uses: %v", got)
	}
	if many, _ := made(500, ""); many > 2*few {
		t.Errorf("50 uses take %d KiB and 500 uses %d KiB", few>>10, many>>10)
	}
	_, list = made(1, "        with: {other: x, INPUT_7: x}\n")
	if len(list) != 1 || list[0].Code != syntax.CodeActionInput || len(list[0].Hint) > 500 {
		t.Errorf("an unknown input: %v", list)
	}
}
