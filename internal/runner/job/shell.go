package job

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// shell is how a script is run.
type shell struct {
	suffix   string
	args     []string // "{0}" stands for the script's path
	fallback []string // when the program of args does not exist
	before   string   // added to the script
	after    string
}

// shellFor finds the shell that a step names. Without a name it is bash that stops at
// the first error, or sh where there is no bash; a named bash also stops at an error
// inside a pipe. This is the documented behaviour of the workflow language.
func shellFor(name string) (shell, error) {
	switch name {
	case "":
		return shell{
			suffix: ".sh", args: []string{"bash", "-e", "{0}"}, fallback: []string{"sh", "-e", "{0}"},
		}, nil
	case "bash":
		return shell{
			suffix: ".sh", args: []string{"bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "{0}"},
		}, nil
	case "sh":
		return shell{suffix: ".sh", args: []string{"sh", "-e", "{0}"}}, nil
	case "python":
		return shell{suffix: ".py", args: []string{"python", "{0}"}, fallback: []string{"python3", "{0}"}}, nil
	case "pwsh":
		return shell{
			suffix: ".ps1", args: []string{"pwsh", "-command", ". '{0}'"},
			before: "$ErrorActionPreference = 'stop'\n",
			after:  "\nif ((Test-Path -LiteralPath variable:\\LASTEXITCODE)) { exit $LASTEXITCODE }",
		}, nil
	case "cmd", "powershell":
		return shell{}, fmt.Errorf("the shell %q exists on Windows only", name)
	}
	args, err := splitWords(name)
	if err != nil {
		return shell{}, fmt.Errorf("the shell %q: %w", short(name), err)
	}
	if !strings.Contains(name, "{0}") {
		return shell{}, fmt.Errorf("the shell %q has no {0} where the script's path goes", short(name))
	}
	return shell{args: args}, nil
}

func withScript(args []string, path string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = strings.ReplaceAll(a, "{0}", path)
	}
	return out
}

// splitWords splits a command line at blanks; quotes keep them.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	var quote rune
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case unicode.IsSpace(c):
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("it names no program")
	}
	return words, nil
}
