package workflow

import (
	"bytes"
	"encoding/json"
	"testing"
)

func indent(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	return append(bytes.TrimRight(out.Bytes(), "\n"), '\n')
}
