package web

import (
	"net/url"
	"strings"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// filterWords are the words a list of runs filters by, with an example each. They are
// the whole language: word:value, joined by "and".
var filterWords = []struct{ Word, Example string }{
	{"branch", "branch:main"},
	{"outcome", "outcome:failure"},
	{"workflow", "workflow:ci"},
	{"repo", "repo:shop"},
	{"state", "state:attention"},
	{"tag", "tag:v1.2"},
	{"ref", "ref:refs/heads/main"},
}

// filter is what somebody typed to narrow a list.
type filter struct {
	Text    string   // as typed, for the field
	Unknown []string // what was typed and means nothing; shown, never dropped in silence
	request *fairleadv1.ListRunsRequest
}

// parseFilter reads "branch:main outcome:failure".
//
// Trust: text may come from anybody; it only ever becomes fields of a request.
func parseFilter(text string) filter {
	if len(text) > filterBytesMax {
		text = strings.ToValidUTF8(text[:filterBytesMax], "")
	}
	f := filter{Text: strings.Join(strings.Fields(text), " "), request: &fairleadv1.ListRunsRequest{}}
	for _, part := range strings.Fields(text) {
		word, value, found := strings.Cut(part, ":")
		if !found || value == "" || !f.take(strings.ToLower(word), value) {
			f.Unknown = append(f.Unknown, part)
		}
	}
	return f
}

func (f *filter) take(word, value string) bool {
	switch word {
	case "branch":
		f.request.Ref = "refs/heads/" + strings.TrimPrefix(value, "refs/heads/")
	case "tag":
		f.request.Ref = "refs/tags/" + strings.TrimPrefix(value, "refs/tags/")
	case "ref":
		f.request.Ref = value
	case "outcome":
		f.request.Outcome = value
	case "workflow":
		f.request.Workflow = value
	case "repo", "repository":
		f.request.Repository = value
	case "state":
		f.request.State = value
	default:
		return false
	}
	return true
}

// address is the list with this filter, from that run on.
func (f filter) address(before string) string {
	query := url.Values{}
	if f.Text != "" {
		query.Set("q", f.Text)
	}
	if before != "" {
		query.Set("before", before)
	}
	if len(query) == 0 {
		return "/"
	}
	return "/?" + query.Encode()
}

// with is the filter with one word more, or another value for it.
func (f filter) with(word, value string) filter {
	var parts []string
	for _, part := range strings.Fields(f.Text) {
		if !strings.HasPrefix(part, word+":") {
			parts = append(parts, part)
		}
	}
	return parseFilter(strings.Join(append(parts, word+":"+value), " "))
}
