package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

func (a *app) cmdRunner() *cobra.Command {
	return a.family("runner", "Invite, list and remove runners", a.cmdRunnerToken(), a.cmdRunnerList(),
		a.cmdRunnerRemove())
}

func (a *app) cmdRunnerToken() *cobra.Command {
	var pool, key string
	var ttl time.Duration
	command := a.withJSON(&cobra.Command{
		Use:   "token",
		Short: "Make a one-time token with which a runner registers",
		Long: `Make a token with which one runner registers in a pool, once. It is printed to standard output and shown
never again; the server keeps only a digest of it.`,
		Example: "  fairlead-runner --server http://host:8374 --token \"$(fairlead runner token)\"",
		Args:    cobra.NoArgs,
	})
	command.Flags().StringVar(&pool, "pool", "default", "`pool` that the runner works for")
	command.Flags().DurationVar(&ttl, "ttl", 0, "how long the token is good (default the server's choice)")
	keyFlag(command, &key)
	a.complete(command, "pool", a.completePools)
	command.RunE = a.call(func(ctx context.Context, c *client.Client, _ []string) error {
		if ttl < 0 || (ttl > 0 && ttl < time.Second) {
			return usagef("--ttl is %s; it must be a second or more", ttl)
		}
		response, err := c.Pools.CreateRegistrationToken(client.WithKey(ctx, key),
			&fairleadv1.CreateRegistrationTokenRequest{Pool: pool, TtlSeconds: int32(ttl / time.Second)})
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		if a.out.tty {
			a.note("good once, until %s", clock(response.GetExpires()))
		}
		_, err = fmt.Fprintln(a.out, response.GetToken())
		return err
	})
	return command
}

func (a *app) cmdRunnerList() *cobra.Command {
	command := a.withJSON(&cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List runners",
		Example: "  fairlead runner list", Args: cobra.NoArgs})
	command.RunE = a.call(func(ctx context.Context, c *client.Client, _ []string) error {
		response, err := c.Pools.ListRunners(ctx, &fairleadv1.ListRunnersRequest{})
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		if len(response.GetRunners()) == 0 {
			_, err := fmt.Fprintln(a.out, "No runner. To invite one: fairlead runner token")
			return err
		}
		var rows [][]string
		for _, r := range response.GetRunners() {
			rows = append(rows, []string{r.GetState(), r.GetName(), r.GetPool(),
				fmt.Sprintf("%d/%d", len(r.GetAttempts()), r.GetCapacity()), r.GetIsolation(),
				dash(strings.Join(r.GetLabels(), ",")), clock(r.GetLastSeen()), r.GetVersion(), r.GetRunner()})
		}
		_, err = fmt.Fprint(a.out, a.out.table([]string{"STATE", "NAME", "POOL", "BUSY", "ISOLATION", "LABELS", "LAST SEEN",
			"VERSION", "ID"}, rows, 0))
		return err
	})
	return command
}

func (a *app) cmdRunnerRemove() *cobra.Command {
	var key string
	command := a.withJSON(&cobra.Command{
		Use:   "remove RUNNER",
		Short: "Remove a runner: it gets no more work, and its credential no longer works",
		Long: `Remove a runner, by id or name. It gets no more leases. What it runs now keeps its lease until that ends, and
attempts of a runner that was lost are settled as ever.`,
		Example: "  fairlead runner remove laptop",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.ask(a.completeRunners),
	})
	keyFlag(command, &key)
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		id, err := runnerID(ctx, c, args[0], key != "")
		if err != nil {
			return err
		}
		response, err := c.Pools.RemoveRunner(client.WithKey(ctx, key), &fairleadv1.RemoveRunnerRequest{Runner: id})
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		_, err = fmt.Fprintf(a.out, "Removed %s.\n", clean(args[0]))
		return err
	})
	return command
}

// runnerID finds a runner by name. An identifier is taken as it is. A removed runner has its
// name no longer, except for whoever may be repeating the very command that removed it.
func runnerID(ctx context.Context, c *client.Client, word string, again bool) (string, error) {
	if domain.ValidID(domain.PrefixRunner, word) {
		return word, nil
	}
	response, err := c.Pools.ListRunners(ctx, &fairleadv1.ListRunnersRequest{})
	if err != nil {
		return "", err
	}
	var found, removed []string
	for _, r := range response.GetRunners() {
		switch {
		case r.GetName() != word:
		case r.GetState() == "removed":
			removed = append(removed, r.GetRunner())
		default:
			found = append(found, r.GetRunner())
		}
	}
	if len(found) == 0 && again && len(removed) > 0 {
		found = []string{slices.Max(removed)} // names are made of the time: the last one
	}
	switch len(found) {
	case 0:
		return "", &refusal{code: string(domain.CodeNotFound), text: fmt.Sprintf("There is no runner %q.", word)}
	case 1:
		return found[0], nil
	}
	return "", &refusal{code: string(domain.CodeNotFound), choices: found,
		text: "Several runners have that name; give an id:"}
}

func (a *app) cmdPool() *cobra.Command {
	command := a.withJSON(&cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List pools",
		Example: "  fairlead pool list", Args: cobra.NoArgs})
	command.RunE = a.call(func(ctx context.Context, c *client.Client, _ []string) error {
		response, err := c.Pools.ListPools(ctx, &fairleadv1.ListPoolsRequest{})
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		var rows [][]string
		for _, p := range response.GetPools() {
			rows = append(rows, []string{p.GetPool(), strconv.Itoa(int(p.GetRunners())),
				fmt.Sprintf("%d/%d", p.GetBusy(), p.GetSlots()), strconv.Itoa(int(p.GetWaiting())),
				strings.Join(p.GetTiers(), ","), dash(strings.Join(p.GetLabels(), ",")), dash(strings.Join(p.GetAliases(), ","))})
		}
		_, err = fmt.Fprint(a.out, a.out.table([]string{"POOL", "RUNNERS", "BUSY", "WAITING", "TIERS",
			"LABELS", "ALIASES"}, rows))
		return err
	})
	return a.family("pool", "List pools of runners", command)
}
