package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Reading is a folder of objects beside the server that uses it: what the server has
// half-written stays alone, and nothing is changed.
type Reading struct{ *Store }

var errReading = errors.New("the folder is open for reading only")

// OpenToRead opens a folder that is there, without touching it.
func OpenToRead(folder string) (*Reading, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open object folder: %w", err)
	}
	return &Reading{&Store{root: root, folders: map[string]bool{}, dirs: map[string]*dir{}, most: dirsMax}}, nil
}

// Put implements blob.Store; it refuses.
func (*Reading) Put(_ context.Context, key string, _ io.Reader, _ int64) error {
	return fmt.Errorf("put object %s: %w", key, errReading)
}

// Delete implements blob.Store; it refuses.
func (*Reading) Delete(_ context.Context, key string) error {
	return fmt.Errorf("delete object %s: %w", key, errReading)
}
