package crash

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"
)

// Store is where the server keeps its events.
type Store string

// Stores.
const (
	SQLite     Store = "sqlite"
	PostgreSQL Store = "postgres"
)

// Act is what is done to a target.
type Act string

// Acts.
const (
	Kill Act = "kill" // SIGKILL; started again after Length
	Stop Act = "stop" // SIGSTOP; SIGCONT after Length
	Part Act = "part" // the network; healed after Length
)

// Target is what is taken away.
type Target string

// Targets. A machine is a runner with everything it started; a process is any one of them
// but the runner; a backend is one session of the database.
const (
	OfServer   Target = "server"
	OfRunner   Target = "runner"
	OfMachine  Target = "machine"
	OfProcess  Target = "process"
	OfDatabase Target = "database"
	OfBackend  Target = "backend"
	OfClients  Target = "clients" // only parted: the way from clients to a server
	OfPeers    Target = "peers"   // only parted: the way from the other servers to a server
)

// Fault is one thing that is taken away for a while.
type Fault struct {
	Act    Act
	Target Target
	Index  int     // of the server or the runner
	How    passage // of Part
	Length time.Duration
}

// String is the fault as the schedule prints it.
func (f Fault) String() string {
	text := fmt.Sprintf("%s %s/%d for %s", f.Act, f.Target, f.Index, f.Length)
	if f.How != "" {
		text += " (" + string(f.How) + ")"
	}
	return text
}

// Episode is one or two faults that begin together, and the quiet after them.
type Episode struct {
	Faults []Fault
	Quiet  time.Duration
}

// Yard says what there is to take away.
type Yard struct {
	Store            Store
	Servers, Runners int
	Lease            time.Duration // of runners: what is away for longer counts as lost
}

// Schedule gives the episodes of a seed, without end. The same seed gives the same ones.
func Schedule(seed uint64, y Yard) iter.Seq[Episode] {
	random := rand.New(rand.NewPCG(seed, 0x63726173))
	return func(yield func(Episode) bool) {
		for {
			e := Episode{Faults: []Fault{y.fault(random)}, Quiet: between(random, 300*time.Millisecond, 3*time.Second)}
			if random.IntN(4) == 0 {
				if second := y.fault(random); !together(e.Faults[0], second) {
					e.Faults = append(e.Faults, second)
				}
			}
			if !yield(e) {
				return
			}
		}
	}
}

// together reports faults that can't begin at once: of the same thing, or of a machine and
// what it holds.
func together(a, b Fault) bool {
	if a.Target == b.Target && a.Index == b.Index {
		return true
	}
	machine := func(t Target) bool { return t == OfRunner || t == OfMachine || t == OfProcess }
	database := func(t Target) bool { return t == OfDatabase || t == OfBackend }
	return machine(a.Target) && machine(b.Target) && a.Index == b.Index || database(a.Target) && database(b.Target)
}

// fault draws one. Servers come first, because most is decided there.
func (y Yard) fault(random *rand.Rand) Fault {
	database := y.Store == PostgreSQL
	switch n := random.IntN(100); {
	case n < 66:
		return y.kill(random, database)
	case n < 83:
		return y.stop(random, database)
	}
	return y.part(random, database)
}

func (y Yard) kill(random *rand.Rand, database bool) Fault {
	f := Fault{Act: Kill, Target: OfServer, Index: random.IntN(y.Servers)}
	switch n := random.IntN(100); {
	case n < 30:
	case n < 55:
		f.Target, f.Index = OfRunner, random.IntN(y.Runners)
	case n < 70:
		f.Target, f.Index = OfMachine, random.IntN(y.Runners)
	case n < 78:
		f.Target, f.Index = OfProcess, random.IntN(y.Runners)
	case n < 90 && database:
		f.Target, f.Index = OfDatabase, 0
	case database:
		f.Target, f.Index = OfBackend, 0
	}
	f.Length = between(random, 20*time.Millisecond, 1500*time.Millisecond)
	if random.IntN(3) == 0 { // long enough for leases to run out
		f.Length = between(random, y.Lease, 3*y.Lease)
	}
	return f
}

func (y Yard) stop(random *rand.Rand, database bool) Fault {
	f := Fault{Act: Stop, Target: OfServer, Index: random.IntN(y.Servers)}
	switch n := random.IntN(100); {
	case n < 30:
	case n < 55:
		f.Target, f.Index = OfRunner, random.IntN(y.Runners)
	case n < 80:
		f.Target, f.Index = OfMachine, random.IntN(y.Runners)
	case database:
		f.Target, f.Index = OfDatabase, 0
	}
	f.Length = between(random, y.Lease/2, 3*y.Lease)
	return f
}

func (y Yard) part(random *rand.Rand, database bool) Fault {
	f := Fault{Act: Part, Target: OfClients, Index: random.IntN(y.Servers)}
	switch n := random.IntN(100); {
	case n < 30:
	case n < 45 && y.Servers > 1:
		f.Target = OfPeers
	case n < 65 || !database:
		f.Target, f.Index = OfRunner, random.IntN(y.Runners)
	default:
		f.Target = OfDatabase
	}
	f.How = []passage{hold, swallow, deafen, cut, half}[random.IntN(5)]
	f.Length = between(random, 200*time.Millisecond, 3*y.Lease)
	return f
}

func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return (from + time.Duration(random.Int64N(int64(to-from)))).Round(time.Millisecond)
}
