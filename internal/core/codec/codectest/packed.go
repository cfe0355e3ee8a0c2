package codectest

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Packed compares packed bytes with a golden file: a dump that people can read. With rewrite
// a file that is not there is written.
func Packed(t *testing.T, file string, got []byte, rewrite bool) {
	t.Helper()
	dump := hex.Dump(got)
	want, err := os.ReadFile(file)
	if os.IsNotExist(err) && rewrite {
		if err = os.MkdirAll(filepath.Dir(file), 0o755); err == nil {
			err = os.WriteFile(file, []byte(dump), 0o644)
		}
		want = []byte(dump)
	}
	if err != nil || string(want) != dump {
		t.Errorf("%s: what is stored is for ever; a changed form is a new format, and the old one is read too (%v)\n%s",
			file, err, dump)
	}
}

// ReadPacked gives the bytes of a golden file.
func ReadPacked(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(line, "|")
		if fields := strings.Fields(digits); len(fields) > 1 {
			row, err := hex.DecodeString(strings.Join(fields[1:], ""))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, row...)
		}
	}
	if !bytes.HasPrefix(all, []byte{1}) {
		t.Fatalf("%s holds nothing packed", file)
	}
	return all
}
