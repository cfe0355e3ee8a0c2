package run

import "testing"

func TestConditions(t *testing.T) {
	ok := Status{Success: true}
	broken := Status{Failure: true}
	skipped := Status{}
	tests := []struct {
		text                      string
		decidable                 bool
		ok, afterFailure, skipped bool
	}{
		{"", true, true, false, false},
		{"  ", true, true, false, false},
		{"true", true, true, false, false},
		{"false", true, false, false, false},
		{"${{ true }}", true, true, false, false},
		{"always()", true, true, true, true},
		{"${{always()}}", true, true, true, true},
		{"ALWAYS ( )", true, true, true, true},
		{"success()", true, true, false, false},
		{"failure()", true, false, true, false},
		{"cancelled()", true, false, false, false},
		{"!cancelled()", true, true, true, true},
		{"!!failure()", true, false, true, false},
		{"success() || failure()", true, true, true, false},
		{"always() && !failure()", true, true, false, true},
		{"failure() || always() && false", true, false, true, false},
		{"(failure() || always()) && false", true, false, false, false},
		{"!(failure() && true)", true, true, false, true},
		{"always() && needs.a.result == 'success'", false, false, false, false},
		{"always", false, false, false, false},
		{"always(", false, false, false, false},
		{"always(1)", false, false, false, false},
		{"success() success()", false, false, false, false},
		{"true == true", false, false, false, false},
		{"!= true", false, false, false, false},
		{"'always()'", false, false, false, false},
		{"${{ always() }} && ${{ true }}", false, false, false, false},
		{"${{ false }} ", false, false, false, false},
		{"${{ false }}\n", false, false, false, false},
		{" ${{ false }}", false, false, false, false},
		{"${{ true }} }}", false, false, false, false},
		{"&&", false, false, false, false},
		{"((((((((((((((((((((((((((((((((((((((((((((((((((((true))))))))))))))))))))))))))))))))))))))))))))))))))))",
			false, false, false, false},
	}
	for _, test := range tests {
		c := parseCondition(test.text)
		if c.decidable != test.decidable {
			t.Errorf("%q: decidable %t", test.text, c.decidable)
			continue
		}
		if !c.decidable {
			continue
		}
		for _, given := range []struct {
			status Status
			want   bool
		}{{ok, test.ok}, {broken, test.afterFailure}, {skipped, test.skipped}} {
			if got := c.value(given.status); got != given.want {
				t.Errorf("%q with %+v: %t", test.text, given.status, got)
			}
		}
	}
}

func TestNamesStatus(t *testing.T) {
	for text, want := range map[string]bool{
		"always()": true, "x == 1 && Failure ()": true, "'always()' == x": false, "success": false,
		"'it''s' == success()": true,
		"my_success()":         false, "github.success()": false, "'open": false, "": false,
	} {
		if got := namesStatus(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestTemplatesNameStatus(t *testing.T) {
	for text, want := range map[string]bool{
		"${{ failure() }} x": true, "it's ${{ failure() }}": true, "failure() ${{ x }}": false,
		"${{ '}} failure()' }} x":   false,
		"${{ x }} ${{ !always() }}": true, "${{ always()": true, "${{": false,
	} {
		if got := parseCondition(text).hasStatus; got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func FuzzCondition(f *testing.F) {
	for _, text := range []string{"always()", "${{ success() && !cancelled() }}", "((true)", "'a' == failure()"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := parseCondition(text)
		if c.decidable {
			c.value(Status{Success: true})
			if again := parseCondition("(" + c.text + ")"); c.text != "" && len(text) < 40 && !again.decidable {
				t.Fatalf("%q can be decided, but not in parentheses", text)
			}
		}
	})
}
