package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// wholeProgram is what the whole program is called where this one is "fairlead".
const wholeProgram = "fairlead-server"

// whole becomes the whole program, which lies beside this one. It returns only if that fails.
func whole() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), wholeProgram)
	err = syscall.Exec(path, os.Args, os.Environ())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("this program is the command line alone: a server needs %s beside it, in %s", wholeProgram,
			filepath.Dir(self))
	}
	return fmt.Errorf("start %s: %w", path, err)
}
