package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/backup"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/tally"
	"github.com/fairlead-ci/fairlead/internal/verify"
)

// What the operator's commands say to people. --json says the same and more.

func textOfBackup(folder string, m *backup.Manifest) string {
	var out strings.Builder
	c := &m.Counts
	fmt.Fprintf(&out, "Backup %s of %s\n", folder, m.At.Local().Format("2006-01-02 15:04:05"))
	fmt.Fprintf(&out, "  %d records, %d objects, %d mirrors, %d keys and credentials; %s", c.Rows, c.Objects, c.Mirrors,
		c.Secrets, size(m.Records.Bytes+m.List.Bytes+c.FileBytes))
	if m.Base != "" {
		fmt.Fprintf(&out, ", of which %s are new", size(m.Records.Bytes+m.List.Bytes+c.NewBytes))
	}
	out.WriteString("\n")
	if c.RemovedLogs > 0 {
		fmt.Fprintf(&out, "  %d logs are not in it: the server had removed them, because they are not kept so long\n",
			c.RemovedLogs)
	}
	if m.Secrets {
		out.WriteString("  It holds keys: keep it as you keep the server itself.\n")
	} else {
		out.WriteString("  Keys are not in it (--keys).\n")
	}
	damage(&out, m.Damage, "what the server keeps is damaged; everything else was saved")
	return out.String()
}

func textOfManifest(folder string, m *backup.Manifest) string {
	return "Every byte is as it was written.\n" + textOfBackup(folder, m)
}

func textOfRestore(folder string, r *backup.Restored) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Restored %s into %s\n", r.Manifest.At.Local().Format("2006-01-02 15:04:05"), folder)
	for _, l := range r.Losses {
		fmt.Fprintf(&out, "  partition %s ends at position %d; its next owner has an epoch beyond %d\n", l.Partition,
			l.Held, l.Epoch)
	}
	if !r.Secrets {
		out.WriteString("  There are no keys in it: the server makes new ones at its start.\n")
	}
	damage(&out, r.Manifest.Damage, "not in the backup")
	damage(&out, r.Derived.Findings, "not made anew")
	out.WriteString(textOfReport(r.Report))
	return out.String()
}

func textOfReport(r *verify.Report) string {
	var out strings.Builder
	fmt.Fprintf(&out,
		"Examined %d rows of history, %d streams with %d events, %d objects and %d logs (%s), %d keys in %s\n",
		r.Rows, r.Streams, r.Events, r.Objects, r.Logs, size(r.Bytes), r.Keys, r.Took.Round(time.Millisecond))
	if r.Removed > 0 {
		fmt.Fprintf(&out, "  %d of these logs were removed, because logs of their class are not kept so long\n", r.Removed)
	}
	for _, text := range r.NotExamined {
		fmt.Fprintf(&out, "  not examined: %s\n", text)
	}
	damage(&out, r.Findings, "damaged")
	if r.More > 0 {
		fmt.Fprintf(&out, "  and %d more\n", r.More)
	}
	if !r.Damaged() {
		out.WriteString("Nothing is damaged.\n")
	}
	return out.String()
}

func textOfRebuilt(r *verify.Rebuilt) string {
	var out strings.Builder
	var lists []string
	for table, n := range r.Lists {
		lists = append(lists, fmt.Sprintf("%d of %s", n, table))
	}
	slices.Sort(lists)
	fmt.Fprintf(&out, "Looked at %d streams: changed %d heads and list rows (%s), removed %d list rows of nothing, "+
		"dropped %d saved states\n", r.Streams, r.Heads, strings.Join(lists, ", "), r.Orphans, r.Checkpoints)
	damage(&out, r.Findings, "not made anew")
	return out.String()
}

// damage lists findings: code and place on one line, words and the way out below.
func damage(out *strings.Builder, findings []verify.Finding, title string) {
	if len(findings) == 0 {
		return
	}
	fmt.Fprintf(out, "%d %s:\n", len(findings), title)
	for i := range findings {
		f := &findings[i]
		fmt.Fprintf(out, "  %s  %s\n      %s\n      what to do: %s\n", f.Code, printable(f.Place()), printable(f.Text), f.Fix)
	}
}

// printable keeps damaged bytes from acting on a terminal.
func printable(text string) string {
	quoted := fmt.Sprintf("%q", text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

func size(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 10<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d GiB", n>>30)
}

// lossJSON is a record of a loss as --json prints it.
type lossJSON struct {
	Partition string    `json:"partition"`
	Kind      string    `json:"kind"`
	Through   uint64    `json:"through,omitempty"`
	Held      uint64    `json:"held"`
	Epoch     uint64    `json:"epoch"`
	Actor     string    `json:"actor,omitempty"`
	Note      string    `json:"note,omitempty"`
	At        time.Time `json:"at"`
}

func lossLine(l *store.Loss) lossJSON {
	return lossJSON{Partition: string(l.Partition), Kind: l.Kind, Through: uint64(l.Through), Held: uint64(l.Held),
		Epoch: l.Epoch, Actor: l.Actor, Note: l.Note, At: l.At}
}

func textOfLosses(all []lossJSON) string {
	if len(all) == 0 {
		return "No history is on record as lost.\n"
	}
	var out strings.Builder
	for _, l := range all {
		at := l.At.Local().Format("2006-01-02 15:04:05")
		if l.Kind == store.LossRestored {
			fmt.Fprintf(&out, "%s  %s  restored at position %d by %s: %s\n", at, l.Partition, l.Held, printable(l.Actor),
				printable(l.Note))
			continue
		}
		fmt.Fprintf(&out, "%s  %s  accepted up to position %d, with %d held, by %s: %s\n", at, l.Partition, l.Through, l.Held,
			printable(l.Actor), printable(l.Note))
	}
	return out.String()
}

func textOfTally(r *tally.Report) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d runs (%d open), %d attempts, %d jobs concluded; %d events in %d rows, %s\n", r.Runs, r.Open,
		r.Attempts, r.Concluded, r.Events, r.Rows, size(r.Bytes))
	if !r.From.IsZero() || !r.To.IsZero() {
		fmt.Fprintf(&out, "Of them in the window: %d jobs\n", r.Jobs)
	}
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		fmt.Fprintf(&out, "  %s %d\n", outcome, r.Outcomes[outcome])
	}
	for _, w := range []struct {
		name string
		wait *tally.Wait
	}{{"ready until leased", &r.Leased}, {"ready until the runner has the manifest", &r.Got}} {
		if w.wait.Count > 0 {
			fmt.Fprintf(&out, "  %s: p50 %.1f ms, p99 %.1f ms, p99.9 %.1f ms, at most %.1f ms of %d\n", w.name, w.wait.P50,
				w.wait.P99, w.wait.P999, w.wait.Max, w.wait.Count)
		}
	}
	if r.Wrong() {
		fmt.Fprintf(&out, "%d lost, %d executed twice: %s\n", r.Lost, r.Duplicated, strings.Join(r.Names, ", "))
	}
	return out.String()
}
