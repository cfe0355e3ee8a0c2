package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Kinds of entries in the list of files.
const (
	kindObject = "object" // of the object store; Name is its key
	kindMirror = "mirror" // a git bundle; Name is tenant/repository
	kindSecret = "secret" // a key or credential; Name is its path below the data folder
)

// entry is one line of files.jsonl.zst: what a file is, and by which content.
type entry struct {
	Kind   string        `json:"kind"`
	Name   string        `json:"name"`
	Bytes  int64         `json:"bytes"`
	Digest domain.Digest `json:"digest,omitempty"` // empty: a mirror without a commit
	// Refs is the digest of a mirror's refs: while it stays, so does the bundle.
	Refs domain.Digest `json:"refs,omitempty"`
}

// contents are the files of a backup: content/<xx>/<sha256>, each once.
type contents struct {
	folder string
	base   *contents // of an earlier backup; nil: none
	temp   atomic.Uint64

	mu   sync.Mutex
	made map[string]bool
	have map[domain.Digest]bool
	sum  Counts
}

func newContents(folder string, base *contents) *contents {
	return &contents{folder: folder, base: base, made: map[string]bool{}, have: map[domain.Digest]bool{}}
}

func (c *contents) path(digest domain.Digest) string {
	name := digest.Hex()
	return filepath.Join(c.folder, contentFolder, name[:2], name)
}

// add copies what it reads, unless there is such content already, and tells its digest.
func (c *contents) add(ctx context.Context, from io.Reader) (domain.Digest, int64, error) {
	temp := filepath.Join(c.folder, contentFolder, "tmp-"+strconv.FormatUint(c.temp.Add(1), 36))
	if err := c.makeFolder(filepath.Dir(temp)); err != nil {
		return "", 0, err
	}
	file, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = os.Remove(temp) }() // when it was not renamed
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, sum), reader{ctx, from})
	if err = errors.Join(err, file.Close()); err != nil {
		return "", n, err
	}
	digest := domain.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil)))
	there, err := c.reuse(digest, n)
	if err != nil {
		return digest, n, err
	}
	// What was just read is right. A file of the base was when it was written.
	if there && matches(c.path(digest), Described{n, digest}) == nil {
		return digest, n, nil
	}
	if err := os.Rename(temp, c.path(digest)); err != nil {
		return "", n, err
	}
	c.count(digest, n, true)
	return digest, n, nil
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// reuse reports whether the backup has the content, after linking it from the earlier one
// if that has it.
func (c *contents) reuse(digest domain.Digest, size int64) (bool, error) {
	c.mu.Lock()
	known := c.have[digest]
	c.mu.Unlock()
	if known {
		return true, nil
	}
	target := c.path(digest)
	if err := c.makeFolder(filepath.Dir(target)); err != nil {
		return false, err
	}
	if c.base == nil {
		return false, nil
	}
	source := c.base.path(digest)
	info, err := os.Stat(source)
	if err != nil || info.Size() != size {
		return false, nil // the earlier one lost it: copied anew
	}
	err = os.Link(source, target)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, nil // another file system: copied anew
	}
	c.count(digest, size, false)
	return true, nil
}

func (c *contents) count(digest domain.Digest, size int64, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.have[digest] {
		return
	}
	c.have[digest] = true
	c.sum.Files++
	c.sum.FileBytes += size
	if fresh {
		c.sum.NewFiles++
		c.sum.NewBytes += size
	}
}

func (c *contents) makeFolder(folder string) error {
	c.mu.Lock()
	made := c.made[folder]
	c.mu.Unlock()
	if made {
		return nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	c.mu.Lock()
	c.made[folder] = true
	c.mu.Unlock()
	return nil
}

// open gives content whose digest is compared when it has been read to its end: the last
// read fails if it is another one.
func (c *contents) open(e *entry) (io.ReadCloser, error) {
	path := c.path(e.Digest)
	if e.Kind == kindSecret {
		path = filepath.Join(c.folder, secretFolder, filepath.FromSlash(e.Name))
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s %s: its content is not there: %w", e.Kind, e.Name, ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	return &trusting{file: file, entry: e, sum: sha256.New()}, nil
}

// trusting reads a file and trusts it only when its digest was right.
type trusting struct {
	file  *os.File
	entry *entry
	sum   interface {
		io.Writer
		Sum([]byte) []byte
	}
	n int64
}

// Read implements io.Reader.
func (t *trusting) Read(p []byte) (int, error) {
	n, err := t.file.Read(p)
	_, _ = t.sum.Write(p[:n]) // a hash takes everything
	t.n += int64(n)
	if errors.Is(err, io.EOF) {
		if got := "sha256:" + hex.EncodeToString(t.sum.Sum(nil)); got != string(t.entry.Digest) || t.n != t.entry.Bytes {
			return n, fmt.Errorf("read %s %s: its %d bytes digest to %s, not %s: %w", t.entry.Kind, t.entry.Name, t.n, got,
				t.entry.Digest, ErrDamaged)
		}
	}
	return n, err
}

// Close implements io.Closer.
func (t *trusting) Close() error { return t.file.Close() }

// described is a file that is written with its digest.
type described struct {
	file *os.File
	sum  interface {
		io.Writer
		Sum([]byte) []byte
	}
	n int64
}

func describe(path string) (*described, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &described{file: file, sum: sha256.New()}, nil
}

// Write implements io.Writer.
func (d *described) Write(p []byte) (int, error) {
	n, err := d.file.Write(p)
	_, _ = d.sum.Write(p[:n])
	d.n += int64(n)
	return n, err
}

func (d *described) close() (Described, error) {
	return Described{d.n, domain.Digest("sha256:" + hex.EncodeToString(d.sum.Sum(nil)))}, d.file.Close()
}

// matches compares a file of the backup with what the manifest says of it.
func matches(path string, want Described) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	sum := sha256.New()
	n, err := io.Copy(sum, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	got := Described{n, domain.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil)))}
	if got != want {
		return fmt.Errorf("%s has %d bytes of digest %s, not %d of %s: %w", filepath.Base(path), got.Bytes, got.Digest,
			want.Bytes, want.Digest, ErrDamaged)
	}
	return nil
}

// listWriter writes files.jsonl.zst.
type listWriter struct {
	out  *described
	zstd *zstd.Encoder

	mu sync.Mutex
}

func newListWriter(folder string) (*listWriter, error) {
	out, err := describe(filepath.Join(folder, listFile))
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewWriter(out, zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(1))
	return &listWriter{out: out, zstd: z}, err
}

func (w *listWriter) add(e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode entry %s: %w", e.Name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.zstd.Write(append(line, '\n'))
	return err
}

func (w *listWriter) close() (Described, error) {
	err := w.zstd.Close()
	d, closed := w.out.close()
	return d, errors.Join(err, closed)
}

// eachEntry reads files.jsonl.zst.
func eachEntry(folder string, each func(e *entry) error) error {
	file, err := os.Open(filepath.Join(folder, listFile))
	if err != nil {
		return fmt.Errorf("read list of files: %w", err)
	}
	err = lines(file, func(line []byte) error {
		e := &entry{}
		if err := json.Unmarshal(line, e); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return each(e)
	})
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("read list of files: %w", err)
	}
	return nil
}
