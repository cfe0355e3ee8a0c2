package httpapi

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errFiles: the process has as many files open as it may.
var errFiles = errors.New("no more files can be opened")

// OpenFiles is why this process can open no file now, nil when it can. Connections are files too:
// a server with a connection for each runner comes to its limit by having more of them.
func OpenFiles() error {
	f, err := os.Open(os.DevNull)
	if err == nil {
		return f.Close()
	}
	if !noFiles(err) {
		return fmt.Errorf("open a file: %w", err)
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return fmt.Errorf("%w: %w", errFiles, err)
	}
	return fmt.Errorf("%w: %d may be open at once, connections included; raise ulimit -n (LimitNOFILE= of a unit): %w",
		errFiles, limit.Cur, err)
}

// outOfFiles reports whether a fault came of that. Databases and programs say it in words of their
// own, so what does not say it is tried.
func outOfFiles(err error) bool {
	return noFiles(err) || errors.Is(OpenFiles(), errFiles)
}

func noFiles(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }
