package mutation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// program is the package that runs worlds inside a mutated build.
const program = "./internal/sim/mutation/cmd"

// build makes the program with a mutation in it, or, for nil, as it is. The build cache is
// the user's own: only packages that see the mutated line are compiled anew.
func build(ctx context.Context, root, dir string, m *Mutation) (string, error) {
	name, args := "unbroken", []string{"build", "-ldflags=-s -w"}
	if m != nil {
		overlay, err := m.overlay(root, dir)
		if err != nil {
			return "", err
		}
		name, args = m.Name, append(args, "-overlay", overlay)
	}
	path := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", path, program)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, bytes.TrimSpace(text))
	}
	return path, nil
}

// hunt runs the program over seeds, and gives the worlds in which a check failed.
func hunt(ctx context.Context, path string, h seeds) ([]Catch, error) {
	var skip []string
	for _, s := range h.skip {
		skip = append(skip, strconv.FormatUint(s, 10))
	}
	cmd := exec.CommandContext(ctx, path, "-probe", strconv.Itoa(h.count), "-first", strconv.FormatUint(h.first, 10),
		"-catches", strconv.Itoa(h.catches), "-skip", strings.Join(skip, ","))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // a world is one thread; others hunt beside it
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("run worlds: %w (%w)\n%s", err, errors.Join(ctx.Err()), tail(complaint.String()))
	}
	var all []Catch
	for lines := json.NewDecoder(&out); ; {
		var c Catch
		if bad := lines.Decode(&c); errors.Is(bad, io.EOF) {
			return all, err
		} else if bad != nil {
			return all, errors.Join(err, fmt.Errorf("read catches: %w", bad))
		}
		all = append(all, c)
	}
}

func tail(text string) string {
	const most = 4000
	return text[max(0, len(text)-most):]
}
