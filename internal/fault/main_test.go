package fault_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/fault"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
	"github.com/fairlead-ci/fairlead/internal/isolate/process"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// gcPercent trades memory for time: a pass makes much and keeps nothing.
const gcPercent = 400

// planVariable tells a supervisor, which is this program in a process of its own, what fails
// in its sandbox, and which file is to say what did.
const planVariable = "FAIRLEAD_FAULT_PLAN"

func TestMain(m *testing.M) {
	inside.Maybe()
	supervisor.Maybe([]isolate.Driver{fault.NewDriver(process.New(), inherited())})
	debug.SetGCPercent(gcPercent)
	os.Exit(m.Run())
}

// inherited is the plan that the parent process gave.
func inherited() *fault.Plan {
	var how, told string
	var lasting bool
	var k int
	if n, err := fmt.Sscan(os.Getenv(planVariable), &how, &lasting, &k, &told); n != 4 || err != nil {
		return nil
	}
	plan := fault.NewPlan(fault.PortSandbox, fault.Mode{How: fault.How(how), Lasting: lasting}, k)
	plan.Tell(func(op string) {
		f, err := os.OpenFile(told, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintln(f, op)
		_ = f.Close()
	})
	return plan
}
