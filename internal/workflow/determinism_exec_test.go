package workflow

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// digestsOf is the variable that makes this program print what it compiles, and stop. Its value
// says in which order.
const digestsOf = "FAIRLEAD_TEST_DIGESTS"

func TestMain(m *testing.M) {
	if order := os.Getenv(digestsOf); order != "" {
		if err := printDigests(os.Stdout, order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// printDigests compiles every file of the test data, and of a folder of public files where there is
// one, in that order; and prints what came of each, sorted by name.
func printDigests(out io.Writer, order string) error {
	texts, err := workflowFiles()
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(texts))
	if order == "backward" {
		slices.Reverse(names)
	}
	var lines []string
	for _, name := range names {
		src := Source{Path: ".github/workflows/" + filepath.Base(name), Text: texts[name]}
		for _, event := range []string{"", EventPush, EventDispatch} {
			p, list := Compile(src, Inputs{Event: event, Ref: "refs/heads/main", SHA: "c7", Repository: "a/b"}, Limits{})
			digest := "none"
			if p != nil {
				digest = string(p.Digest())
			}
			lines = append(lines, fmt.Sprintf("%s %q plan %s said %x", name, event, digest,
				sha256.Sum256([]byte(Render(list, src.Text)))))
		}
	}
	slices.Sort(lines)
	_, err = fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// workflowFiles are all files that end in .yml or .yaml, by path.
func workflowFiles() (map[string][]byte, error) {
	texts := map[string][]byte{}
	folders := []string{"testdata"}
	if corpora := os.Getenv("FAIRLEAD_CORPORA"); corpora != "" {
		folders = append(folders, filepath.Join(corpora, "realworld"))
	}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err != nil || d.IsDir() || (ext != ".yml" && ext != ".yaml") {
				return err
			}
			text, err := os.ReadFile(path)
			texts[path] = text
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// The same files give the same plans and the same diagnostics in every process, whatever was
// compiled before, in every time zone and language, and on any number of processors.
func TestTheSameFilesGiveTheSamePlansEverywhere(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first string
	for _, world := range [][]string{
		{digestsOf + "=forward", "TZ=UTC", "LANG=C", "GOMAXPROCS=1"},
		{digestsOf + "=backward", "TZ=Pacific/Auckland", "LANG=de_DE.UTF-8", "GOMAXPROCS=4"},
		{digestsOf + "=forward", "TZ=America/St_Johns", "LANG=tr_TR.UTF-8", "GOMAXPROCS=2", "GOGC=5"},
	} {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env, cmd.Stderr = append(os.Environ(), world...), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(out)
		}
		if diff := cmp.Diff(first, string(out)); diff != "" {
			t.Errorf("with %v: %s", world, diff)
		}
	}
	if n := strings.Count(first, " plan sha256:"); n < 30 {
		t.Errorf("only %d plans were compared:\n%s", n, first)
	}
}
