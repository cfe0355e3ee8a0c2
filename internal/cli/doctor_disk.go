package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	diskFailBytes = 256 << 20 // less than this and the first run may not be recorded
	diskWarnBytes = 5 << 30
	syncTries     = 25
	syncSlow      = 20 * time.Millisecond // at the median; every accepted write waits for one
	clockSkew     = 2 * time.Second
)

// checkDisk tries the data folder's disk: its space, what a durable write costs there, and
// whether its clock is this machine's.
func (a *app) checkDisk(context.Context) []Finding {
	folder, err := a.dataFolder()
	if err != nil {
		return []Finding{{"data folder", findFail, err.Error(), "give --data, or set FAIRLEAD_DATA"}}
	}
	at, exists, err := nearest(folder)
	if err != nil {
		return []Finding{{"data folder", findFail, err.Error(), "give a folder that can be reached with --data"}}
	}
	text := folder
	if !exists {
		text += " (it will be made)"
	}
	return append([]Finding{ok("data folder", "%s", text), space(at)}, durable(at)...)
}

// nearest is the folder itself, or the nearest one above that exists.
func nearest(folder string) (at string, exists bool, err error) {
	for at = folder; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return "", false, fmt.Errorf("%s is not a folder", at)
		case err == nil:
			return at, at == folder, nil
		case !errors.Is(err, fs.ErrNotExist) || filepath.Dir(at) == at:
			return "", false, err
		}
	}
}

func space(at string) Finding {
	var stat unix.Statfs_t
	if err := unix.Statfs(at, &stat); err != nil {
		return Finding{"disk space", findWarn, "can't be asked: " + err.Error(), ""}
	}
	free := stat.Bavail * uint64(stat.Bsize)
	text := fmt.Sprintf("%.1f GiB free, %.1f GiB in all", float64(free)/(1<<30),
		float64(stat.Blocks)*float64(stat.Bsize)/(1<<30))
	switch {
	case free < diskFailBytes:
		return Finding{"disk space", findFail, text, "free some: nothing can be recorded durably on a full disk"}
	case free < diskWarnBytes:
		return Finding{"disk space", findWarn, text, "logs and objects grow; give it more room"}
	}
	return ok("disk space", "%s", text)
}

// durable writes and syncs a small file as often as it takes for a median.
func durable(at string) []Finding {
	file, err := os.CreateTemp(at, ".fairlead-doctor-*")
	if err != nil {
		return []Finding{{"durable writes", findFail, "the data folder can't be written: " + err.Error(),
			"give a folder of yours with --data"}}
	}
	defer os.Remove(file.Name())
	defer file.Close()
	var took []time.Duration
	block := make([]byte, 4096)
	for range syncTries {
		begin := time.Now()
		_, err := file.Write(block)
		if err = errors.Join(err, file.Sync()); err != nil {
			return []Finding{{"durable writes", findFail, "a synced write failed: " + err.Error(),
				"look at the disk before trusting it with results"}}
		}
		took = append(took, time.Since(begin))
	}
	written := time.Now()
	slices.Sort(took)
	median, worst := took[len(took)/2], took[len(took)-1]
	text := fmt.Sprintf("median %s, worst %s of %d synced writes", round(median), round(worst), syncTries)
	sync := ok("durable writes", "%s", text)
	if median > syncSlow {
		sync = Finding{"durable writes", findWarn, text,
			"every accepted request waits for one: use a disk that syncs faster"}
	}
	clock := ok("clock", "%s, the same as the disk's", written.UTC().Format(time.RFC3339))
	if at, err := file.Stat(); err == nil {
		if skew := written.Sub(at.ModTime()).Abs(); skew > clockSkew {
			clock = Finding{"clock", findWarn,
				fmt.Sprintf("the file system's clock is %s away from this machine's", round(skew)),
				"run a time service (chrony or systemd-timesyncd) on both"}
		}
	}
	if written.Year() < 2025 {
		clock = Finding{"clock", findFail, "this machine says it is " + written.UTC().Format(time.RFC3339),
			"set the clock, and run a time service"}
	}
	return []Finding{sync, clock}
}

func round(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}
