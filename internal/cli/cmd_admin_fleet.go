package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdAdminFleet() *cobra.Command {
	command := &cobra.Command{
		Use:   "fleet",
		Short: "Show the servers of a fleet and who owns which partition",
		Long: `Show the members of the fleet that the server belongs to, and every partition: its owner, the owner's
epoch, the position of its log, and whether and why it stands still. Any member answers the same.
Below them are claims that history is missing which nothing proves: they stop nothing.

The exit code is 1 when a partition is stopped, and 0 also while one changes hands.`,
		Example: "  fairlead admin fleet\n  fairlead admin fleet --json",
		Args:    cobra.NoArgs,
	}
	command.RunE = a.call(func(ctx context.Context, c *client.Client, _ []string) error {
		res, err := c.Server.GetServer(ctx, &fairleadv1.GetServerRequest{})
		if err != nil {
			return err
		}
		if a.json {
			err = a.printMessage(res)
		} else {
			err = a.printFleet(res)
		}
		if err == nil && stoppedIn(res) {
			err = &ended{ExitFailed}
		}
		return err
	})
	return a.withJSON(command)
}

// stoppedIn reports whether a partition stands still until an operator acts.
func stoppedIn(res *fairleadv1.GetServerResponse) bool {
	for _, p := range res.GetPartitions() {
		if p.GetState() == "stopped" {
			return true
		}
	}
	return false
}

func (a *app) printFleet(res *fairleadv1.GetServerResponse) error {
	var members, partitions [][]string
	owns := map[string]int{}
	for _, p := range res.GetPartitions() {
		owns[p.GetOwner()]++
		partitions = append(partitions, []string{p.GetPartition(), p.GetState(), dash(p.GetOwner()),
			strconv.FormatUint(p.GetEpoch(), 10), strconv.FormatUint(p.GetPosition(), 10), p.GetProblem()})
	}
	for _, m := range res.GetMembers() {
		name := m.GetName()
		if name == res.GetName() {
			name += " (answers)"
		}
		members = append(members, []string{name, m.GetState(), strconv.Itoa(owns[m.GetName()]), m.GetAddress(),
			m.GetVersion(), strconv.FormatUint(uint64(m.GetFormat()), 10)})
	}
	text := ""
	if len(members) == 0 {
		text = "This server is alone; it keeps its history in " + clean(res.GetStore()) + ".\n\n"
	} else {
		text = a.out.table([]string{"MEMBER", "STATE", "OWNS", "ADDRESS", "VERSION", "FORMAT"}, members, 1) + "\n"
	}
	text += a.out.table([]string{"PARTITION", "STATE", "OWNER", "EPOCH", "POSITION", "PROBLEM"}, partitions, 1)
	for _, p := range res.GetPartitions() {
		if p.GetNotice() != "" {
			text += "\nUnproved claim about " + clean(p.GetPartition()) + ", " + clean(p.GetNotice()) + "\n"
		}
	}
	_, err := fmt.Fprint(a.out, text)
	return err
}
