package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/cli"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/seed"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/postgres"
	"github.com/fairlead-ci/fairlead/internal/store/sqlite"
)

// Seed implements cli.Operator.
func (operator) Seed(ctx context.Context, of cli.Belongings, r cli.SeedRequest) (_ cli.Result, err error) {
	var s store.Store
	if of.Store != "" {
		s, err = postgres.Open(ctx, of.Store, postgres.Options{})
	} else {
		s, err = sqlite.Open(ctx, of.Data, sqlite.Options{})
	}
	if err != nil {
		return cli.Result{}, refusing(err)
	}
	defer func() { _ = s.Close() }()
	kinds := projection.Kinds()
	i := slices.IndexFunc(kinds, func(k *engine.Kind) bool { return k.Name == domain.RunID(r.Like).Stream().Kind() })
	report, err := seed.Run(ctx, seed.Config{Store: s, Kind: kinds[i], Tenant: domain.DefaultTenant,
		Like: domain.RunID(r.Like), Jobs: r.Jobs, Now: time.Now, Progress: of.Progress})
	if err != nil {
		return cli.Result{}, refusing(err)
	}
	return cli.Result{Value: report, Text: fmt.Sprintf("%d runs of %d jobs were written in %d rows\n", report.Runs,
		report.Jobs, report.Rows)}, nil
}
