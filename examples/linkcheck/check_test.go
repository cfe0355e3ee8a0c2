package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestSlug(t *testing.T) {
	for heading, want := range map[string]string{
		"Install":            "install",
		"Why not X?":         "why-not-x",
		"Über `code` & more": "über-code--more",
		"snake_case-name":    "snake_case-name",
	} {
		if got := Slug(heading); got != want {
			t.Errorf("Slug(%q) = %q, want %q", heading, got, want)
		}
	}
}

func TestParseLeavesCodeAlone(t *testing.T) {
	p := Parse("# One\n\n```sh\n# not a heading\n[no](link.md)\n```\n`[no](either.md)` [yes](a.md \"title\")\n# One\n")
	if len(p.Links) != 1 || p.Links[0] != (Link{Line: 7, Target: "a.md"}) {
		t.Errorf("links: %v", p.Links)
	}
	if len(p.Anchors) != 2 || !p.Anchors["one"] || !p.Anchors["one-1"] {
		t.Errorf("anchors: %v", p.Anchors)
	}
}

func TestCheck(t *testing.T) {
	page := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	tree := fstest.MapFS{
		"README.md":     page("# Top\n[in](#top) [dir](guide) [out](https://example.com/x)\n[gone](gone.md)\n"),
		"guide/a.md":    page("# Ä b\n[up](../README.md#top) [anchor](/README.md#nope)\n[self](#ä-b) [far](../../x.md)\n"),
		"guide/b.txt":   page("[not](markdown.md)"),
		".git/notes.md": page("[hidden](nowhere.md)"),
	}
	report, err := Check(tree)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range report.Findings {
		got = append(got, f.String())
	}
	want := []string{
		"README.md:3: gone.md: no such file",
		"guide/a.md:2: /README.md#nope: no such heading in README.md",
		"guide/a.md:3: ../../x.md: leaves the folder",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if report.Pages != 2 || report.Links != 8 {
		t.Errorf("%d pages, %d links", report.Pages, report.Links)
	}
}

func TestRun(t *testing.T) {
	for _, test := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"testdata/good"}, 0, "2 pages, 4 links, 0 dead\n", ""},
		{[]string{"-quiet", "testdata/good"}, 0, "", ""},
		{[]string{"-quiet", "testdata/bad"}, 1, "index.md:3: missing.md: no such file\n", ""},
		{[]string{"testdata/none"}, 2, "", "linkcheck:"},
		{[]string{"one", "two"}, 2, "", "usage:"},
		{[]string{"-what"}, 2, "", "flag provided but not defined"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(test.args, &stdout, &stderr); code != test.code {
			t.Errorf("%v: exit %d, want %d", test.args, code, test.code)
		}
		if stdout.String() != test.stdout || !strings.HasPrefix(stderr.String(), test.stderr) {
			t.Errorf("%v: printed %q and %q", test.args, stdout.String(), stderr.String())
		}
	}
}

func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("testdata/good/index.md")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("```\n[a](b)")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		for _, l := range Parse(text).Links {
			if l.Line < 1 || l.Line > lines || l.Target == "" {
				t.Errorf("a link at line %d of %d to %q", l.Line, lines, l.Target)
			}
		}
	})
}
