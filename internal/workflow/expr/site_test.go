package expr

import "testing"

func TestWhatASiteMayUse(t *testing.T) {
	for _, test := range []struct {
		site Site
		text string
		want Code
	}{
		{SiteJobIf, "needs.a.result == 'x' && always()", ""}, {SiteJobIf, "success('a', 'b')", ""},
		{SiteJobIf, "steps.a.outcome", CodeContextNotAllowed}, {SiteJobIf, "always(1)", CodeArgumentCount},
		{SiteJobIf, "hashFiles('x')", CodeFunctionNotAllowed}, {SiteStepIf, "hashFiles('x')", ""},
		{SiteStepIf, "success('a')", CodeArgumentCount}, {SiteStepIf, "secrets.X", CodeContextNotAllowed},
		{SiteStepText, "secrets.X", ""}, {SiteStepText, "always()", CodeFunctionNotAllowed},
		{SiteRunName, "github.ref", ""}, {SiteRunName, "needs.a", CodeContextNotAllowed},
		{SiteRunName, "nope.a", CodeUnknownContext}, {SiteCallOutput, "jobs.a.outputs.b", ""}, {"nope", "1",
			CodeContextNotAllowed},
	} {
		tmpl, err := ParseTemplate("${{ " + test.text + " }}")
		if err != nil {
			if e, ok := err.(*Error); ok && e.Code == test.want {
				continue
			}
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		var got Code
		if found := tmpl.Check(test.site, "key"); len(found) > 0 {
			got = found[0].Code
		}
		if got != test.want {
			t.Errorf("%s at %s: %q, want %q", test.text, test.site, got, test.want)
		}
	}
}
