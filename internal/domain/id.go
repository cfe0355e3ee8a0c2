package domain

import (
	"fmt"
	"strconv"
	"strings"
)

// Identifier types. The text form is prefix, underscore, 26 characters of lower-case
// Crockford base32 over a UUIDv7, as in the TypeID specification; a job appends its
// index, an attempt its job's index and its own number.
type (
	// TenantID names a tenant. The embedded default has one: DefaultTenant.
	TenantID string
	// RepositoryID names a registered repository ("rep_…").
	RepositoryID string
	// RunID names a run ("run_…").
	RunID string
	// JobID names a job of a run: "job_<run suffix>_<index>".
	JobID string
	// AttemptID names an attempt: "att_<run suffix>_<index>_<number>".
	AttemptID string
	// RunnerID names a registered runner ("rnr_…").
	RunnerID string
	// SessionID names a runner's session ("ses_…"): an identity, not a connection.
	SessionID string
	// PoolID names a pool. Pools are named by their administrator ("default").
	PoolID string
	// PartitionID names an ordering and ownership domain of streams.
	PartitionID string
	// StreamID names a stream: "<kind>/<id>", as in "run/run_…".
	StreamID string
	// SlotToken names one unit of a runner's capacity that is open, lent or taken:
	// "<runner>/<slot>/<offer number>".
	SlotToken string
)

// DefaultTenant is the tenant of a server that was not told of any other.
const DefaultTenant TenantID = "tnt_default"

// Prefixes of the identifiers that are minted (not derived).
const (
	PrefixRepository = "rep"
	PrefixRun        = "run"
	PrefixRunner     = "rnr"
	PrefixSession    = "ses"
	PrefixToken      = "tok"
	PrefixTrigger    = "trg"
	PrefixRequest    = "req"
	PrefixGroup      = "grp"
)

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// EncodeID writes the text form of an identifier from 16 bytes that sort by time
// (a UUIDv7). The caller brings the bytes, so the pure ring needs no randomness.
func EncodeID(prefix string, id [16]byte) string {
	var out [26]byte
	// 128 bits in 26 characters of 5 bits: the first character carries 3 bits.
	var acc uint32
	bits, at := 0, len(out)
	for i := len(id) - 1; i >= 0; i-- {
		acc |= uint32(id[i]) << bits
		bits += 8
		for bits >= 5 {
			at--
			out[at] = alphabet[acc&31]
			acc >>= 5
			bits -= 5
		}
	}
	out[0] = alphabet[acc&31]
	return prefix + "_" + string(out[:])
}

// ValidID reports whether text is a minted identifier with that prefix.
//
// Trust: text may come from anybody; it is checked in full, so a valid identifier is
// safe in a path, a URL and a log line.
func ValidID(prefix, text string) bool {
	suffix, ok := strings.CutPrefix(text, prefix+"_")
	if !ok || len(suffix) != 26 || suffix[0] > '7' {
		return false
	}
	for _, c := range []byte(suffix) {
		if strings.IndexByte(alphabet, c) < 0 {
			return false
		}
	}
	return true
}

// Job derives the identifier of the job at that index of the plan.
func (r RunID) Job(index int) JobID {
	return JobID(fmt.Sprintf("job_%s_%d", strings.TrimPrefix(string(r), PrefixRun+"_"), index))
}

// Stream is the stream that holds the run's events.
func (r RunID) Stream() StreamID { return StreamID("run/" + string(r)) }

// Stream is the stream that holds the repository's events.
func (r RepositoryID) Stream() StreamID { return StreamID("repository/" + string(r)) }

// Stream is the stream that holds the pool's events.
func (p PoolID) Stream() StreamID { return StreamID("pool/" + string(p)) }

// Partition is the ownership domain of the pool itself: a pool serves many partitions,
// so it has an owner and an epoch of its own.
func (p PoolID) Partition() PartitionID { return PartitionID("pool-" + string(p)) }

// Kind is the part of a stream's name before the slash.
func (s StreamID) Kind() string { kind, _, _ := strings.Cut(string(s), "/"); return kind }

// ID is the part of a stream's name after the slash.
func (s StreamID) ID() string { _, id, _ := strings.Cut(string(s), "/"); return id }

// Attempt derives the identifier of the attempt with that number (from 1).
func (j JobID) Attempt(number int) AttemptID {
	return AttemptID("att_" + strings.TrimPrefix(string(j), "job_") + "_" + strconv.Itoa(number))
}

// Split takes a job identifier apart. ok is false when it is not well formed.
func (j JobID) Split() (run RunID, index int, ok bool) {
	parts := strings.Split(string(j), "_")
	if len(parts) != 3 || parts[0] != "job" || !ValidID(PrefixRun, PrefixRun+"_"+parts[1]) {
		return "", 0, false
	}
	index, ok = ordinal(parts[2], 0)
	return RunID(PrefixRun + "_" + parts[1]), index, ok
}

// Split takes an attempt identifier apart. ok is false when it is not well formed.
func (a AttemptID) Split() (run RunID, job, number int, ok bool) {
	parts := strings.Split(string(a), "_")
	if len(parts) != 4 || parts[0] != "att" || !ValidID(PrefixRun, PrefixRun+"_"+parts[1]) {
		return "", 0, 0, false
	}
	job, ok = ordinal(parts[2], 0)
	if !ok {
		return "", 0, 0, false
	}
	number, ok = ordinal(parts[3], 1)
	return RunID(PrefixRun + "_" + parts[1]), job, number, ok
}

// Job is the job that the attempt belongs to; empty when the identifier is malformed.
func (a AttemptID) Job() JobID {
	run, index, _, ok := a.Split()
	if !ok {
		return ""
	}
	return run.Job(index)
}

// ordinal accepts exactly the form that strconv writes: no sign, no leading zero.
func ordinal(text string, least int) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= least && strconv.Itoa(n) == text
}

// Run is the run that the attempt belongs to; empty when the identifier is malformed.
func (a AttemptID) Run() RunID {
	run, _, _, _ := a.Split()
	return run
}
