package syntax_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ask puts all files to one process.
func ask(t *testing.T, files []string) [][]string {
	t.Helper()
	// The script prints where the packages are; it fetches them only where they are not there.
	folder, err := exec.Command("sh", filepath.Join(root, "scripts/oracle.sh")).Output()
	if err != nil {
		t.Fatalf("GitHub's packages are not installed: run scripts/oracle.sh: %v", err)
	}
	var in, out bytes.Buffer
	lines := json.NewEncoder(&in)
	for i, text := range files {
		if err := lines.Encode(map[string]any{"id": i, "text": text}); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("node", filepath.Join(root, "test/oracle/workflow.mjs"),
		filepath.Join(strings.TrimSpace(string(folder)), "node_modules"))
	command.Stdin, command.Stdout, command.Stderr = &in, &out, os.Stderr
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	said := make([][]string, 0, len(files))
	for dec := json.NewDecoder(&out); dec.More(); {
		var row struct {
			ID     int
			Errors []string
		}
		if err := dec.Decode(&row); err != nil || row.ID != len(said) {
			t.Fatalf("answer %d: %+v, %v", len(said), row, err)
		}
		said = append(said, row.Errors)
	}
	if len(said) != len(files) {
		t.Fatalf("%d answers for %d files", len(said), len(files))
	}
	return said
}
