//go:build !linux

package cli

import (
	"context"
	"runtime"
)

// checkKernel has nothing to look at: isolation by the kernel is built for Linux.
func checkKernel(context.Context) []Finding {
	return []Finding{{"kernel", findWarn, runtime.GOOS + " has no isolation that jobs could use",
		"jobs run as plain processes here; use a runner on Linux for work that is not trusted"}}
}
