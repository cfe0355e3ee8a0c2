package cli

import "github.com/spf13/cobra"

// cmdAdmin holds what an operator of servers needs.
func (a *app) cmdAdmin() *cobra.Command {
	return a.family("admin", "Look after servers and what they keep", a.cmdAdminFleet(), a.cmdAdminBackup(),
		a.cmdAdminRestore(), a.cmdAdminVerify(), a.cmdAdminRebuild(), a.cmdAdminAcceptLoss(), a.cmdAdminLosses(),
		a.cmdAdminTally(), a.cmdAdminArchive(), a.cmdAdminSeed())
}
