package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/verify"
)

// Format is the version of the form of backups that this program writes. It reads this
// one and all earlier ones.
const Format = 1

// Names in the folder of a backup.
const (
	ManifestFile   = "backup.json"
	recordsFile    = "store.jsonl.zst"
	listFile       = "files.jsonl.zst"
	incompleteFile = "INCOMPLETE"
	contentFolder  = "content"
	secretFolder   = "secrets"
)

// Faults, told apart with errors.Is.
var (
	// ErrIncomplete: the folder is no backup, or one that did not come to its end.
	ErrIncomplete = errors.New("not a complete backup")
	// ErrDamaged: the backup's bytes are not those that were written.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrNewer: a later version of the program wrote it.
	ErrNewer = errors.New("the backup is of a later version of fairlead")
	// ErrNotEmpty: there is something where a backup was to be restored, or made.
	ErrNotEmpty = errors.New("not empty")
)

// Partition is where the history of a partition ends in a backup.
type Partition struct {
	Partition domain.PartitionID `json:"partition"`
	Epoch     uint64             `json:"epoch"`
	Position  store.Position     `json:"position"`
	Digest    domain.Digest      `json:"digest"`
}

// Counts is how much a backup holds, and how much of it was taken from an earlier one.
type Counts struct {
	Rows        int64 `json:"rows"`
	Objects     int64 `json:"objects"`
	ObjectBytes int64 `json:"object_bytes"`
	Mirrors     int64 `json:"mirrors"`
	Secrets     int64 `json:"secrets"`
	Files       int64 `json:"files"`      // of distinct content
	FileBytes   int64 `json:"file_bytes"` // of all files
	NewFiles    int64 `json:"new_files"`  // that no earlier backup had
	NewBytes    int64 `json:"new_bytes"`
	// RemovedLogs are logs that history names and the server had removed, because they are not
	// kept so long.
	RemovedLogs int64 `json:"removed_logs,omitempty"`
}

// Manifest is the description of a backup: the content of its backup.json.
type Manifest struct {
	Format     int           `json:"format"`
	Digest     domain.Digest `json:"digest"` // of this document, with this field empty
	At         time.Time     `json:"at"`     // the moment of the history
	Ended      time.Time     `json:"ended"`
	Version    string        `json:"version"` // of the program
	Store      string        `json:"store"`   // the database that it is of
	Partitions []Partition   `json:"partitions"`
	Records    Described     `json:"records"` // store.jsonl.zst
	List       Described     `json:"list"`    // files.jsonl.zst
	Counts     Counts        `json:"counts"`
	// Secrets: the keys and credentials are in it.
	Secrets bool `json:"secrets"`
	// Base is the digest of the backup that it shares files with.
	Base domain.Digest `json:"base,omitempty"`
	// Damage was there when the backup was made: it holds everything else.
	Damage []verify.Finding `json:"damage,omitempty"`
}

// Described is a file of a backup by size and digest.
type Described struct {
	Bytes  int64         `json:"bytes"`
	Digest domain.Digest `json:"digest"`
}

// seal computes the digest and gives the document.
func (m *Manifest) seal() ([]byte, error) {
	digest, err := m.digest()
	if err != nil {
		return nil, err
	}
	m.Digest = digest
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ManifestFile, err)
	}
	return append(text, '\n'), nil
}

func (m *Manifest) digest() (domain.Digest, error) {
	plain := *m
	plain.Digest = ""
	text, err := json.Marshal(&plain)
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", ManifestFile, err)
	}
	return domain.DigestOf(text), nil
}

// ReadManifest reads what a folder says it holds. It examines backup.json and nothing else.
func ReadManifest(folder string) (*Manifest, error) {
	text, err := os.ReadFile(filepath.Join(folder, ManifestFile))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(folder, incompleteFile)); err == nil {
			return nil, fmt.Errorf("read backup %s: it did not come to its end: %w", folder, ErrIncomplete)
		}
		return nil, fmt.Errorf("read backup %s: there is no %s: %w", folder, ManifestFile, ErrIncomplete)
	}
	if err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("read %s of %s: %w: %w", ManifestFile, folder, ErrDamaged, err)
	}
	if m.Format > Format {
		return nil, fmt.Errorf("read backup %s of form %d: %w", folder, m.Format, ErrNewer)
	}
	if digest, err := m.digest(); err != nil || digest != m.Digest {
		return nil, fmt.Errorf("read %s of %s: its digest is %s, not %s: %w", ManifestFile, folder, digest, m.Digest,
			ErrDamaged)
	}
	return m, nil
}
