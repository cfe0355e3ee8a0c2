package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Link is one link of a page.
type Link struct {
	Line   int
	Target string // as written, without a title
}

// Page is what a Markdown file offers and refers to.
type Page struct {
	Anchors map[string]bool
	Links   []Link
}

var (
	linkPattern    = regexp.MustCompile(`\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	headingPattern = regexp.MustCompile(`^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$`)
	fencePattern   = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	codePattern    = regexp.MustCompile("`[^`]*`")
)

// Parse reads a page. Links and headings inside code are text, not links and headings.
func Parse(text string) Page {
	p := Page{Anchors: map[string]bool{}}
	seen := map[string]int{}
	fence := ""
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if m := fencePattern.FindStringSubmatch(line); m != nil {
			switch {
			case fence == "":
				fence = m[1]
			case strings.HasPrefix(m[1], fence):
				fence = ""
			}
			continue
		}
		if fence != "" {
			continue
		}
		if m := headingPattern.FindStringSubmatch(line); m != nil {
			slug := Slug(m[1])
			if n := seen[slug]; n > 0 {
				p.Anchors[fmt.Sprintf("%s-%d", slug, n)] = true
			} else {
				p.Anchors[slug] = true
			}
			seen[slug]++
		}
		for _, m := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(line, ""), -1) {
			p.Links = append(p.Links, Link{Line: i + 1, Target: m[1]})
		}
	}
	return p
}

// Slug is the anchor of a heading: lower case, spaces as hyphens, punctuation left out.
func Slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}
