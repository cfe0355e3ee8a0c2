package credential

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// keyFile is one secret key on disk: DATA/keys/<use>-<id>.key. Files are shared by copying
// them to every replica; From says when each of them starts to use a key.
type keyFile struct {
	ID     string    `json:"id"`
	Use    string    `json:"use"` // "manifest", "attempt" or "acknowledgement"
	From   time.Time `json:"from"`
	Secret []byte    `json:"secret"`
}

func keyPath(dataFolder, use, id string) string {
	return filepath.Join(dataFolder, folderKeys, use+"-"+id+".key")
}

// loadKeys reads every key of that use, oldest first.
func loadKeys(dataFolder, use string, size int) ([]keyFile, error) {
	// Only names are matched, never whole paths: an operator's folder may have any name.
	folder := filepath.Join(dataFolder, folderKeys)
	entries, err := os.ReadDir(folder)
	if err != nil && !absent(err) {
		return nil, fmt.Errorf("list keys %s: %w", use, err)
	}
	var keys []keyFile
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), use+"-") || !strings.HasSuffix(entry.Name(), ".key") {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		content, err := readSecret(path)
		if err != nil {
			return nil, err
		}
		var key keyFile
		if err := json.Unmarshal(content, &key); err != nil {
			return nil, fmt.Errorf("read key %s: %w", path, err)
		}
		if key.Use != use || len(key.Secret) != size || keyPath(dataFolder, use, key.ID) != path {
			return nil, fmt.Errorf("read key %s: it is no %s key of that name", path, use)
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b keyFile) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.ID, b.ID))
	})
	return keys, nil
}

// reread is loadKeys for who holds keys already: another server of the fleet may have made
// the next one. What can't be read now leaves the keys that are held.
func reread(dataFolder, use string, size int, held []keyFile) []keyFile {
	keys, err := loadKeys(dataFolder, use, size)
	if err != nil || len(keys) == 0 {
		return held
	}
	return keys
}

// makeKey makes a key and writes it before anybody can use it.
func makeKey(dataFolder, use string, size int, from time.Time) (keyFile, error) {
	var id [8]byte
	_, _ = rand.Read(id[:])
	key := keyFile{ID: hex.EncodeToString(id[:]), Use: use, From: from.UTC(), Secret: make([]byte, size)}
	_, _ = rand.Read(key.Secret)
	content, err := json.Marshal(key)
	if err != nil {
		return keyFile{}, fmt.Errorf("encode key %s: %w", use, err)
	}
	return key, writeSecret(keyPath(dataFolder, use, key.ID), content)
}

// removeKey forgets a key that nothing can be verified with any more.
func removeKey(dataFolder string, key keyFile) error {
	path := keyPath(dataFolder, key.Use, key.ID)
	if err := os.Remove(path); err != nil && !absent(err) {
		return fmt.Errorf("remove key %s: %w", path, err)
	}
	return syncFolder(filepath.Dir(path))
}

// When keys change.
const (
	// KeyUse is how long a key signs before the next one takes over.
	KeyUse = 90 * 24 * time.Hour
	// KeyLead is how long the next key is published before it signs.
	KeyLead = 24 * time.Hour
	// KeyKeep is how long a key verifies after it stopped signing; longer than anything
	// signed with it is valid.
	KeyKeep = 30 * 24 * time.Hour
)

// active is the index of the key that signs at now: the latest that has begun.
func active(keys []keyFile, now time.Time) int {
	at := 0
	for i, key := range keys {
		if !key.From.After(now) {
			at = i
		}
	}
	return at
}

// putBack reports whether somebody put the file of a key of proofs into the folder long after
// the key was in use, and not longer ago than KeyKeep: what it proves is looked for again.
func putBack(dataFolder string, key keyFile, now time.Time) bool {
	if key.Use != useToken {
		return false
	}
	file, err := os.Stat(keyPath(dataFolder, key.Use, key.ID))
	if err != nil {
		return false
	}
	put := file.ModTime()
	return put.Sub(key.From) > KeyUse && now.Sub(put) <= KeyKeep
}

// tend makes the next key when the active one gets old, and drops keys past their use.
func tend(dataFolder, use string, size int, keys []keyFile, now time.Time) ([]keyFile, error) {
	if len(keys) == 0 {
		first, err := makeKey(dataFolder, use, size, now)
		if err != nil {
			return nil, err
		}
		return []keyFile{first}, nil
	}
	last := keys[len(keys)-1]
	if now.Sub(last.From) >= KeyUse-KeyLead {
		next, err := makeKey(dataFolder, use, size, now.Add(KeyLead))
		if err != nil {
			return keys, err
		}
		keys = append(slices.Clone(keys), next)
	}
	var problem error
	kept := make([]keyFile, 0, len(keys))
	for i, key := range keys {
		if i+1 < len(keys) && now.Sub(keys[i+1].From) > KeyKeep && !putBack(dataFolder, key, now) {
			if err := removeKey(dataFolder, key); err != nil {
				problem = errors.Join(problem, err)
			}
			continue
		}
		kept = append(kept, key)
	}
	return kept, problem
}
