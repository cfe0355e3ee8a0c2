package tidy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// listed is what the go command says of one package.
type listed struct {
	ImportPath string
	Dir        string
	Name       string
	Standard   bool
	Imports    []string
	GoFiles    []string
	Export     string
	Error      *struct{ Err string }
}

// golist asks the go command, which alone knows build constraints and module versions.
// It never changes go.mod: a missing dependency is an error of that package.
func golist(root string, args ...string) ([]listed, error) {
	cmd := exec.Command("go", append([]string{"list", "-mod=readonly", "-e", "-deps"}, args...)...)
	cmd.Dir = root
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("list packages under %s: %w: %s", root, err, errs.String())
	}
	var all []listed
	for dec := json.NewDecoder(&out); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read package list: %w", err)
		}
		all = append(all, p)
	}
}
