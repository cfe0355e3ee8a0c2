package bench

import (
	"context"
	"time"
)

// idleAim is what we want an idle `up` to hold in memory, in MiB: 80 MB.
const idleAim = 80e6 / mebi

// Idle measures what `fairlead up` holds and does when nobody asks for anything.
func Idle(ctx context.Context, o Options, of IdleOptions) (*Report, error) {
	settings := map[string]any{"seconds": of.Seconds}
	return measure(ctx, "idle", o, "up", settings, func(ctx context.Context, s *stage) error {
		s.progress("waiting for %d s", of.Seconds)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		most := int64(0)
		for range of.Seconds {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			now, err := usageOf(s.server.pid())
			if err != nil {
				return err
			}
			most = max(most, now.RSS)
		}
		if err := s.end(); err != nil {
			return err
		}
		u, r := s.report.Server.Usage, s.report
		r.value("resident memory", "RSS of the process at the end", float64(u.RSS)/mebi, "MiB")
		r.aim(idleAim)
		r.value("most of all seconds", "the highest RSS of the samples", float64(most)/mebi, "MiB")
		r.value("peak since its start", "VmHWM", float64(u.RSSPeak)/mebi, "MiB")
		r.value("of it anonymous", "heap and stacks; the rest is the program's own file", float64(u.Anonymous)/mebi, "MiB")
		helpers, private, err := familyOf(s.server.pid())
		if err != nil {
			return err
		}
		r.value("further processes", "that it keeps ready", float64(helpers), "")
		r.value("their own memory", "what would be free without them", float64(private)/mebi, "MiB")
		r.value("processor", "share of one core", 100*u.CPU/float64(of.Seconds), "%")
		r.value("written to disk", "bytes handed to the disk", float64(u.Written)/1024/float64(of.Seconds)*60, "KiB/min")
		r.value("threads", "", float64(u.Threads), "")
		return nil
	})
}
