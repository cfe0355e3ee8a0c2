package fault

import (
	"syscall"

	"github.com/fairlead-ci/fairlead/internal/runner/spool"
)

// Files makes the files of a spool. A write can also be torn: half of its bytes are there.
type Files struct {
	create func(path string) (spool.File, error)
	gate   gate
}

// NewFiles wraps what creates a spool's files.
func NewFiles(create func(path string) (spool.File, error), plan *Plan) *Files {
	return &Files{create, gate{plan, PortSpool, func(_ string, how How) error {
		if how == Full || how == Torn {
			return syscall.ENOSPC
		}
		return syscall.EIO
	}}}
}

// Create is spool.Options.Create.
func (f *Files) Create(path string) (spool.File, error) {
	made, err := ask(f.gate, Call{"create", []How{Before, Full}}, func() (spool.File, error) { return f.create(path) })
	if err != nil {
		return nil, err
	}
	return &file{made, f.gate}, nil
}

type file struct {
	spool.File
	gate gate
}

// Write implements spool.File.
func (f *file) Write(p []byte) (int, error) {
	if !f.gate.plan.strikes(f.gate.port, Call{"write", []How{Before, Full, Torn}}) {
		return f.File.Write(p)
	}
	n := 0
	if f.gate.plan.mode.How == Torn {
		n, _ = f.File.Write(p[:len(p)/2])
	}
	return n, f.gate.err("write")
}

// Truncate implements spool.File.
func (f *file) Truncate(size int64) error {
	return f.gate.do(reads("truncate"), func() error { return f.File.Truncate(size) })
}
