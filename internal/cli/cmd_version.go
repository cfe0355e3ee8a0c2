package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) cmdVersion() *cobra.Command {
	command := a.withJSON(&cobra.Command{Use: "version", Short: "Print the version of this program",
		Example: "  fairlead version --json", Args: cobra.NoArgs})
	command.RunE = a.do(func(context.Context, []string) error {
		if a.json {
			return a.printJSON(map[string]string{"version": a.Version, "go": runtime.Version(), "os": runtime.GOOS,
				"arch": runtime.GOARCH})
		}
		_, err := fmt.Fprintf(a.out, "fairlead %s (%s, %s/%s)\n", a.Version, runtime.Version(), runtime.GOOS,
			runtime.GOARCH)
		return err
	})
	return command
}

// BuildVersion is what the build of this program recorded: the module's version, else the commit.
func BuildVersion() string {
	built, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if built.Main.Version != "" && built.Main.Version != "(devel)" {
		return built.Main.Version
	}
	for _, setting := range built.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) >= 12 {
			return "devel-" + setting.Value[:12]
		}
	}
	return "devel"
}
