package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdSignIn() *cobra.Command {
	command := a.withJSON(&cobra.Command{
		Use:   "sign-in",
		Short: "Print a link that signs a browser in, once",
		Long: `Print a link with which a browser signs in. It works once and for a short time; whoever opens it first is in,
so it is as good as the credential that made it.`,
		Example: "  xdg-open \"$(fairlead sign-in)\"",
		Args:    cobra.NoArgs,
	})
	command.RunE = a.call(func(ctx context.Context, c *client.Client, _ []string) error {
		response, err := c.SignIn.CreateSignInLink(ctx, &fairleadv1.CreateSignInLinkRequest{})
		if err != nil {
			return err
		}
		link := c.Base() + response.GetPath()
		if a.json {
			return a.printJSON(map[string]string{"url": link, "expires": response.GetExpires()})
		}
		if a.out.tty {
			a.note("good once, until %s", clock(response.GetExpires()))
		}
		_, err = fmt.Fprintln(a.out, link)
		return err
	})
	return command
}
