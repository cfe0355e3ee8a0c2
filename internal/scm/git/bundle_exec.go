package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
)

// Mirrored lists the repositories that have a mirror, by tenant and id.
func (m *Mirrors) Mirrored(context.Context) ([]scm.Repo, error) {
	// Only names are matched, never whole paths: an operator's folder may have any name.
	tenants, err := os.ReadDir(m.root)
	if err != nil {
		return nil, fmt.Errorf("list mirrors: %w", err)
	}
	var repos []scm.Repo
	for _, tenant := range tenants {
		if !validTenant(tenant.Name()) {
			continue
		}
		found, err := os.ReadDir(filepath.Join(m.root, tenant.Name()))
		if nowhere(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list mirrors of %s: %w", tenant.Name(), err)
		}
		for _, entry := range found {
			id, ok := strings.CutSuffix(entry.Name(), ".git")
			if !ok {
				continue
			}
			repo := scm.Repo{Tenant: domain.TenantID(tenant.Name()), Repository: domain.RepositoryID(id)}
			dir, err := m.Dir(repo)
			if err != nil {
				continue // somebody else's folder
			}
			_, err = os.Stat(filepath.Join(dir, "HEAD"))
			if nowhere(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list mirrors of %s: %w", tenant.Name(), err)
			}
			repos = append(repos, repo)
		}
	}
	return repos, nil
}

// nowhere reports whether err says that there is no such file or folder.
func nowhere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// RefsDigest is a digest of all refs of a mirror, the server's own ones among them; empty
// when it has none.
func (m *Mirrors) RefsDigest(ctx context.Context, repo scm.Repo) (domain.Digest, error) {
	dir, err := m.existing(repo)
	if err != nil {
		return "", err
	}
	sum := &counted{Writer: sha256.New()}
	err = m.stream(ctx, call{dir: dir, args: []string{"for-each-ref", "--format=%(objectname) %(refname)"}}, nil, sum)
	if err != nil {
		return "", fmt.Errorf("list refs of %s: %w", repo.Repository, err)
	}
	if sum.n == 0 {
		return "", nil
	}
	return domain.Digest("sha256:" + hex.EncodeToString(sum.Writer.(interface{ Sum([]byte) []byte }).Sum(nil))), nil
}

type counted struct {
	io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

// Pins lists the commits that a mirror keeps for runs and captures.
func (m *Mirrors) Pins(ctx context.Context, repo scm.Repo) (map[string]bool, error) {
	dir, err := m.existing(repo)
	if err != nil {
		return nil, err
	}
	pins := map[string]bool{}
	var text strings.Builder
	err = m.stream(ctx, call{dir: dir, args: []string{"for-each-ref", "--format=%(objectname)", PinPrefix, CapturePrefix}},
		nil, &text)
	if err != nil {
		return nil, fmt.Errorf("list pins of %s: %w", repo.Repository, err)
	}
	for line := range strings.Lines(text.String()) {
		pins[strings.TrimSpace(line)] = true
	}
	return pins, nil
}

// Bundle writes all refs of a mirror, and all that they lead to, as a git bundle. It may run
// beside fetches and pushes: a ref leads only to what is there.
func (m *Mirrors) Bundle(ctx context.Context, repo scm.Repo, w io.Writer) error {
	dir, err := m.existing(repo)
	if err != nil {
		return err
	}
	err = m.stream(ctx, call{dir: dir, args: []string{"bundle", "create", "--quiet", "-", "--all"}}, nil, w)
	if err != nil {
		return fmt.Errorf("bundle %s: %w", repo.Repository, err)
	}
	return nil
}

// Unbundle makes a mirror of a bundle; nil makes an empty one. Every object is checked as
// if it were fetched from a stranger.
//
// Trust: the bundle may come from anybody.
func (m *Mirrors) Unbundle(ctx context.Context, repo scm.Repo, r io.Reader) error {
	if err := m.Init(ctx, repo); err != nil {
		return err
	}
	if r == nil {
		return nil
	}
	dir, err := m.existing(repo)
	if err != nil {
		return err
	}
	path := dir + ".bundle"
	defer func() { _ = os.Remove(path) }()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("unbundle %s: %w", repo.Repository, err)
	}
	_, err = io.Copy(file, r)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("unbundle %s: %w", repo.Repository, err)
	}
	unlock, err := m.locks.lock(ctx, lockKey{dir: dir})
	if err != nil {
		return err
	}
	defer unlock()
	err = m.stream(ctx, call{dir: dir, protocol: "file", args: []string{"fetch", "--quiet", "--no-tags",
		"--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules", "--no-show-forced-updates", "--", path,
		"+refs/*:refs/*"}}, nil, io.Discard)
	if err != nil {
		return fmt.Errorf("unbundle %s: %w", repo.Repository, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unbundle %s: %w", repo.Repository, err)
	}
	return nil
}

// stream runs git with its output going elsewhere as it comes, however much it is.
func (m *Mirrors) stream(ctx context.Context, c call, in io.Reader, out io.Writer) error {
	cmd := m.command(ctx, c)
	stderr := &capped{max: stderrBytesMax}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, stderr
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("git %s: %w: %s", c.args[0], err, strings.TrimSpace(scrub(stderr.buf.String())))
	}
	return nil
}
