package job

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// pair is one name with its value from a command file.
type pair struct{ name, value string }

// parsePairs reads a file of the form that GITHUB_ENV and GITHUB_OUTPUT have. Each
// entry is "name=value", or "name<<delimiter", lines, and the delimiter alone on a
// line; whichever of "=" and "<<" comes first in the line decides. Pairs before a bad
// line are returned beside the error.
//
// Trust: text is the job's.
func parsePairs(text string) ([]pair, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	var pairs []pair
	for text != "" {
		var line string
		line, text = cutLine(text)
		if line == "" {
			continue
		}
		equals, heredoc := strings.Index(line, "="), strings.Index(line, "<<")
		switch {
		case equals >= 0 && (heredoc < 0 || equals < heredoc):
			if equals == 0 {
				return pairs, fmt.Errorf("invalid format %q: the name must not be empty", short(line))
			}
			pairs = append(pairs, pair{line[:equals], line[equals+1:]})
		case heredoc >= 0:
			name, delimiter := line[:heredoc], line[heredoc+2:]
			if name == "" || delimiter == "" {
				return pairs, fmt.Errorf("invalid format %q: neither name nor delimiter may be empty", short(line))
			}
			value, rest, ok := cutHeredoc(text, delimiter)
			if !ok {
				return pairs, fmt.Errorf("invalid value of %s: matching delimiter not found %q", short(name), short(delimiter))
			}
			pairs = append(pairs, pair{name, value})
			text = rest
		default:
			return pairs, fmt.Errorf("invalid format %q: neither = nor << is in it", short(line))
		}
	}
	return pairs, nil
}

// cutHeredoc takes lines up to the delimiter.
func cutHeredoc(text, delimiter string) (value, rest string, ok bool) {
	var lines []string
	for text != "" {
		var line string
		line, text = cutLine(text)
		if line == delimiter {
			return strings.Join(lines, "\n"), text, true
		}
		lines = append(lines, line)
	}
	return "", "", false
}

// parsePaths reads a file of the form that GITHUB_PATH has: one folder a line.
func parsePaths(text string) []string {
	var paths []string
	for text = strings.TrimPrefix(text, "\ufeff"); text != ""; {
		var line string
		line, text = cutLine(text)
		if strings.TrimSpace(line) != "" {
			paths = append(paths, line)
		}
	}
	return paths
}

func cutLine(text string) (line, rest string) {
	line, rest, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

// short cuts text of a job for a message, so that it can't fill a screen.
func short(text string) string {
	if len(text) > 80 {
		return text[:80] + "…"
	}
	return text
}

// readCommandFile reads what a step wrote. The step may have put anything in its place:
// a link out of the folder, a pipe that never answers, a file without end.
func readCommandFile(root *os.Root, name string) (string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // a step may delete its own file: then it said nothing
	}
	if err != nil {
		return "", fmt.Errorf("read command file: %w", err)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read command file: %w", err)
	}
	if !st.Mode().IsRegular() {
		return "", errors.New("read command file: it is no longer a plain file")
	}
	text, err := io.ReadAll(io.LimitReader(f, commandFileBytesMax+1))
	if err != nil {
		return "", fmt.Errorf("read command file: %w", err)
	}
	if len(text) > commandFileBytesMax {
		return "", fmt.Errorf("read command file: it is larger than %d bytes", commandFileBytesMax)
	}
	return string(text), nil
}

// writeFile makes a file in a folder that the job can change, without following what it
// may have put there.
func writeFile(root *os.Root, name string, text []byte, mode os.FileMode) error {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL | unix.O_NOFOLLOW
	f, err := root.OpenFile(name, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if err := root.RemoveAll(name); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		f, err = root.OpenFile(name, flags, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if len(text) > 0 {
		_, err = f.Write(text)
	}
	// The mode is set on the open file: umask does not apply, and no name is looked up.
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
