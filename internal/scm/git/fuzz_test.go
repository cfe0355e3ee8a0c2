package git

import (
	"bufio"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
)

// FuzzPath: whatever path comes in, a parsed one leads to a folder exactly two levels
// below the root and is written the same way again.
func FuzzPath(f *testing.F) {
	id := domain.EncodeID(domain.PrefixRepository, [16]byte{1})
	for _, seed := range []string{"/git/tnt_a/" + id + ".git/info/refs", "/git/tnt_a/../" + id + ".git/info/refs",
		"/git/tnt_a/" + id + ".git/git-upload-pack", "/git//x.git/HEAD", "/git/tnt_%2e/" + id + ".git/info/refs",
		"/git/tnt_a/" + id + ".git/git-upload-pack\n", "/git/tnt_a/rep_zzzzzzzzzzzzzzzzzzzzzzzzzz.git/info/refs"} {
		f.Add(seed)
	}
	m := &Mirrors{root: "/data/git"}
	f.Fuzz(func(t *testing.T, path string) {
		repo, action, ok := parsePath(path)
		if !ok {
			return
		}
		if Path(repo)+"/"+action != path {
			t.Errorf("%q is not its own form", path)
		}
		dir, err := m.Dir(repo)
		if err != nil || filepath.Dir(filepath.Dir(dir)) != m.root || strings.Contains(dir, "..") {
			t.Errorf("%q leads to %q, %v", path, dir, err)
		}
	})
}

// FuzzPush: whatever a client sends, what the server passes on sets only refs that are
// named after the commit they lead to.
func FuzzPush(f *testing.F) {
	id := strings.Repeat("ab", 20)
	zero := strings.Repeat("0", 40)
	for _, line := range []string{
		zero + " " + id + " " + CapturePrefix + id + "\x00 report-status side-band-64k",
		zero + " " + id + " refs/heads/main\x00report-status",
		id + " " + zero + " " + CapturePrefix + id + "\x00delete-refs",
		"shallow " + id, "push-cert\x00x",
	} {
		f.Add([]byte(packet(line) + "0000PACK"))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		lines, raw, err := section(bufio.NewReader(strings.NewReader(string(body))), commandBytesMax)
		if err != nil {
			return
		}
		if !strings.HasPrefix(string(body), string(raw)) {
			t.Fatal("the section is not the beginning of the body")
		}
		p, err := parsePush(lines)
		if err != nil {
			return
		}
		if text, ok := p.report(); ok && p.refusal != "" && !strings.Contains(text, "unpack refused") {
			t.Error("a refusal without a report")
		}
		if p.refusal != "" || len(p.commands) == 0 {
			return
		}
		again, _, err := section(bufio.NewReader(strings.NewReader(p.encode(nil))), 2*commandBytesMax)
		if err != nil {
			t.Fatalf("what is passed on does not parse: %v", err)
		}
		for _, line := range again {
			line, _, _ = strings.Cut(line, "\x00")
			field := strings.Split(line, " ")
			if len(field) != 3 || field[2] != CapturePrefix+field[1] || scm.ZeroCommit(field[1]) {
				t.Errorf("passed on: %q", line)
			}
		}
	})
}

// FuzzObjects: commits and folders are written by anybody, and reading them never panics.
func FuzzObjects(f *testing.F) {
	id := strings.Repeat("ab", 20)
	f.Add([]byte("tree " + id + "\nparent " + id + "\nauthor A <a@b> 1 +0000\ngpgsig x\n y\n\nTitle\n"))
	f.Add([]byte("100644 a\x0001234567890123456789120000 l\x0001234567890123456789"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if c, err := parseCommit(id, raw); err == nil && !scm.ValidCommit(c.Tree) {
			t.Error("a commit without a tree")
		}
		entries, err := parseTree(raw, 20)
		for _, entry := range entries {
			if err == nil && len(entry.id) != 40 {
				t.Errorf("entry %+v", entry)
			}
		}
	})
}
