package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fairlead-ci/fairlead/internal/bench"
)

// Keys of rows.
const (
	riverClosedDefault = "closed_loop_river_default"
	riverClosed        = "closed_loop_river"
	riverClosedTen     = "closed_loop_river_ten"
	fairleadClosed     = "closed_loop_fairlead"
	fairleadClosedOne  = "closed_loop_fairlead_one"
	riverClosedFew     = "closed_loop_river_few"
	fairleadClosedFew  = "closed_loop_fairlead_few"
	riverDrainDefault  = "drain_river_default"
	riverDrain         = "drain_river"
	fairleadDrain      = "drain_fairlead"
)

// Report is a comparison with everything that it has to be read with.
type Report struct {
	Fairlead   string            `json:"fairlead"` // version
	River      string            `json:"river"`    // version
	Go         string            `json:"go"`
	PostgreSQL map[string]string `json:"postgresql"`
	Machine    bench.Machine     `json:"machine"`
	Disk       bench.Disk        `json:"disk"`
	Rows       []Row             `json:"rows"`
	Ratios     []Ratio           `json:"ratios"`
	Notes      []string          `json:"notes"`
}

// Row is one measurement of one side.
type Row struct {
	Key           string         `json:"key"`
	Name          string         `json:"name"`
	JobsPerSecond float64        `json:"jobs_per_second"`
	Jobs          int64          `json:"jobs"` // that the wait is of
	Wait          *Wait          `json:"wait_ms"`
	Settings      map[string]any `json:"settings"`
	Disk          *bench.Disk    `json:"disk,omitempty"` // around this row alone
}

// Wait is, of River, from the insertion to the start of a job; of Fairlead, from ready to a
// verified manifest.
type Wait struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Ratio is what Fairlead does in a second by what River does.
type Ratio struct {
	Name  string  `json:"name"`
	Of    string  `json:"of"` // keys of rows
	By    string  `json:"by"`
	Value float64 `json:"value"`
	Aim   float64 `json:"aim,omitempty"`
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *Report) row(key string) Row {
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Key == key })
	if i < 0 {
		return Row{}
	}
	return r.Rows[i]
}

// compare makes the ratios. One with an aim is to the faster of River's two settings.
func (r *Report) compare() {
	faster := func(a, b string) string {
		if r.row(a).JobsPerSecond > r.row(b).JobsPerSecond {
			return a
		}
		return b
	}
	closed, drain := faster(riverClosedDefault, riverClosed), faster(riverDrainDefault, riverDrain)
	for _, ratio := range []Ratio{
		{Name: "closed loop: runs of ten jobs by single jobs", Of: fairleadClosed, By: closed, Aim: closedAim},
		{Name: "closed loop: one job in a request by one", Of: fairleadClosedOne, By: closed},
		{Name: "closed loop: ten jobs in a request by ten", Of: fairleadClosed, By: riverClosedTen},
		{Name: "closed loop: runs of ten jobs by River's defaults", Of: fairleadClosed, By: riverClosedDefault},
		{Name: "closed loop: one job in a request, few under way", Of: fairleadClosedFew, By: riverClosedFew},
		{Name: "drain", Of: fairleadDrain, By: drain, Aim: drainAim},
		{Name: "drain by River's defaults", Of: fairleadDrain, By: riverDrainDefault},
	} {
		of, by := r.row(ratio.Of).JobsPerSecond, r.row(ratio.By).JobsPerSecond
		if of == 0 || by == 0 {
			continue // not asked for
		}
		ratio.Value = of / by
		r.Ratios = append(r.Ratios, ratio)
	}
	if m := r.Machine; max(m.LoadBefore, m.LoadAfter) > float64(m.Cores) {
		r.note("load %.1f before and %.1f after on %d cores, this comparison's own included: where others had a share of "+
			"the machine, it was not the same for every row", m.LoadBefore, m.LoadAfter, m.Cores)
	}
	r.note("every job of both sides was completed exactly once, by River's table and by Fairlead's history")
}

// Write shows the report to people.
func (r *Report) Write(w io.Writer) error {
	var out strings.Builder
	m := r.Machine
	fmt.Fprintf(&out, "Fairlead %s beside River %s, %s, PostgreSQL %s\n", r.Fairlead, r.River, r.Go,
		r.PostgreSQL["server_version"])
	fmt.Fprintf(&out, "%s, %d cores, %d MiB, %s %s, %s on %s, load %.1f before and %.1f after\n", m.CPU, m.Cores,
		m.MemoryBytes>>20, m.System, m.Kernel, m.FileSystem, m.Device, m.LoadBefore, m.LoadAfter)
	fmt.Fprintf(&out, "PostgreSQL: %s\n\n", pairs(r.PostgreSQL))
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")+"\t") }
	line("", "", "jobs/s", "wait p50", "p99 ms")
	for _, row := range r.Rows {
		kind := "closed loop"
		if strings.HasPrefix(row.Key, "drain") {
			kind = "drain"
		}
		line(kind, row.Name, fmt.Sprintf("%.0f", row.JobsPerSecond), fmt.Sprintf("%.1f", row.Wait.P50),
			fmt.Sprintf("%.1f", row.Wait.P99))
	}
	for _, d := range []struct {
		when   string
		spread *bench.Spread
	}{{"before", r.Disk.Before}, {"after", r.Disk.After}} {
		if d.spread != nil {
			line("", "write+fsync 4 KiB, "+d.when, "", fmt.Sprintf("%.1f", d.spread.P50),
				fmt.Sprintf("%.1f", d.spread.P99))
		}
	}
	_ = table.Flush()
	out.WriteString("\n")
	table = tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line("Fairlead by River", "ratio", "aim")
	for _, ratio := range r.Ratios {
		aim := ""
		if ratio.Aim > 0 {
			aim = fmt.Sprintf("%.1f", ratio.Aim)
		}
		line(ratio.Name, fmt.Sprintf("%.2f", ratio.Value), aim)
	}
	_ = table.Flush()
	out.WriteString("\n")
	for _, row := range r.Rows {
		fmt.Fprintf(&out, "%s: %s\n", row.Key, pairs(row.Settings))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "\nNote: %s\n", note)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// pairs writes settings in the order of their names.
func pairs[V any](of map[string]V) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%s %v", name, of[name]))
	}
	return strings.Join(out, ", ")
}
