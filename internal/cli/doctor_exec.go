package cli

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// The oldest git that everything was tried with: it names the format of objects, takes
// configuration from the environment, and quarantines pushes.
const (
	gitMajor = 2
	gitMinor = 39
)

var gitVersion = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^git version (\d+)\.(\d+)(\S*)`)
})

// checkGit runs git: that a file of that name exists says nothing.
func checkGit(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	install := fmt.Sprintf("install git %d.%d or newer (apt install git)", gitMajor, gitMinor)
	out, err := exec.CommandContext(ctx, "git", "version").Output()
	if err != nil {
		return []Finding{{"git", findFail, "git does not run: " + err.Error(), install}}
	}
	return []Finding{judgeGit(string(out), install)}
}

func judgeGit(answer, install string) Finding {
	part := gitVersion().FindStringSubmatch(answer)
	if part == nil {
		return Finding{"git", findWarn, fmt.Sprintf("git says %.60q, which is no version", answer), install}
	}
	major, err1 := strconv.Atoi(part[1])
	minor, err2 := strconv.Atoi(part[2])
	if err1 != nil || err2 != nil || major < gitMajor || (major == gitMajor && minor < gitMinor) {
		return Finding{"git", findFail, "git " + part[1] + "." + part[2] + part[3] + " is too old", install}
	}
	return ok("git", "version %s.%s%s", part[1], part[2], part[3])
}

// checkShells looks for the programs that steps are started with.
func checkShells(context.Context) []Finding {
	var out []Finding
	for _, shell := range []struct{ name, without string }{
		{"bash", "steps that name no shell use sh"},
		{"sh", "no step can run"},
	} {
		path, err := exec.LookPath(shell.name)
		switch {
		case err == nil:
			out = append(out, ok(shell.name, "%s", path))
		case shell.name == "sh":
			out = append(out, Finding{shell.name, findFail, "not in PATH: " + shell.without,
				"install a POSIX shell (apt install dash)"})
		default:
			out = append(out, Finding{shell.name, findWarn, "not in PATH: " + shell.without, "apt install " + shell.name})
		}
	}
	return out
}
