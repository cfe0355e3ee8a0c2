package fault_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// gcPercent trades memory for time: a pass makes much and keeps nothing.
const gcPercent = 400

func TestMain(m *testing.M) {
	debug.SetGCPercent(gcPercent)
	os.Exit(m.Run())
}
