package sim

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// fault is a kind of thing that goes wrong.
type fault string

// Faults, by what they strike.
const (
	appendFails    fault = "append-fails"      // refused before the commit
	appendUnknown  fault = "append-unknown"    // committed, and the reply lost
	appendLost     fault = "append-lost"       // not committed, and nobody knows
	appendLate     fault = "append-late"       // the reply is lost, the commit comes later
	appendFull     fault = "append-full"       // no space for a while
	appendBroken   fault = "append-broken"     // the store can't be trusted: the process must end
	appendDies     fault = "append-dies"       // the server dies before the append leaves
	appendDiesDone fault = "append-dies-done"  // the server dies after the commit, before the reply
	takeUnknown    fault = "take-unknown"      // ownership taken, and the reply lost
	storeReadFails fault = "store-read-fails"  // a lookup fails
	storeSlow      fault = "store-slow"        // an operation takes seconds
	storeAway      fault = "store-away"        // nobody reaches the store for a while
	putFails       fault = "put-fails"         // an object was not stored
	putUnknown     fault = "put-unknown"       // stored, and the reply lost
	putLate        fault = "put-late"          // failed for its caller, stored later
	putFull        fault = "put-full"          // no space for a while
	putDies        fault = "put-dies"          // the server dies around a put
	objectFails    fault = "object-read-fails" // a read, list or delete of objects fails
	objectSlow     fault = "object-slow"       // an operation takes seconds
	netDrop        fault = "net-drop"          // a message is lost
	netTwice       fault = "net-twice"         // a request arrives twice
	netSlow        fault = "net-slow"          // a message takes seconds
	netCut         fault = "net-cut"           // two that don't hear each other for a while
	serverDies     fault = "server-dies"       // memory lost, store kept
	serverStops    fault = "server-stops"      // frozen, and wakes up later
	serverDrains   fault = "server-drains"     // asked to end: gives away what it owns
	clockJumps     fault = "clock-jumps"       // a wall clock is set
	runnerDies     fault = "runner-dies"       // the agent; its supervisors go on
	machineDies    fault = "machine-dies"      // agent, supervisors and jobs
	runnerStops    fault = "runner-stops"      // the machine is frozen, and wakes up later
	runnerVanishes fault = "runner-vanishes"   // and never comes back
	supervisorDies fault = "supervisor-dies"   // without a result
	supervisorHang fault = "supervisor-hangs"  // the job goes on, whatever it is told
	spawnFails     fault = "spawn-fails"       // a supervisor can't be started
	sourceAway     fault = "source-away"       // the source system does not answer
	hookLost       fault = "hook-lost"         // nobody tells of a push
	liarSpeaks     fault = "liar-speaks"       // a runner says what is not so
	storeClockSet  fault = "store-clock-set"   // the clock by which all servers go
	leaderStrands  fault = "leader-strands"    // the pool's leader and its runners hear only each other
)

// laterFaults draw from streams of their own, so that the worlds of older seeds keep their
// draws.
func laterFaults() map[fault]odds {
	return map[fault]odds{supervisorHang: {0.01, 0.25}, leaderStrands: {0.5, 4},
		storeClockSet: {0.5, 10}}
}

// odds are the range from which a fault's probability is drawn, for each occasion to have
// it. What has no occasion of its own happens per minute.
type odds struct{ low, high float64 }

func faultOdds() []struct {
	fault fault
	odds  odds
} {
	return []struct {
		fault fault
		odds  odds
	}{
		{appendFails, odds{0.002, 0.1}}, {appendUnknown, odds{0.002, 0.1}}, {appendLost, odds{0.002, 0.1}},
		{appendLate, odds{0.002, 0.05}}, {appendFull, odds{0.0005, 0.01}}, {appendBroken, odds{0.0005, 0.01}},
		{appendDies, odds{0.0005, 0.02}}, {appendDiesDone, odds{0.0005, 0.02}}, {storeReadFails, odds{0.002, 0.1}},
		{takeUnknown, odds{0.02, 0.3}},
		{storeSlow, odds{0.001, 0.02}}, {storeAway, odds{0.02, 0.3}}, {putFails, odds{0.005, 0.2}},
		{putUnknown, odds{0.005, 0.2}}, {putLate, odds{0.005, 0.1}}, {putFull, odds{0.001, 0.02}},
		{putDies, odds{0.001, 0.03}}, {objectFails, odds{0.002, 0.1}}, {objectSlow, odds{0.001, 0.03}},
		{netDrop, odds{0.002, 0.2}}, {netTwice, odds{0.005, 0.2}}, {netSlow, odds{0.005, 0.2}}, {netCut, odds{0.1, 2}},
		{serverDies, odds{0.05, 1}}, {serverStops, odds{0.05, 1}}, {serverDrains, odds{0.05, 0.5}},
		{clockJumps, odds{0.05, 1}}, {runnerDies, odds{0.05, 1}}, {machineDies, odds{0.02, 0.5}},
		{runnerStops, odds{0.05, 1}}, {runnerVanishes, odds{0.01, 0.1}}, {supervisorDies, odds{0.005, 0.2}},
		{spawnFails, odds{0.005, 0.1}}, {sourceAway, odds{0.01, 0.3}}, {hookLost, odds{0.05, 0.5}},
		{liarSpeaks, odds{0.2, 6}},
	}
}

