package fault_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/fault"
	"github.com/fairlead-ci/fairlead/internal/runner/spool"
)

// TestSweepOfASpool fails every call of the file system that writing a spool makes. What
// Append promised comes back in order and once; the result is always there in the end.
// Promises: [RNR-10].
func TestSweepOfASpool(t *testing.T) {
	var rows []row
	for _, m := range modes(fault.Before, fault.Full, fault.Torn) {
		t.Run(strings.ReplaceAll(m.String(), " ", "-"), func(t *testing.T) {
			r := row{port: fault.PortSpool, mode: m, by: 1, struck: map[string]int{}}
			begin := time.Now()
			for k := max(*only, 1); ; k++ {
				p := fault.NewPlan(fault.PortSpool, m, k)
				if err := spoolPass(t.TempDir(), p); err != nil {
					r.failed++
					t.Errorf("k=%d, struck %v: %v", k, p.Struck(), err)
				}
				struck := p.Struck()
				if *only > 0 || len(struck) == 0 || r.failed >= 5 {
					break
				}
				r.swept++
				r.struck[struck[0]]++
			}
			r.took = time.Since(begin)
			rows = append(rows, r)
		})
	}
	report(t, rows)
}

func onDisk(path string) (spool.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
}

// frames of the life of an attempt: output small and large, progress between, a result.
func frames() (out []spool.Frame) {
	chunk := uint64(0)
	for i := range 12 {
		size := 100
		if i%3 == 2 {
			size = 900 << 10
		}
		chunk++
		out = append(out, spool.Frame{Kind: spool.KindChunk, Sequence: chunk,
			Payload: bytes.Repeat([]byte{byte(chunk)}, size)})
		if i%4 == 0 {
			out = append(out, spool.Frame{Kind: spool.KindProgress, Sequence: uint64(i/4 + 1), Payload: []byte("progress")})
		}
	}
	return append(out, spool.Frame{Kind: spool.KindResult, Sequence: 1, Payload: []byte("result")})
}

// spoolPass writes all frames, as a supervisor does, and the result again by whoever buries
// the supervisor if it did not go in.
func spoolPass(root string, p *fault.Plan) error {
	dir := filepath.Join(root, "spool")
	var kept []spool.Frame
	w, err := spool.Open(dir, spool.Options{Create: fault.NewFiles(onDisk, p).Create})
	if err != nil && !errors.Is(err, fault.ErrInjected) {
		return err
	}
	all := frames()
	for i := 0; err == nil && i < len(all); i++ {
		switch failed := w.Append(all[i]); {
		case failed == nil:
			kept = append(kept, all[i])
		case !errors.Is(failed, fault.ErrInjected):
			return failed
		}
	}
	if w != nil {
		if err := w.Close(); err != nil {
			return err
		}
	}
	p.Mend()
	result := all[len(all)-1]
	if len(kept) == 0 || kept[len(kept)-1].Kind != spool.KindResult {
		again, err := spool.Open(dir, spool.Options{})
		if err != nil {
			return err
		}
		if err := errors.Join(again.Append(result), again.Close()); err != nil {
			return err
		}
		kept = append(kept, result)
	}
	return compareSpool(dir, kept)
}

func compareSpool(dir string, want []spool.Frame) error {
	r := spool.NewReader(dir)
	defer r.Close()
	for i := 0; ; i++ {
		f, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && i == len(want):
			return nil
		case err != nil:
			return errors.Join(errors.New("frames that were promised are missing"), err)
		case i == len(want):
			return errors.New("there are frames that nobody was promised")
		case f.Kind != want[i].Kind || f.Sequence != want[i].Sequence || !bytes.Equal(f.Payload, want[i].Payload):
			return errors.New("a frame came back as another one")
		}
	}
}
