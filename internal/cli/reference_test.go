package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const referencePage = "../../docs/reference/cli.md"

// The reference page of the command line is made of testdata/reference.md and from the commands themselves, so it is
// the golden file of every help text as well.
func TestReferenceOfTheCommandLine(t *testing.T) {
	var page strings.Builder
	intro, err := os.ReadFile("testdata/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	root := Root(Program{Version: "VERSION"})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	page.WriteString(strings.Replace(string(intro), "VARIABLES\n", variables(t, root, "up", "server"), 1))
	page.WriteString("## Commands\n\n")
	section(&page, root)
	golden(t, referencePage, page.String())
}

// section writes a command and those below it.
func section(page *strings.Builder, command *cobra.Command) {
	ours := !strings.Contains(command.CommandPath(), "completion") // cobra's own words are long
	if command.HasParent() {
		fmt.Fprintf(page, "### %s\n\n%s.\n\n", command.CommandPath(), strings.TrimSuffix(command.Short, "."))
		if command.Runnable() && !command.HasSubCommands() {
			fmt.Fprintf(page, "    %s\n\n", command.UseLine())
		}
		if command.Long != "" && ours {
			page.WriteString(strings.TrimSpace(command.Long) + "\n\n")
		}
		if command.Example != "" {
			example := strings.ReplaceAll(strings.TrimPrefix(command.Example, "  "), "\n  ", "\n")
			fmt.Fprintf(page, "```sh\n%s\n```\n\n", example)
		}
	}
	if flags := command.NonInheritedFlags(); flags.HasAvailableFlags() && ours {
		fmt.Fprintf(page, "```text\n%s```\n\n", flags.FlagUsages())
	}
	for _, child := range command.Commands() {
		if child.IsAvailableCommand() && child.Name() != "help" {
			section(page, child)
		}
	}
}

// variables are those of the commands, in the order of the alphabet.
func variables(t *testing.T, root *cobra.Command, names ...string) string {
	flags := map[string]bool{}
	for _, name := range names {
		command, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		command.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) { flags[flag.Name] = true })
	}
	delete(flags, "help")
	var out strings.Builder
	out.WriteString("| variable | stands for |\n| --- | --- |\n| `FAIRLEAD_DATA` | `--data` |\n")
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		fmt.Fprintf(&out, "| `%s` | `--%s` |\n", variable(name), name)
	}
	return out.String()
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path, text string) {
	t.Helper()
	text = strings.TrimRight(text, "\n") + "\n"
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("%s is not what the commands say; run this test with -rewrite", path)
	}
}

// Every command has a short text and an example, and a place in the help.
func TestEveryCommandExplainsItself(t *testing.T) {
	root := Root(Program{})
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short text %q", c.CommandPath(), c.Short)
		}
		if c.Example == "" && !c.HasSubCommands() && !c.Hidden && !c.Parent().Hidden {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(root)
}
