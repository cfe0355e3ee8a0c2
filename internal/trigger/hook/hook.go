// Package hook puts Fairlead's post-receive hook into a bare repository on this machine,
// so that a push starts runs at once instead of with the next poll.
//
// It is deliberately best effort. A hook runs after the push was accepted; it must never
// make a push fail or wait for a server that is away, and losing its news costs only the
// time to the next poll.
//
// Invariants: installing twice changes nothing; a hook that was there before still runs,
// first and with the same input; no credential is written into the script.
//
// Read next: docs/guide/triggers.md
package hook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Options say what the hook tells whom.
type Options struct {
	Binary     string // absolute path of the fairlead program
	Server     string // the server's address; "" lets the program find it
	Home       string // data folder with the server's address and credentials; "" for the default
	Repository string // id or name on the server
}

// marker is the line by which an installed hook is known again.
const marker = "# Installed by fairlead: reports pushes to a Fairlead server."

// Names of files in the hooks folder.
const (
	fileName    = "post-receive"
	chainedName = "post-receive.before-fairlead"
)

// ErrConflict: there are two foreign hooks, so none of them can be moved aside.
var ErrConflict = errors.New("another hook is in the way")

// Script is the text of the hook. The repository's updates come in as lines of "old new
// ref", as git gives them, and go to `fairlead hook post-receive` unchanged.
func Script(o Options) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n" + marker + "\n")
	b.WriteString(`# A push never fails or waits because of this: without an answer the server finds the
# push when it polls.
updates=$(cat)
status=0
here=$(dirname "$0")
if [ -x "$here/` + chainedName + `" ]; then
	printf '%s\n' "$updates" | "$here/` + chainedName + `" "$@"
	status=$?
fi
# git sets variables that would lead the program's own git calls into this repository.
unset $(git rev-parse --local-env-vars 2>/dev/null)
limit=
if command -v timeout >/dev/null 2>&1; then
	limit='timeout 15'
fi
`)
	for _, v := range [][2]string{{"FAIRLEAD_SERVER", o.Server}, {"FAIRLEAD_DATA", o.Home}} {
		if v[1] != "" {
			fmt.Fprintf(&b, "%s=%s\nexport %s\n", v[0], quote(v[1]), v[0])
		}
	}
	fmt.Fprintf(&b, "if ! printf '%%s\\n' \"$updates\" | $limit %s hook post-receive --repository %s; then\n",
		quote(o.Binary), quote(o.Repository))
	b.WriteString(`	echo "fairlead: the server did not take the news of this push; it will find it when it polls" >&2
fi
exit $status
`)
	return b.String()
}

// quote makes one word of text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Install writes the hook into the repository's hooks folder; changed reports whether
// anything was written. A foreign hook is kept and runs first.
func Install(gitDir string, o Options) (changed bool, err error) {
	if !filepath.IsAbs(o.Binary) || o.Repository == "" ||
		strings.ContainsAny(o.Binary+o.Repository+o.Server+o.Home, "\x00\n") {
		return false, fmt.Errorf("install hook: malformed options")
	}
	folder, err := hooksFolder(gitDir)
	if err != nil {
		return false, fmt.Errorf("install hook: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return false, fmt.Errorf("install hook: %w", err)
	}
	text, at := Script(o), filepath.Join(folder, fileName)
	present, err := os.ReadFile(at)
	switch {
	case err == nil && string(present) == text:
		return false, nil
	case err == nil && !strings.Contains(string(present), marker):
		if err := setAside(at, filepath.Join(folder, chainedName)); err != nil {
			return false, err
		}
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return false, fmt.Errorf("install hook: %w", err)
	}
	return true, write(at, text)
}

// setAside moves a foreign hook to where the script calls it from.
func setAside(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("install hook: %w: both %s and %s are there", ErrConflict, from, to)
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("keep present hook: %w", err)
	}
	return nil
}

// write puts the script in place whole: a push at the same moment runs the old hook or
// the new one.
func write(at, text string) error {
	file, err := os.CreateTemp(filepath.Dir(at), ".post-receive-")
	if err != nil {
		return fmt.Errorf("write hook: %w", err)
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Chmod(0o755), file.Sync(), file.Close()); err != nil {
		return errors.Join(fmt.Errorf("write hook: %w", err), os.Remove(file.Name()))
	}
	if err := os.Rename(file.Name(), at); err != nil {
		return errors.Join(fmt.Errorf("write hook: %w", err), os.Remove(file.Name()))
	}
	return nil
}

// Update is one line of what git tells the hook.
type Update struct{ Before, After, Ref string }

// ParseUpdates reads the hook's input: lines of "old new ref". Lines of another form are
// an error; blank ones are skipped.
//
// Trust: text comes from whoever pushes, through git, which checked ids and names.
func ParseUpdates(text string) ([]Update, error) {
	var updates []Update
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		field := strings.SplitN(line, " ", 3)
		if len(field) != 3 || !hex(field[0]) || !hex(field[1]) || !strings.HasPrefix(field[2], "refs/") {
			return nil, fmt.Errorf("read updates: unexpected line %.100q", line)
		}
		updates = append(updates, Update{field[0], field[1], field[2]})
	}
	return updates, nil
}

func hex(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}
