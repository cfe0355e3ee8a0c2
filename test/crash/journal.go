package crash

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Entry is one line of the journal: a siege that was judged. One that was interrupted leaves
// none, so its kills do not count.
type Entry struct {
	At       time.Time      `json:"at"`
	Commit   string         `json:"commit"`
	Store    Store          `json:"store"`
	Servers  int            `json:"servers"`
	Seed     uint64         `json:"seed"`
	Kills    map[Target]int `json:"kills"`
	Stops    map[Target]int `json:"stops"`
	Parts    map[Target]int `json:"parts"`
	Facts    Facts          `json:"facts"`
	Seconds  int            `json:"seconds"`
	Findings []string       `json:"findings,omitempty"`
}

// Clean says that nothing contradicted the book.
func (e *Entry) Clean() bool { return len(e.Findings) == 0 }

func sum(of map[Target]int) (n int) {
	for _, k := range of {
		n += k
	}
	return n
}

// Journal is the file in which sieges are accumulated, one JSON object a line.
type Journal struct {
	path    string
	whole   int64 // bytes of whole lines; what a crash left behind them is overwritten
	Entries []Entry
}

// OpenJournal reads what was accumulated; a file that is not there is empty. A last line
// that was cut off is dropped.
func OpenJournal(path string) (*Journal, error) {
	j := &Journal{path: path}
	if path == "" {
		return j, nil
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			break
		}
		j.whole += int64(len(lines.Bytes())) + 1
		j.Entries = append(j.Entries, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read journal %s: %w", path, err)
	}
	return j, nil
}

// Add writes a line and makes it durable.
func (j *Journal) Add(e Entry) error {
	j.Entries = append(j.Entries, e)
	if j.path == "" {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode journal entry: %w", err)
	}
	line = append(line, '\n')
	file, err := os.OpenFile(j.path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	_, err = file.WriteAt(line, j.whole)
	if err == nil {
		err = file.Truncate(j.whole + int64(len(line)))
	}
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	j.whole += int64(len(line))
	return nil
}

// Kills counts the kills of clean sieges of that many servers on a store.
func (j *Journal) Kills(store Store, servers int) (n int) {
	for i := range j.Entries {
		if e := &j.Entries[i]; e.Store == store && e.Servers == servers && e.Clean() {
			n += sum(e.Kills)
		}
	}
	return n
}

// NextSeed is one that no such siege had yet.
func (j *Journal) NextSeed(store Store, servers int) (seed uint64) {
	seed = 1
	for i := range j.Entries {
		if e := &j.Entries[i]; e.Store == store && e.Servers == servers {
			seed = max(seed, e.Seed+1)
		}
	}
	return seed
}