// swarm is what one seed drew: worlds that differ in which faults they have find more than
// worlds that all have a little of everything.
type swarm struct {
	odds map[fault]float64

	servers, partitions, runners, clients, runs int
	phase                                       time.Duration // how long faults go on
	lease, abandon, poll, grace                 time.Duration
	member                                      time.Duration // of the servers' leases
	look                                        time.Duration // at the positions of followed partitions
	latency                                     time.Duration // usual way of a message
	skew                                        time.Duration // of wall clocks, at most
	drift                                       float64       // of monotonic clocks, at most
	inline                                      float64       // how often an operation takes no time
	failing                                     float64       // how often a job fails by itself
	effectful                                   float64       // share of jobs that change the outside
	scheduled                                   float64       // share of workflows that start by the clock
	chatty                                      int           // chunks of a step, at most
	long                                        time.Duration // of a step, at most
	liars                                       int
	room                                        int  // open jobs of a repository; 0: no bound
	paranoid                                    bool // the product checks itself after every command
}

// stream gives a random source of its own to each purpose, so that taking one fault away
// leaves the draws of all others as they were.
func stream(seed uint64, purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(r.Int64N(int64(high-low)))
}

// spread draws evenly by orders of magnitude.
func spread(r *rand.Rand, low, high float64) float64 {
	return math.Exp(math.Log(low) + r.Float64()*(math.Log(high)-math.Log(low)))
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// draw makes the swarm of a seed.
func draw(seed uint64, trim Trim) swarm {
	r := stream(seed, "swarm")
	s := swarm{odds: map[fault]float64{}}
	calm := r.Float64() < 0.05 // a world in which nothing fails must work as well
	for _, f := range faultOdds() {
		on, p := r.Float64() < 0.5, spread(r, f.odds.low, f.odds.high)
		if on && !calm && !trim.off(f.fault) {
			s.odds[f.fault] = p
		}
	}
	for f, o := range laterFaults() {
		own := stream(seed, "swarm/"+string(f))
		on, p := own.Float64() < 0.5, spread(own, o.low, o.high)
		if on && !calm && !trim.off(f) {
			s.odds[f] = p
		}
	}
	s.servers, s.partitions = pick(r, 3, 3, 4, 5), pick(r, 3, 3, 4)
	s.runners, s.clients = 3+r.IntN(4), 2+r.IntN(3)
	s.runs = 4 + r.IntN(9)
	s.phase = between(r, 30*time.Second, 150*time.Second)
	s.lease = pick(r, 3*time.Second, 10*time.Second, 10*time.Second, 30*time.Second)
	s.abandon = s.lease * time.Duration(pick(r, 2, 2, 3))
	s.poll = pick(r, 5*time.Second, 45*time.Second)
	s.grace = pick(r, 2*time.Second, 10*time.Second)
	s.member = pick(r, 2*time.Second, 4*time.Second, 8*time.Second)
	s.look = pick(r, 250*time.Millisecond, 2*time.Second, 4*time.Second)
	s.latency = time.Duration(spread(r, 0.2, 50) * float64(time.Millisecond))
	s.skew = pick(r, 0, 50*time.Millisecond, 5*time.Second, 2*time.Minute)
	s.inline = pick(r, 0.2, 0.6, 0.9)
	s.failing = pick(r, 0.05, 0.2, 0.5)
	s.effectful = pick(r, 0.1, 0.3, 0.8)
	s.scheduled = pick(stream(seed, "scheduled"), 0, 0, 0.3, 0.9)
	s.chatty = pick(r, 1, 4, 12)
	s.long = pick(r, 2*time.Second, 10*time.Second, 45*time.Second)
	if s.odds[liarSpeaks] > 0 {
		s.liars = 1
	}
	s.paranoid = stream(seed, "paranoid").IntN(2) == 0
	s.room = pick(stream(seed, "room"), 0, 0, 0, 6)
	s.drift = pick(stream(seed, "drift"), 0, 0, 1e-4, 1e-2)
	trim.shrink(&s)
	return s
}
