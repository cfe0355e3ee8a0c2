package frozen

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "add files to frozen.sha256 that are not in it yet")

// where frozen files are, from the root of the repository; ** is any folder below.
var where = []string{
	"internal/core/*/testdata/event/**",
	"internal/core/*/testdata/state/**",
	"internal/core/*/testdata/command/**",
	"internal/core/*/testdata/reply/**",
	"internal/store/*/migrations/**",
	"internal/**/testdata/frozen/**",
	"api/frozen/*/**",
}

// Migrations, golden files and the frozen contract are there and are what they were: each line of
// the list is for ever. A new file is added by -rewrite, a changed or removed one is not accepted.
// Promises: [FORMAT-13].
func TestFrozenFilesStay(t *testing.T) {
	root := "../../.."
	now := digests(t, root)
	text, err := os.ReadFile("frozen.sha256")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			t.Fatalf("malformed line %q", line)
		}
		listed[name] = sum
	}
	for _, problem := range compare(listed, now) {
		t.Error(problem)
	}
	var fresh []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if listed[name] == "" {
			fresh = append(fresh, name)
			listed[name] = now[name]
		}
	}
	if len(fresh) == 0 || t.Failed() {
		return
	}
	if !*rewrite {
		t.Fatalf("not frozen yet; go test ./internal/testkit/frozen -rewrite adds them: %v", fresh)
	}
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		fmt.Fprintf(&all, "%s  %s\n", listed[name], name)
	}
	if err := os.WriteFile("frozen.sha256", []byte(all.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// compare tells which of the listed files are gone or others.
func compare(listed, now map[string]string) (problems []string) {
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		switch now[name] {
		case listed[name]:
		case "":
			problems = append(problems, fmt.Sprintf("%s is frozen, and gone", name))
		default:
			problems = append(problems, fmt.Sprintf("%s is frozen, and was changed: put it back, and write a new one", name))
		}
	}
	return problems
}

// Promises: [FORMAT-13].
func TestAChangedFileIsTold(t *testing.T) {
	listed := map[string]string{"a": "1", "b": "2", "c": "3"}
	got := compare(listed, map[string]string{"a": "1", "b": "9", "d": "4"})
	if len(got) != 2 || !strings.HasPrefix(got[0], "b is frozen, and was changed") || got[1] != "c is frozen, and gone" {
		t.Errorf("told: %q", got)
	}
}

// digests are those of all files that are to be frozen.
func digests(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if strings.HasPrefix(name, ".") && name != "." || name != "." && !strings.Contains(name, "/") && !top(name) {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.ContainsFunc(where, func(pattern string) bool { return match(pattern, name) }) {
			return nil
		}
		text, err := os.ReadFile(file)
		out[name] = fmt.Sprintf("%x", sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// top says whether frozen files may be in a folder of the root.
func top(name string) bool {
	return slices.ContainsFunc(where, func(pattern string) bool { return strings.HasPrefix(pattern, name+"/") })
}

func match(pattern, name string) bool {
	return matchParts(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

func matchParts(pattern, name []string) bool {
	if len(pattern) == 0 || len(name) == 0 {
		return len(pattern) == len(name)
	}
	if pattern[0] == "**" {
		return len(pattern) == 1 || matchParts(pattern[1:], name) || matchParts(pattern, name[1:])
	}
	ok, err := path.Match(pattern[0], name[0])
	return err == nil && ok && matchParts(pattern[1:], name[1:])
}

func TestPatterns(t *testing.T) {
	for name, want := range map[string]bool{
		"internal/a/testdata/frozen/x": true, "internal/a/b/testdata/frozen/c/x": true, "internal/testdata/x": false,
		"internal/store/sqlite/migrations/1.sql": true, "internal/store/migrations/1.sql": false,
		"api/frozen/1/b":                         true,
		"internal/core/run/testdata/event/x.hex": true, "internal/core/run/testdata/x.txt": false,
		"api/frozen/README.md": false,
	} {
		if got := slices.ContainsFunc(where, func(p string) bool { return match(p, name) }); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

type inner struct{ Value int }

type sample struct {
	Name string
	In   []inner
	At   *inner
}

// A field that is not set is named, wherever it is.
func TestFullFindsWhatIsNotSet(t *testing.T) {
	for want, v := range map[string]sample{
		"":         {"a", []inner{{}, {1}}, &inner{2}},
		"Name":     {"", []inner{{1}}, &inner{2}},
		"In.Value": {"a", []inner{{}, {}}, &inner{2}},
		"At.Value": {"a", []inner{{1}}, &inner{}},
	} {
		missing := map[string]bool{}
		if unset(reflect.ValueOf(v), "", missing); want == "" && len(missing) > 0 || want != "" && !missing[want] {
			t.Errorf("%+v lacks %v", v, missing)
		}
	}
}
