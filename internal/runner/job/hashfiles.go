package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// hashed is what hashFiles found.
type hashed struct {
	digest string // empty when no file was chosen
	files  int
	left   []string // links that lead nowhere, or out of the workspace
}

// hashFiles computes one digest over the files that patterns choose: the SHA-256 of their
// SHA-256s, in the order of their paths, as GitHub's runner does. A link counts as the
// file in the workspace that it leads to; a folder behind a link is not entered. A link that
// leads nowhere or out of the workspace is left out, and if there is nothing else to hash, that
// is an error: an empty digest would look like "no such file" and never change again.
//
// Trust: the job can change all of the workspace meanwhile, so everything is opened below
// its root, and only plain files are read.
func hashFiles(ctx context.Context, root *os.Root, inside string, patterns []string) (hashed, error) {
	list, err := readGlobs(patterns, inside)
	if err != nil {
		return hashed{}, err
	}
	h := &hasher{ctx: ctx, root: root, list: list, sum: sha256.New()}
	for _, start := range list.starts() {
		if err := h.from(start); err != nil {
			return hashed{}, err
		}
	}
	switch {
	case h.files > 0:
		h.digest = hex.EncodeToString(h.sum.Sum(nil))
	case len(h.left) > 0:
		return hashed{}, fmt.Errorf("%s is a link that leads nowhere or out of the workspace, and nothing else "+
			"matches", h.left[0])
	}
	return h.hashed, nil
}

type hasher struct {
	hashed
	ctx     context.Context // of the job: hashing ends when it is killed
	root    *os.Root
	list    globs
	sum     hash.Hash
	entries int
	bytes   int64
}

// from searches at one place, which may not be there at all, or be a link.
func (h *hasher) from(start string) error {
	st, err := h.root.Lstat(start)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil:
		return fmt.Errorf("look at %s: %w", start, err)
	case st.Mode()&fs.ModeSymlink == 0:
		return fs.WalkDir(h.root.FS(), start, h.visit)
	case h.list.chosen(start):
		return h.file(start, true)
	}
	return nil
}

func (h *hasher) visit(name string, entry fs.DirEntry, err error) error {
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone since its folder was read
		}
		return fmt.Errorf("look at %s: %w", name, err)
	}
	if err := h.ctx.Err(); err != nil {
		return context.Cause(h.ctx)
	}
	if h.entries++; h.entries > hashEntriesMax {
		return fmt.Errorf("the patterns make it look at more than %d files and folders; make them narrower", hashEntriesMax)
	}
	if entry.IsDir() {
		if name != "." && !h.list.leads(name) {
			return fs.SkipDir
		}
		return nil
	}
	if !h.list.chosen(name) {
		return nil
	}
	return h.file(name, entry.Type()&fs.ModeSymlink != 0)
}

// file adds one chosen file.
func (h *hasher) file(name string, link bool) error {
	st, err := h.root.Stat(name) // follows links, but not out of the root
	switch {
	case err != nil && link:
		h.left = append(h.left, name)
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at %s: %w", name, err)
	case st.IsDir():
		return nil
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s is not a plain file", name)
	}
	if h.files++; h.files > hashFilesMax {
		return fmt.Errorf("the patterns choose more than %d files; make them narrower", hashFilesMax)
	}
	f, err := h.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	if st, err = f.Stat(); err != nil || !st.Mode().IsRegular() {
		return fmt.Errorf("read %s: it is no longer a plain file", name)
	}
	one := sha256.New()
	count, err := io.Copy(one, io.LimitReader(f, hashBytesMax-h.bytes+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if h.bytes += count; h.bytes > hashBytesMax {
		return fmt.Errorf("the patterns choose more than %d bytes, up to %s; make them narrower", int64(hashBytesMax), name)
	}
	_, err = h.sum.Write(one.Sum(nil))
	return err
}

// hashFiles answers the function of that name in an expression of a step.
func (j *job) hashFiles(ctx context.Context, patterns []string) (string, error) {
	root, err := os.OpenRoot(j.box.Outside().Workspace)
	if err != nil {
		return "", fmt.Errorf("open the workspace: %w", err)
	}
	defer func() { _ = root.Close() }()
	found, err := hashFiles(ctx, root, j.inside.workspace, patterns)
	if err != nil {
		return "", err
	}
	for i, name := range found.left {
		const mostSaid = 10
		if i == mostSaid {
			j.log.say(NoStep, "hashFiles: and %d more links", len(found.left)-mostSaid)
			break
		}
		j.log.say(NoStep, "hashFiles: %s is left out: it is a link that leads nowhere or out of the workspace", short(name))
	}
	return found.digest, nil
}
