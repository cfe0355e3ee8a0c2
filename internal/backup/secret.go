package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// secretFolders are what is secret in a data folder.
var secretFolders = []string{"keys", "credentials"}

// runnerSecret is the identity of the runner that "up" has in its own process: without it
// the restored server would take it for a stranger of the same name.
const runnerSecret = "runner/runner.json"

// secretBytesMax bounds a secret; none comes near it.
const secretBytesMax = 4 << 20

// secrets copies keys and credentials, if they were asked for. They lie in a folder of
// their own, so that who wants to keep a backup without them knows what to delete.
func (m *making) secrets(ctx context.Context) error {
	if !m.WithSecrets || m.Secrets == "" {
		return nil
	}
	for _, name := range secretFolders {
		found, err := os.ReadDir(filepath.Join(m.Secrets, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, f := range found {
			if !f.Type().IsRegular() || strings.HasPrefix(f.Name(), ".") {
				continue // half-written ones
			}
			if err := m.secret(ctx, name+"/"+f.Name()); err != nil {
				return fmt.Errorf("copy %s/%s: %w", name, f.Name(), err)
			}
		}
	}
	if err := m.secret(ctx, runnerSecret); err != nil {
		return fmt.Errorf("copy %s: %w", runnerSecret, err)
	}
	return nil
}

func (m *making) secret(ctx context.Context, name string) error {
	text, err := os.ReadFile(filepath.Join(m.Secrets, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // rotated away meanwhile
	}
	if err != nil {
		return err
	}
	if len(text) > secretBytesMax {
		return fmt.Errorf("%d bytes, limit %d", len(text), secretBytesMax)
	}
	target := filepath.Join(m.Folder, secretFolder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(target, text, 0o600); err != nil {
		return err
	}
	m.manifest.Counts.Secrets++
	e := entry{Kind: kindSecret, Name: name, Bytes: int64(len(text)), Digest: domain.DigestOf(text)}
	return errors.Join(m.list.add(e), ctx.Err())
}

// restoreSecret puts one back, readable by its owner only.
func restoreSecret(folder string, e *entry, text *bytes.Buffer) error {
	path, err := localName(e.Name)
	if err != nil {
		return err
	}
	target := filepath.Join(folder, path)
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	return writeDurably(target, text.Bytes())
}

// localName is a name of the list as a path below a folder.
//
// Trust: a backup may come from anybody's disk; a name must not lead out.
func localName(name string) (string, error) {
	path := filepath.FromSlash(name)
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("the name %.100q leads out of its folder: %w", name, ErrDamaged)
	}
	return path, nil
}
