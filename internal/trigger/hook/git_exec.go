package hook

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hooksFolder is where git looks for the repository's hooks, core.hooksPath included.
func hooksFolder(gitDir string) (string, error) {
	dir, err := filepath.Abs(gitDir)
	if err != nil {
		return "", err
	}
	cmd := exec.Command("git", "-C", dir, "rev-parse", "--path-format=absolute", "--git-path", "hooks")
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "GIT_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find hooks of %s: not a git repository, or not readable: %w", dir, err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
