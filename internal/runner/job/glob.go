package job

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// globs is a list of patterns of files, read from the first to the last: a file is chosen
// when the last pattern that matches it does not start with "!".
type globs []glob

// glob is one pattern, as segments from the workspace. "**" is any number of segments. What
// it names is chosen with everything below it.
type glob struct {
	not      bool
	segments []string
	onlyDir  bool // it ended with a slash, so it names no file itself
}

// readGlobs reads patterns, one a line. Blank lines and those that start with "#" say
// nothing. inside is the workspace as steps see it; a pattern may start with it. Absolute
// ones that lead elsewhere match nothing.
func readGlobs(patterns []string, inside string) (globs, error) {
	var out globs
	for _, line := range strings.Split(strings.Join(patterns, "\n"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		g, ok, err := readGlob(line, inside)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, g)
		}
	}
	return out, nil
}

func readGlob(line, inside string) (g glob, ok bool, err error) {
	text := strings.TrimLeft(line, "!")
	g.not = (len(line)-len(text))%2 == 1
	if strings.HasPrefix(text, "--") {
		return g, false, fmt.Errorf("%q is no pattern, and there are no options: links are never followed out "+
			"of the workspace", line)
	}
	if strings.HasPrefix(text, "/") || strings.HasPrefix(text, "~") {
		rest, below := strings.CutPrefix(text, strings.TrimSuffix(inside, "/")+"/")
		if text == inside {
			rest, below = "", true
		}
		if !below {
			return g, false, nil
		}
		text = rest
	}
	g.onlyDir = strings.HasSuffix(text, "/")
	for i, segment := range strings.Split(strings.Trim(text, "/"), "/") {
		switch {
		case segment == "" || segment == "." && i == 0:
			continue
		case segment == "." || segment == "..":
			return g, false, fmt.Errorf("the pattern %q has %q in it; write the path from the workspace", line, segment)
		case segment == "**" && len(g.segments) > 0 && g.segments[len(g.segments)-1] == "**":
			continue // two of them are one
		}
		g.segments = append(g.segments, translate(segment))
	}
	return g, true, nil
}

// translate writes a segment as path.Match reads it; what that can't read is plain text.
func translate(segment string) string {
	if segment == "**" {
		return segment
	}
	segment = strings.ReplaceAll(segment, "[!", "[^")
	if _, err := path.Match(segment, ""); err == nil {
		return segment
	}
	var out strings.Builder
	for _, r := range segment {
		if strings.ContainsRune(`*?[]\`, r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}

// chosen reports whether the file at a path is chosen.
func (list globs) chosen(file string) bool {
	segments := strings.Split(file, "/")
	yes := false
	for _, g := range list {
		if g.not == yes && g.matches(segments) {
			yes = !g.not
		}
	}
	return yes
}

// matches reports whether the pattern names the file or a folder that it is in.
func (g glob) matches(segments []string) bool {
	least := 0 // how long the named path is at least
	if len(g.segments) > 0 {
		least = 1
	}
	for length := least; length <= len(segments); length++ {
		if g.onlyDir && length == len(segments) {
			continue
		}
		if match(g.segments, segments[:length]) {
			return true
		}
	}
	return false
}

// match walks over pattern and path at once. Where several segments could be meant by "**",
// the latest choice is taken back first, so the time is bounded by the product of lengths.
func match(pattern, segments []string) bool {
	p, s, star, from := 0, 0, -1, 0
	for s < len(segments) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, from, p = p, s, p+1
		case p < len(pattern) && same(pattern[p], segments[s]):
			p, s = p+1, s+1
		case star >= 0:
			from++
			p, s = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

func same(pattern, segment string) bool {
	ok, err := path.Match(pattern, segment)
	return err == nil && ok
}

// leads reports whether something below a folder may be chosen, so that what can't be is
// not looked at.
func (list globs) leads(folder string) bool {
	var segments []string
	if folder != "." {
		segments = strings.Split(folder, "/")
	}
	return slices.ContainsFunc(list, func(g glob) bool {
		if g.not {
			return false
		}
		for i, segment := range segments {
			if i == len(g.segments) || g.segments[i] == "**" {
				return true
			}
			if !same(g.segments[i], segment) {
				return false
			}
		}
		return true
	})
}

// starts lists the folders and files at which the search begins, in the order of the
// patterns: what each pattern names without a wildcard. What is below another is left out.
func (list globs) starts() []string {
	var all []string
	for _, g := range list {
		if g.not {
			continue
		}
		fixed := 0
		for fixed < len(g.segments) && !strings.ContainsAny(g.segments[fixed], `*?[`) {
			fixed++
		}
		at := make([]string, fixed)
		for i := range at {
			at[i] = strings.ReplaceAll(g.segments[i], `\`, "")
		}
		all = append(all, path.Join(append([]string{"."}, at...)...))
	}
	var out []string
	for i, start := range all {
		covered := slices.Contains(all[:i], start) || slices.ContainsFunc(all, func(other string) bool {
			return other != start && (other == "." || strings.HasPrefix(start, other+"/"))
		})
		if !covered {
			out = append(out, start)
		}
	}
	return out
}
