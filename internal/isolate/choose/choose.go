// Package choose lists the isolation drivers that there are and picks one.
//
// It is deliberately the only place that knows all drivers; the runner gets them from
// main and knows the port alone.
//
// Invariants: a choice is made by probing, never by the name of a machine or the
// version of a program; a driver that was asked for by name is used or refused, never
// replaced by a weaker one.
//
// Read next: ../isolate.go
package choose

import (
	"context"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/oci"
	"github.com/fairlead-ci/fairlead/internal/isolate/process"
)

// Auto asks for the strongest driver that works here.
const Auto = "auto"

// Drivers lists all drivers, strongest first.
func Drivers() []isolate.Driver { return []isolate.Driver{oci.New(), process.New()} }

// Pick finds the driver for kind, which is a driver's name or Auto. The report's reason
// is a sentence for people.
func Pick(ctx context.Context, kind string) (isolate.Driver, isolate.Report, error) {
	if kind != Auto && kind != isolate.OCI && kind != isolate.Process {
		return nil, isolate.Report{}, fmt.Errorf("pick isolation: %q is not one of auto, oci, process", kind)
	}
	var against error
	for _, d := range Drivers() {
		if kind != Auto && kind != d.Name() {
			continue
		}
		report, err := d.Probe(ctx)
		if err != nil {
			if kind != Auto {
				return nil, isolate.Report{}, err
			}
			against = err
			continue
		}
		if against != nil {
			report.Reason += "; " + against.Error()
		}
		return d, report, nil
	}
	return nil, isolate.Report{}, fmt.Errorf("pick isolation: %w", against)
}
