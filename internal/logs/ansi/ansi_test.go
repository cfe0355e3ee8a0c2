package ansi

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// Promises: [LOG-13].
func TestRender(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":                    {"hello\tworld", "hello\tworld"},
		"markup is escaped":        {`<b>("x")</b>&'`, "&lt;b&gt;(&#34;x&#34;)&lt;/b&gt;&amp;&#39;"},
		"colour and reset":         {"\x1b[31mred\x1b[0m plain", `<span class="t-fg1">red</span> plain`},
		"bold bright":              {"\x1b[1;92mok", `<span class="t-b t-fg10">ok</span>`},
		"palette":                  {"\x1b[38;5;208mx\x1b[0my", `<span class="t-fg208">x</span>y`},
		"palette of the ground":    {"\x1b[31;48;5;17my", `<span class="t-fg1 t-bg17">y</span>`},
		"true colour":              {"\x1b[38;2;255;0;0mx", `<span class="t-fg196">x</span>`},
		"true colour with colons":  {"\x1b[38:2::255:0:0mx", `<span class="t-fg196">x</span>`},
		"colour beyond the table":  {"\x1b[38;5;999mx", "x"},
		"absent parameter resets":  {"\x1b[1mb\x1b[mp", `<span class="t-b">b</span>p`},
		"inverse":                  {"\x1b[7mx", `<span class="t-fgd t-bgd">x</span>`},
		"cursor and erase removed": {"\x1b[2K\x1b[1Gx\x1b[?25l", "x"},
		"title removed":            {"\x1b]0;evil\x07x", "x"},
		"link keeps its text":      {"\x1b]8;;javascript:alert(1)\x1b\\text\x1b]8;;\x1b\\", "text"},
		"unterminated string":      {"a\x1b]0;forever", "a"},
		"cut sequence":             {"a\x1b[3", "a"},
		"malformed sequence":       {"a\x1b[3\x01b", "ab"},
		"control characters":       {"a\x00b\x08c\x7f\u009bd", "abcd"},
		"invalid UTF-8":            {"a\xffb\xc3", "a\uFFFDb\uFFFD"},
		"reordering":               {"a\u202eb\u2066c", "a\uFFFDb\uFFFDc"},
		"progress bar":             {" 10%\r 50%\r100%", "100%"},
		"progress keeps its style": {"\x1b[32m 10%\r100%\r", `<span class="t-fg2">100%</span>`},
		"line end of Windows":      {"text\r", "text"},
		"only returns":             {"\r\r", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := Render([]byte(c.in), Style{}); string(got) != c.want {
				t.Errorf("%q\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

func TestStyleIsCarriedFromLineToLine(t *testing.T) {
	_, style := Render([]byte("\x1b[1;33mwarn"), Style{})
	got, style := Render([]byte("still\x1b[22m not bold"), style)
	if want := `<span class="t-b t-fg3">still</span><span class="t-fg3"> not bold</span>`; string(got) != want {
		t.Errorf("got %s", got)
	}
	if style != (Style{Text: 4}) {
		t.Errorf("style = %+v", style)
	}
}

func TestClassify(t *testing.T) {
	for in, want := range map[string]string{
		"::group::Install %25 more":              "1 Install % more",
		"##[group]Build":                         "1 Build",
		"::endgroup::":                           "2 ",
		"::error file=a.go,line=3::boom%0Aagain": "3 boom again",
		"\x1b[36m::warning::careful\x1b[0m":      "4 careful",
		"  ::notice::n":                          "5 n",
		"::debug::d":                             "6 d",
		"##[command]go test":                     "7 go test",
		"::set-output name=x::y":                 "0 ",
		"std::vector::push":                      "0 ",
		"::group":                                "0 ",
		"::GROUP::x":                             "1 x",
		"::group::a\u202e\x07b":                  "1 a\uFFFDb",
	} {
		kind, title := Classify([]byte(in))
		if got := fmt.Sprintf("%d %s", kind, title); got != want {
			t.Errorf("%q = %q, want %q", in, got, want)
		}
	}
}

func TestStylesheetCoversEveryClass(t *testing.T) {
	sheet := Stylesheet()
	for i := range paletteSize {
		for _, class := range []string{fmt.Sprintf(".t-fg%d{", i), fmt.Sprintf(".t-bg%d{", i)} {
			if !strings.Contains(sheet, class) {
				t.Errorf("no %s", class)
			}
		}
	}
}

var allowed = regexp.MustCompile(`</?span(?: class="t-[a-z0-9]+( t-[a-z0-9]+)*")?>`)

// The output must be well-formed, made of nothing but our spans, and the style afterwards
// must be the same whichever way the line was cut on its way here.
// Promises: [LOG-13].
func FuzzRender(f *testing.F) {
	for _, seed := range []string{
		"\x1b[31mred\x1b[0m", "\x1b]8;;x\x1b\\t", "a\rb\x1b[1", "<b>\x1b[38;2;1;2;3mx", "\x1b[38:5:",
		"\x1bP\x1b[1m", "\x1b\x1b[1m",
		"\x1b[;;;;m\x1b(B", "::group::\xff", "\x1b]0;a\nb\x1b[4m",
	} {
		f.Add([]byte(seed), uint16(2))
	}
	f.Fuzz(func(t *testing.T, line []byte, cut uint16) {
		html, after := Render(line, Style{Text: 3, Attributes: Bold})
		if rest := allowed.ReplaceAllString(string(html), ""); strings.ContainsAny(rest, "<>\"'") {
			t.Fatalf("unescaped markup in %q from %q", html, line)
		}
		if err := xml.Unmarshal([]byte("<r>"+string(html)+"</r>"), new(struct{})); err != nil {
			t.Fatalf("%q is not well-formed: %v", html, err)
		}
		if !bytes.ContainsRune(line, '\n') && !bytes.ContainsRune(line, '\r') {
			if want := (Style{Text: 3, Attributes: Bold}).Then(DeltaOf(line)); after != want {
				t.Fatalf("style after %q is %+v, want %+v", line, after, want)
			}
		}
		if len(line) < sequenceBytesMax {
			var whole, parts Tracker
			whole.Feed(line)
			at := int(cut) % (len(line) + 1)
			parts.Feed(line[:at])
			parts.Feed(line[at:])
			if whole.Style != parts.Style {
				t.Fatalf("%q cut at %d: %+v, whole %+v", line, at, parts.Style, whole.Style)
			}
		}
		d := DeltaOf(line)
		if back, rest, err := DecodeDelta(append(d.Append(nil), "x"...)); err != nil || back != d || string(rest) != "x" {
			t.Fatalf("delta %+v came back as %+v, %q, %v", d, back, rest, err)
		}
		Classify(line)
		if bytes.IndexByte(Strip(line), escape) >= 0 {
			t.Fatalf("escape left in %q", Strip(line))
		}
	})
}
