package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// lineValueBytesMax bounds one value of a log line.
const lineValueBytesMax = 16 << 10

// NewLogger makes the program's logger: form is "json" or "text", level one of slog's
// names. Values are redacted by their type, and tokens of ours by their look, so that a
// careless line leaks nothing.
func NewLogger(w io.Writer, form, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("parse log level %q: %w", level, err)
	}
	options := &slog.HandlerOptions{Level: least, ReplaceAttr: redact}
	switch form {
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return nil, fmt.Errorf("parse log form %q: want json or text", form)
}

// redact sees every attribute after LogValuers (domain.Secret is one) were resolved.
func redact(_ []string, attr slog.Attr) slog.Attr {
	switch attr.Value.Kind() {
	case slog.KindString:
		attr.Value = slog.StringValue(clean(attr.Value.String()))
	case slog.KindAny:
		switch value := attr.Value.Any().(type) {
		case error:
			attr.Value = slog.StringValue(clean(value.Error()))
		case http.Header, []*http.Cookie, *http.Cookie, *http.Request:
			attr.Value = slog.StringValue("[withheld]") // they carry credentials
		case *url.URL:
			attr.Value = slog.StringValue(cleanURL(value))
		case url.URL:
			attr.Value = slog.StringValue(cleanURL(&value))
		case []byte:
			attr.Value = slog.StringValue(fmt.Sprintf("[%d bytes]", len(value)))
		case *slog.Source:
		default:
			// A struct would be written field by field, past every check above but for types
			// that hide themselves. Its text passes the check by look.
			attr.Value = slog.StringValue(clean(fmt.Sprintf("%+v", value)))
		}
	}
	return attr
}

// ownToken is the look of the tokens that credential makes.
var ownToken = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\bf(?:la|at|rt|ls|lc)_[A-Za-z0-9_-]{16,}`)
})

func clean(text string) string {
	if len(text) > lineValueBytesMax {
		text = strings.ToValidUTF8(text[:lineValueBytesMax], "") + "…"
	}
	for _, prefix := range []string{"fla_", "fat_", "frt_", "fls_", "flc_"} {
		if strings.Contains(text, prefix) {
			return ownToken().ReplaceAllString(text, "[secret]")
		}
	}
	return text
}

// cleanURL leaves out what may carry a credential.
func cleanURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	bare := *u
	bare.User, bare.RawQuery, bare.Fragment = nil, "", ""
	return clean(bare.String())
}
