package syntax

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzRead holds that no text makes the reader panic, that what is estimated before parsing
// refuses no file that the parser finds small, and that every place is inside the file.
func FuzzRead(f *testing.F) {
	for _, pattern := range []string{"../testdata/*/*.yml", "../../../docs/reference/diagnostics/*.md"} {
		list, err := filepath.Glob(pattern)
		if err != nil || len(list) == 0 {
			f.Fatalf("list %s: %d files, %v", pattern, len(list), err)
		}
		for _, path := range list {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	for seed := range uint64(50) {
		f.Add([]byte(Generate(seed)))
	}
	f.Add([]byte("a\r---"))
	f.Add([]byte("a: &a [*a]\nb: |\n  [,,,,\n- {a: b, c}\n? x\n: y\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		bounds := Bounds{SourceBytes: 1 << 20, Nodes: 50_000, Depth: 50, ScalarBytes: 10 << 20}
		reports := NewReports("w.yml")
		root := Load(text, bounds, reports)
		lines := len(Lines(text))
		if root != nil {
			Read(root, reports)
			if few := estimate(root.src); few > 2*lines+4*root.nodes+2 {
				t.Errorf("%d nodes are estimated, %d are there in %d lines", few, root.nodes, lines)
			}
		}
		for _, d := range reports.Sorted() {
			outside := d.Pos.Line > lines || d.End.Line > lines || d.Pos.Line < 0
			if d.Message == "" || outside || d.End.Before(d.Pos) && d.End != (Pos{}) {
				t.Errorf("diagnostic %+v of a file with %d lines", d, lines)
			}
		}
	})
}
