package file

import (
	"bytes"
	"fmt"
	"testing"
)

// A small object in a folder three levels down, as sealed logs of small jobs are.
func BenchmarkPut(b *testing.B) {
	s, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	content := make([]byte, 400)
	for i := range b.N {
		key := fmt.Sprintf("tnt_a/logs/%02x/%d", i%16, i)
		if err := s.Put(b.Context(), key, bytes.NewReader(content), -1); err != nil {
			b.Fatal(err)
		}
	}
}
