package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// checkoutInput is an option of checkout with the values that ask for nothing else than what
// happens without it. An option without such values is neutral with every value.
type checkoutInput struct {
	name    string
	neutral []string
}

// checkoutInputs are the options that actions/checkout documents. The workspace starts empty and is
// emptied by checkout, no credential is ever left in it, and it always holds the run's own commit.
func checkoutInputs() []checkoutInput {
	return []checkoutInput{
		{"repository", []string{"", "${{github.repository}}"}},
		{"ref", []string{"", "${{github.sha}}", "${{github.ref}}"}},
		{"token", []string{"", "${{github.token}}", "${{secrets.github_token}}"}},
		{"ssh-key", []string{""}}, {"ssh-known-hosts", nil}, {"ssh-strict", nil}, {"ssh-user", nil},
		{"persist-credentials", nil}, {"path", []string{"", ".", "./"}}, {"clean", []string{"", "true"}},
		{"filter", []string{""}}, {"sparse-checkout", []string{""}}, {"sparse-checkout-cone-mode", nil},
		{"fetch-depth", []string{"", "1"}}, {"fetch-tags", []string{"", "false"}}, {"show-progress", nil},
		{"lfs", []string{"", "false"}}, {"submodules", []string{"", "false"}}, {"set-safe-directory", nil},
		{"github-server-url", []string{"", "${{github.server_url}}"}}, {"allow-unsafe-pr-checkout", nil},
	}
}

// checkoutOptions are the options of a checkout that ask for something.
func (c *compiler) checkoutOptions(in *syntax.Step) []plan.Binding {
	inputs := checkoutInputs()
	names := make([]string, len(inputs))
	for i, input := range inputs {
		names[i] = input.name
	}
	var out []plan.Binding
	for _, p := range in.With {
		name := strings.ToLower(p.Key.Value)
		at := slices.Index(names, name)
		if at < 0 {
			c.reports.Add(syntax.CodeActionInput, p.Key.Range,
				fmt.Sprintf("checkout has no input %s", syntax.Quote(p.Key.Value)),
				c.reports.Suggest(p.Key.Value, names, "it has no effect"))
			continue
		}
		value := scalarText(p.Value)
		plain := strings.ToLower(strings.Join(strings.Fields(value), ""))
		if inputs[at].neutral == nil || slices.Contains(inputs[at].neutral, plain) {
			continue
		}
		c.checkoutOption(name, value, p.Value)
		out = append(out, plan.Binding{Name: name, Value: value})
	}
	return out
}

// checkoutOption checks a value that is written out.
func (c *compiler) checkoutOption(name, value string, at *syntax.Node) {
	if expr.HasExpression(value) {
		return
	}
	switch name {
	case "fetch-depth":
		if n, whole := expr.String(value).Whole(); !whole || n < 0 {
			c.reports.Add(syntax.CodeInvalidValue, at.Range,
				fmt.Sprintf("%s is not a number of commits", syntax.Quote(value)), "0 is the whole history")
		}
	case "path":
		if strings.HasPrefix(value, "/") || slices.Contains(strings.Split(value, "/"), "..") {
			c.reports.Add(syntax.CodeInvalidValue, at.Range,
				fmt.Sprintf("the path %s is not in the workspace", syntax.Quote(value)), "name a folder below it")
		}
	}
}
