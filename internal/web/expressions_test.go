package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/web/canned"
)

// The page of expressions answers a form without scripts, whatever is in it, within bounds.
func TestExpressionsAreAnsweredByAForm(t *testing.T) {
	pages := pagesOf(t, canned.Empty(noon))
	doubling := strings.Repeat("format('{0}{0}', ", 48) + "'x'" + strings.Repeat(")", 48)
	for _, test := range []struct {
		text, contexts, status string
		template               bool
		want                   []string
	}{
		{text: "1 == 1.0 && s", contexts: `{"s": "<script>"}`, want: []string{"String", "&lt;script&gt;",
			"<td>Boolean</td>"}},
		{text: "a ${{ failure() }}", template: true, status: "failure", want: []string{"&#34;a true&#34;"}},
		{text: "a ==\r\n  'x", contexts: "{}", want: []string{"lexing", "  &#39;x\n  ^~", "expression_syntax"}},
		{text: "s", contexts: "[1]", want: []string{"must be an object"}},
		{text: "s", contexts: "{", want: []string{"No value", "contexts"}},
		{text: doubling, want: []string{"expression_budget_exceeded"}},
		{text: strings.Repeat("!!s && ", 400) + "s", contexts: `{"s": 1}`, want: []string{"more parts than this page shows"}},
		{text: "", contexts: "", want: []string{"Null"}},
	} {
		form := url.Values{"text": {test.text}, "contexts": {test.contexts}, "status": {test.status}}
		if test.template {
			form.Set("template", "yes")
		}
		got := post(t, pages, "/expressions", form)
		for _, want := range test.want {
			if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), want) {
				t.Errorf("%.40q: status %d without %q", test.text, got.Code, want)
			}
		}
		if strings.Contains(got.Body.String(), "<script>") {
			t.Errorf("%.40q: the page has a script of its reader", test.text)
		}
	}
	if got := post(t, pages, "/expressions", url.Values{"text": {strings.Repeat("x", 1<<17)}}); got.Code != 422 {
		t.Errorf("a form of 128 KiB: status %d", got.Code)
	}
}
