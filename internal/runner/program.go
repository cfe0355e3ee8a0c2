package runner

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
)

// Names of the two programs that have a runner in them, as their build records them.
const (
	wholeProgram = "fairlead"
	smallProgram = "fairlead-runner"
)

// lighter finds a smaller program for supervisors than this one: the runner alone, if it
// lies beside this program and was built from the same commit. It starts in half the
// time and takes half the memory. The file is kept open, and executed by its descriptor:
// what lies there after an upgrade is another version. An empty path means this program.
func lighter() (program string, keep *os.File) {
	own, ok := debug.ReadBuildInfo()
	if !ok || path.Base(own.Path) != wholeProgram {
		return "", nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", nil
	}
	f, err := os.Open(filepath.Join(filepath.Dir(self), smallProgram))
	if err != nil {
		return "", nil
	}
	if !trusted(self, f) || !sameBuild(own, f) {
		_ = f.Close()
		return "", nil
	}
	return fmt.Sprintf("/proc/self/fd/%d", f.Fd()), f
}

// trusted reports whether nobody could have put the file there who could not have
// replaced this program as well.
func trusted(self string, f *os.File) bool {
	mine, err := os.Stat(self)
	if err != nil {
		return false
	}
	theirs, err := f.Stat()
	if err != nil || !theirs.Mode().IsRegular() || theirs.Mode()&0o111 == 0 {
		return false
	}
	a, okA := mine.Sys().(*syscall.Stat_t)
	b, okB := theirs.Sys().(*syscall.Stat_t)
	return okA && okB && (b.Uid == 0 || b.Uid == a.Uid) && theirs.Mode()&0o022&^mine.Mode() == 0
}

// sameBuild compares what the two builds recorded. A build of a tree with changes says
// too little of itself to be compared.
func sameBuild(own *debug.BuildInfo, f *os.File) bool {
	other, err := buildinfo.Read(f)
	if err != nil || path.Base(other.Path) != smallProgram {
		return false
	}
	setting := func(b *debug.BuildInfo, key string) string {
		for _, s := range b.Settings {
			if s.Key == key {
				return s.Value
			}
		}
		return ""
	}
	for _, key := range []string{"vcs.revision", "GOARCH", "GOOS", "CGO_ENABLED"} {
		if setting(own, key) != setting(other, key) {
			return false
		}
	}
	known := setting(own, "vcs.revision") != "" && setting(own, "vcs.modified") == "false" &&
		setting(other, "vcs.modified") == "false"
	released := own.Main.Version != "" && own.Main.Version != "(devel)" && !strings.Contains(own.Main.Version, "+dirty")
	return own.Main == other.Main && own.GoVersion == other.GoVersion && (known || released)
}
