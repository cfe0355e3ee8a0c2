package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"connectrpc.com/connect/v2"

	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/isolate/choose"
	"github.com/fairlead-ci/fairlead/internal/runner"
)

// startRunner adds a runner to this process. It is an ordinary one: it registers with a
// one-time token and dials the server, so nothing works here that would not work on
// another machine.
func (s *server) startRunner(ctx context.Context) error {
	driver, report, err := choose.Pick(ctx, s.o.Isolation)
	if err != nil {
		return err
	}
	token, err := s.runnerToken(ctx)
	if err != nil {
		return err
	}
	ready := make(chan runner.Ready, 1)
	ended := make(chan error, 1)
	work, cancel := context.WithCancel(ctx)
	config := runner.Config{
		Server:   s.url,
		Token:    token.Reveal(),
		Name:     s.o.RunnerName,
		Data:     filepath.Join(s.o.Data, "runner"),
		Labels:   s.o.Labels,
		Capacity: s.o.Capacity,
		Driver:   driver,
		Report:   report,
		Drivers:  choose.Drivers(),
		Mask:     []string{s.o.Data},
		Version:  s.o.Version,
		Logger:   s.log.With("room", "runner"),
		Ready:    func(r runner.Ready) { ready <- r },
	}
	go func() { ended <- runner.Run(work, config) }()
	s.closing(func() {
		cancel()
		<-ended
	})
	select {
	case r := <-ready:
		fmt.Fprintf(
			s.o.Stderr,
			"Runner %s takes work, isolation %s: %s\n",
			r.Name,
			r.Isolation,
			strings.TrimSuffix(r.Reason, "."),
		)
		return nil
	case err := <-ended:
		ended <- err
		if connect.CodeOf(err) == connect.CodeAlreadyExists {
			return fmt.Errorf("start the runner: the pool has a runner %q, and %s does not hold its identity (as after "+
				"a restore without keys): give this one another name with --runner-name", config.Name, config.Data)
		}
		return fmt.Errorf("start the runner: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runnerToken makes a registration token for the runner in this process. A runner that is
// registered already does not use it, and it expires.
func (s *server) runnerToken(ctx context.Context) (domain.Secret, error) {
	token, digest := credential.NewRegistrationToken()
	_, err := s.engine.Submit(ctx, engine.Envelope{Tenant: domain.DefaultTenant, Partition: defaultPool.Partition(),
		Stream: defaultPool.Stream(), Command: pool.IssueRegistrationToken{
			Cause: domain.Cause{Actor: domain.Actor{Kind: "reactor", ID: "up", Via: "internal"}},
			Token: digest, Expires: s.now().Add(tokenLife)}})
	return token, err
}
