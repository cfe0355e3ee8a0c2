package job

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
)

// TestCommandFileRules walks through the rules of the format one by one.
func TestCommandFileRules(t *testing.T) {
	for _, c := range []struct{ text, want, fault string }{
		{"\ufeffa=1\n", "a=1", ""},
		{"a=1\n\n\nb=2", "a=1;b=2", ""},
		{"a=\r\nb=x=y\r\n", "a=;b=x=y", ""},
		{"a=b<<c\n", "a=b<<c", ""},
		{"a<<E\n1\n2\nE\n", "a=1\n2", ""},
		{"a<<E=F\nx\nE=F", "a=x", ""},
		{"a<<E\r\nx\r\nE\r\n", "a=x", ""},
		{"a<<E\nE\n", "a=", ""},
		{"r<<EOF\na\nEOF\ninjected=1\nx<<EOF\nb\nEOF\n", "r=a;injected=1;x=b", ""},
		{"r<<EOF\na\nEOF\nEOF\n", "r=a", "neither = nor <<"},
		{"ok=1\nx<<EOF\nlastEOF", "ok=1", "matching delimiter not found"},
		{"=v", "", "must not be empty"},
		{"<<E\nE", "", "may be empty"},
		{"a<<\n", "", "may be empty"},
		{"plain", "", "neither = nor <<"},
	} {
		pairs, err := parsePairs(c.text)
		var got []string
		for _, p := range pairs {
			got = append(got, p.name+"="+p.value)
		}
		if strings.Join(got, ";") != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q: %v, want %q", c.text, err, c.fault)
		}
	}
	if got := parsePaths("\ufeff/a\r\n\n /b \n"); strings.Join(got, "|") != "/a| /b " {
		t.Errorf("%q", got)
	}
}

func TestCommandRules(t *testing.T) {
	for line, want := range map[string]string{
		"::add-mask::x": "add-mask||x",
		"  ::Error file=a%2Cb,line=3::m%0Aore%25": "error|a,b|m\nore%",
		"::group::":                           "group||",
		"::x":                                 "",
		"text ::error::":                      "",
		"::::":                                "",
		"::set-output name=a::b::c":           "set-output||b::c",
		"::warning file=a:b,=x, title = t ::": "warning|a:b|",
	} {
		c, ok := parseCommand(line)
		got := ""
		if ok {
			got = c.name + "|" + c.properties["file"] + "|" + c.value
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// FuzzCommandFile: no text makes the parser panic or return an empty name.
func FuzzCommandFile(f *testing.F) {
	f.Add("a=1\nb<<E\nx\nE\n")
	f.Add("\ufeff<<\r\n=")
	f.Fuzz(func(t *testing.T, text string) {
		pairs, _ := parsePairs(text)
		for _, p := range pairs {
			if p.name == "" || strings.ContainsAny(p.name, "\n") {
				t.Fatalf("name %q", p.name)
			}
		}
		parsePaths(text)
	})
}

// FuzzOutput: whatever a step prints, in whatever pieces, is in the log byte for byte
// as long as nothing is masked.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("::group::x\nplain\n  ::add"), uint8(3))
	f.Add([]byte("\n\n:\n::\n ::stop-commands::t\n::t::\n"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		if strings.Contains(strings.ToLower(string(text)), "add-mask") {
			return
		}
		sink := &memory{}
		l := newLog(sink, "a", 1, 1<<20, 1<<20, func() time.Time { return time.Unix(0, 0).UTC() })
		o := newOutput(l, 0, func(workflowCommand) error { return nil })
		for rest := text; len(rest) > 0; {
			n := min(int(size)%9+1, len(rest))
			_, _ = o.Write(rest[:n])
			rest = rest[n:]
		}
		o.settle()
		l.end()
		if got := sink.raw(streamStep); got != string(text) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func BenchmarkOutput(b *testing.B) {
	line := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog ", 2) + "\n")
	block := []byte(strings.Repeat(string(line), 1024))
	l := newLog(discard{}, "a", 1, 1<<60, 1<<60, time.Now)
	o := newOutput(l, 0, nil)
	b.SetBytes(int64(len(block)))
	for b.Loop() {
		_, _ = o.Write(block)
	}
}

type discard struct{}

func (discard) Chunk(*runnerv1.Chunk) error       { return nil }
func (discard) Progress(*runnerv1.Progress) error { return nil }

// FuzzGlob holds that the search for files is told to go wherever a file may be chosen: it
// begins above the file, and every folder on the way leads on.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"**/a", "x/a"}, {"a/**/b", "a/b"}, {"a\n!a/b\n**", "a/b/c"}, {"[!a]*/?", "b/c"},
		{"./a/", "a/b"}, {`\*`, "*"}, {"[", "["},
		{"a/**", "a"}, {"!!a", "a"}, {"**", ".x/y"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, patterns, file string) {
		list, err := readGlobs([]string{patterns}, "/inside")
		if err != nil || !fs.ValidPath(file) || !list.chosen(file) {
			return
		}
		began := slices.ContainsFunc(list.starts(), func(start string) bool {
			return start == "." || start == file || strings.HasPrefix(file, start+"/")
		})
		if !began {
			t.Fatalf("%q chooses %q, and the search begins at %q", patterns, file, list.starts())
		}
		for at := path.Dir(file); at != "."; at = path.Dir(at) {
			if !list.leads(at) {
				t.Fatalf("%q chooses %q, and %q is not entered", patterns, file, at)
			}
		}
	})
}
