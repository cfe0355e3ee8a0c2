package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"sort"
	"strings"
)

// Finding is one dead link.
type Finding struct {
	Page   string
	Line   int
	Target string
	Reason string
}

// String is the finding in the form of compilers.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.Page, f.Line, f.Target, f.Reason)
}

// Report is the outcome of a check.
type Report struct {
	Pages, Links int
	Findings     []Finding
}

// Check reads every Markdown file of a tree and follows its relative links.
func Check(tree fs.FS) (Report, error) {
	pages := map[string]Page{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return fmt.Errorf("read page %s: %w", name, err)
		}
		pages[name] = Parse(string(text))
		return nil
	})
	if err != nil {
		return Report{}, err
	}
	report := Report{Pages: len(pages)}
	for name, page := range pages {
		report.Links += len(page.Links)
		for _, link := range page.Links {
			reason, err := dead(tree, pages, name, link.Target)
			if err != nil {
				return Report{}, err
			}
			if reason != "" {
				report.Findings = append(report.Findings, Finding{name, link.Line, link.Target, reason})
			}
		}
	}
	sort.Slice(report.Findings, func(i, j int) bool {
		a, b := report.Findings[i], report.Findings[j]
		if a.Page != b.Page {
			return a.Page < b.Page
		}
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Target < b.Target
	})
	return report, nil
}

// dead says why a link leads nowhere; empty when it leads somewhere, or out of the tree.
func dead(tree fs.FS, pages map[string]Page, from, target string) (string, error) {
	u, err := url.Parse(target)
	if err != nil {
		return "not a link", nil
	}
	if u.Scheme != "" || u.Host != "" {
		return "", nil
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
		if strings.HasPrefix(u.Path, "/") {
			to = strings.TrimPrefix(path.Clean(u.Path), "/")
		}
		if to == ".." || strings.HasPrefix(to, "../") {
			return "leaves the folder", nil
		}
		if _, err := fs.Stat(tree, to); errors.Is(err, fs.ErrNotExist) {
			return "no such file", nil
		} else if err != nil {
			return "", fmt.Errorf("look for %s: %w", to, err)
		}
	}
	if page, ok := pages[to]; ok && u.Fragment != "" && !page.Anchors[u.Fragment] {
		return "no such heading in " + to, nil
	}
	return "", nil
}
