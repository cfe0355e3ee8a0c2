package job

import "time"

// Limits of a job where its manifest names none.
const (
	// StepLogBytesDefault: further output of the step is counted and dropped, and a
	// visible line says so.
	StepLogBytesDefault = 128 << 20
	// AttemptLogBytesDefault: the same over all steps.
	AttemptLogBytesDefault = 1 << 30
	// GraceDefault is between asking a job to stop and killing it.
	GraceDefault = 10 * time.Second
	// TimeoutDefault ends a job that names no timeout.
	TimeoutDefault = 6 * time.Hour
)

// Fixed limits.
const (
	// chunkBytesMax is the most that one chunk holds.
	chunkBytesMax = 256 << 10
	// chunkDelay is how long output waits for more before it becomes a chunk. The end of
	// a step does not wait.
	chunkDelay = 50 * time.Millisecond
	// commandLineBytesMax: a line that starts like a workflow command but is longer is
	// output like any other.
	commandLineBytesMax = 1 << 20
	// commandFileBytesMax bounds what a step may write into one command file; more fails
	// the step.
	commandFileBytesMax = 4 << 20
	// outputBytesMax bounds all outputs of a job; more fails the step that exceeds it.
	outputBytesMax = 1 << 20
	// messageBytesMax bounds messages for people.
	messageBytesMax = 1024
	// fetchAttempts and fetchPause: a fetch outlives a restart of the server.
	fetchAttempts = 8
	fetchPause    = 250 * time.Millisecond
	// fetchPatience ends one fetch that gets nowhere.
	fetchPatience = 15 * time.Minute
	// killPatience is how long killing everything may take before that is reported.
	killPatience = 30 * time.Second
	// hashEntriesMax, hashFilesMax and hashBytesMax bound one hashFiles(): what it looks at, what
	// it reads, and how much of that. More fails the step, with the bound.
	hashEntriesMax = 1_000_000
	hashFilesMax   = 100_000
	hashBytesMax   = 8 << 30
	// pipeBytes is asked of the kernel for a step's output pipe: fewer, larger reads.
	pipeBytes = 1 << 20
)
