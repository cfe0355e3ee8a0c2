package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Report is one measurement with everything it has to be read with.
type Report struct {
	Bench   string  `json:"bench"`
	Version string  `json:"version"` // of the program, which is client and server
	Go      string  `json:"go"`
	Machine Machine `json:"machine"`
	Server  Server  `json:"server"`
	// Generator is what asked: this process, and the clients that it started.
	Generator Usage `json:"generator"`
	Disk      Disk  `json:"disk"`
	// Settings say how much of what was asked for.
	Settings map[string]any `json:"settings"`
	Figures  []Figure       `json:"figures"`
	Notes    []string       `json:"notes"`

	// Of a load of many runners.
	JobsPerSecond float64 `json:"jobs_per_second,omitempty"` // committed in the window, by history
	// DrainJobsPerSecond is, of jobs that waited for the first runner, those committed in a second
	// until all had concluded, by history.
	DrainJobsPerSecond float64 `json:"drain_jobs_per_second,omitempty"`

	Dispatch   *Wait    `json:"dispatch_ms,omitempty"` // ready until a runner has verified the manifest
	Lost       *int64   `json:"lost,omitempty"`        // answered or acknowledged, and not in history
	Duplicated *int64   `json:"duplicated,omitempty"`  // executions beyond the first
	Seconds    []Sample `json:"seconds,omitempty"`
}

// Wait is how a wait is distributed, in milliseconds.
type Wait struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

// Server is the process that was measured.
type Server struct {
	Command    string `json:"command"` // up or server
	Version    string `json:"version"` // as it says itself
	Store      string `json:"store"`
	Durability string `json:"durability"`
	Isolation  string `json:"isolation,omitempty"` // of the runner in it
	Usage      Usage  `json:"usage"`               // while it was measured

	// Of a load of many runners, for each job that was committed.
	CPUPerJob   float64 `json:"cpu_us_per_job,omitempty"`
	BytesPerJob float64 `json:"bytes_per_job,omitempty"` // that the store keeps
	RSS         int64   `json:"rss_bytes,omitempty"`     // at the end of the window
}

// Disk is the time of a write and sync of 4 KiB in the server's folder.
type Disk struct {
	Before *Spread `json:"fsync_before"`
	After  *Spread `json:"fsync_after"`
}

// Figure is one measured thing: a value, or a spread of times.
type Figure struct {
	Name   string  `json:"name"`
	About  string  `json:"about"`
	Value  float64 `json:"value"` // of a spread: its median
	Unit   string  `json:"unit"`
	Aim    float64 `json:"aim,omitempty"` // what we want it to be, for the median of a spread
	Spread *Spread `json:"spread,omitempty"`
	Wait   *Wait   `json:"wait,omitempty"` // where another process counted
}

// line is a figure by itself.
func (f *Figure) line() string {
	if s := f.Spread; s != nil {
		return fmt.Sprintf("%s: p50 %s ms, p99 %s ms, at most %s ms (%d)", f.Name, number(s.P50), number(s.P99),
			number(s.Max), s.Count)
	}
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s", f.Name, number(f.Value), f.Unit))
}

func (r *Report) spread(name, about string, t *times) {
	if s := t.spread(); s.Count > 0 {
		r.Figures = append(r.Figures, Figure{Name: name, About: about, Value: s.P50, Unit: "ms", Spread: s})
	}
}

func (r *Report) value(name, about string, value float64, unit string) {
	r.Figures = append(r.Figures, Figure{Name: name, About: about, Value: value, Unit: unit})
}

// wait adds a wait that another process has counted.
func (r *Report) wait(name, about string, w *Wait) {
	if w.Count > 0 {
		r.Figures = append(r.Figures, Figure{Name: name, About: about, Value: w.P50, Unit: "ms", Wait: w})
	}
}

// aim puts what we want beside the last figure.
func (r *Report) aim(value float64) { r.Figures[len(r.Figures)-1].Aim = value }

// aims is aim, for what the aim is of.
func (r *Report) aims(so bool, value float64) {
	if so {
		r.aim(value)
	}
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

const mebi = 1 << 20

// Write shows the report to people.
func (r *Report) Write(w io.Writer) error {
	var out strings.Builder
	m := r.Machine
	fmt.Fprintf(&out, "fairlead bench %s  (%s, %s, %s)\n\n", r.Bench, r.Version, r.Go, settings(r.Settings))
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")) }
	row(
		"machine",
		fmt.Sprintf("%s, %d cores, %d MiB, %s %s %s", m.CPU, m.Cores, m.MemoryBytes/mebi, m.System, m.Kernel, m.Arch),
	)
	row("", fmt.Sprintf("%s on %s, load %.1f before and %.1f after", m.FileSystem, m.Device, m.LoadBefore, m.LoadAfter))
	row(
		"server",
		fmt.Sprintf("%s %s, store %s: %s", r.Server.Command, r.Server.Version, r.Server.Store, r.Server.Durability),
	)
	if r.Server.Isolation != "" {
		row("", "isolation "+r.Server.Isolation)
	}
	if r.Server.Usage != (Usage{}) { // of a fleet, whose servers are killed, it is not taken
		row("server took", took(r.Server.Usage))
		row("generator took", took(r.Generator))
	}
	_ = table.Flush()
	fmt.Fprintf(&out, "\n%s", r.figures())
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "\nNote: %s\n", note)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (r *Report) figures() string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")+"\t") }
	row("", "p50", "p90", "p99", "max", "n", "", "aim")
	line := func(name string, s *Spread, aim float64) {
		row(name, fmt.Sprintf("%.1f", s.P50), fmt.Sprintf("%.1f", s.P90), fmt.Sprintf("%.1f", s.P99),
			fmt.Sprintf("%.1f", s.Max), fmt.Sprint(s.Count), "ms", amount(aim))
	}
	for _, f := range r.Figures {
		switch {
		case f.Spread != nil:
			line(f.Name, f.Spread, f.Aim)
		case f.Wait != nil:
			row(f.Name, fmt.Sprintf("%.1f", f.Wait.P50), "", fmt.Sprintf("%.1f", f.Wait.P99), fmt.Sprintf("%.1f", f.Wait.Max),
				fmt.Sprint(f.Wait.Count), "ms", amount(f.Aim))
		default:
			row(f.Name, number(f.Value), "", "", "", "", f.Unit, amount(f.Aim))
		}
	}
	if r.Disk.Before != nil {
		line("write+fsync 4 KiB, before", r.Disk.Before, 0)
	}
	if r.Disk.After != nil {
		line("write+fsync 4 KiB, after", r.Disk.After, 0)
	}
	_ = table.Flush()
	return out.String()
}

// took says what a process took, for people.
func took(u Usage) string {
	text := fmt.Sprintf("%.0f MiB in memory (%.0f at most), %.2f s of processor time", float64(u.RSS)/mebi,
		float64(u.RSSPeak)/mebi, u.CPU)
	if u.CPUChildren > 0 {
		text += fmt.Sprintf(", %.2f s in processes it started", u.CPUChildren)
	}
	return text
}

// amount is a number, or nothing where there is none.
func amount(value float64) string {
	if value == 0 {
		return ""
	}
	return number(value)
}

func number(value float64) string {
	if value >= 100 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.1f", value)
}
