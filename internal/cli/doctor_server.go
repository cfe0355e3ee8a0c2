package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// serverPatience bounds how long doctor waits for a server.
const serverPatience = 5 * time.Second

// checkServer asks the server that the environment names, if any. That none runs is no
// failure: the machine may be about to get its first.
func (a *app) checkServer(ctx context.Context) []Finding {
	place, err := a.locate()
	if errors.Is(err, client.ErrNoServer) {
		return []Finding{ok("server", "none is known here; fairlead up starts one")}
	}
	if err != nil {
		return []Finding{{"server", findFail, err.Error(), "mend the settings, or unset them"}}
	}
	c, err := a.connect()
	if err != nil {
		return []Finding{{"server", findFail, err.Error(), "mend " + place.From}}
	}
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	response, err := c.Server.GetServer(ctx, &fairleadv1.GetServerRequest{})
	if err != nil {
		return []Finding{{"server", findWarn,
			fmt.Sprintf("%s (from %s): %s", place.Server, place.From, client.Explain(err)),
			"start it, or mend " + place.From}}
	}
	out := []Finding{ok("server", "%s, version %s, store %s", place.Server, response.GetVersion(), response.GetStore())}
	for _, p := range response.GetPartitions() {
		if p.GetState() != "owned" || p.GetProblem() != "" {
			out = append(out, Finding{"partition " + p.GetPartition(), findFail, p.GetState() + ": " + p.GetProblem(),
				"see the server's log; nothing of this partition is served until it is looked at"})
		}
		if p.GetNotice() != "" {
			out = append(out, Finding{"partition " + p.GetPartition(), findWarn, p.GetNotice(),
				"find out who that is; if keys were lost, the claim may be true: see docs/ops/failover.md"})
		}
	}
	return append(out, serverClock(ctx, place.Server)...)
}

// serverClock compares clocks by the header Date, which has whole seconds.
func serverClock(ctx context.Context, server string) []Finding {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/healthz", nil)
	if err != nil {
		return nil
	}
	begin := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return []Finding{{"server clock", findWarn, "can't be asked: " + err.Error(), ""}}
	}
	defer response.Body.Close()
	said, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return []Finding{{"server clock", findWarn, "the server's answer has no date", ""}}
	}
	middle := begin.Add(time.Since(begin) / 2)
	skew := middle.Sub(said.Add(500 * time.Millisecond)).Abs()
	if skew > clockSkew+time.Second {
		return []Finding{{"server clock", findWarn,
			fmt.Sprintf("it is %s away from this machine's", skew.Round(time.Second)),
			"run a time service on both: leases are safe, but the times that people read are not"}}
	}
	return []Finding{ok("server clock", "the same as this machine's")}
}
