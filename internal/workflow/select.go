package workflow

import (
	"cmp"
	"slices"
	"strings"
)

// Folders that workflows live in. Of two files with the same name the one in the
// earlier folder counts.
const (
	FolderFairlead = ".fairlead/workflows"
	FolderGitHub   = ".github/workflows"
)

// Select chooses the workflow files among the paths of a repository: files that end in
// .yml or .yaml directly in one of the two folders. shadowed are those that are not
// read because FolderFairlead has a file of the same name. Both lists are sorted.
func Select(paths []string) (chosen, shadowed []string) {
	own := make(map[string]bool)
	for _, p := range paths {
		if folder(p) == FolderFairlead {
			own[base(p)] = true
		}
	}
	for _, p := range paths {
		if !strings.HasSuffix(p, ".yml") && !strings.HasSuffix(p, ".yaml") {
			continue
		}
		switch folder(p) {
		case FolderFairlead:
			chosen = append(chosen, p)
		case FolderGitHub:
			if own[base(p)] {
				shadowed = append(shadowed, p)
				continue
			}
			chosen = append(chosen, p)
		}
	}
	byName := func(a, b string) int { return cmp.Or(cmp.Compare(base(a), base(b)), cmp.Compare(a, b)) }
	slices.SortFunc(chosen, byName)
	slices.SortFunc(shadowed, byName)
	return slices.Compact(chosen), slices.Compact(shadowed)
}

func folder(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
