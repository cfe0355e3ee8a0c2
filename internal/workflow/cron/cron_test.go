package cron

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func parse(t testing.TB, text string) Spec {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return s
}

// list gives what is due from a local time on, as "wall time in UTC" pairs.
func list(t *testing.T, text, in, from string, n int) []string {
	t.Helper()
	z, s := zone(t, in), parse(t, text)
	at, err := time.ParseInLocation("2006-01-02T15:04", from, z)
	if err != nil {
		t.Fatal(err)
	}
	at = at.Add(-time.Second)
	var out []string
	for range n {
		next, ok := s.Next(at, z)
		if !ok {
			return append(out, "never")
		}
		out = append(out, next.ID+" "+next.At.Format("02T15:04"))
		at = next.At
	}
	return out
}

// Promises: [SRC-14].
func TestEachDayHasItsOccurrenceWhenClocksAreSet(t *testing.T) {
	for _, c := range []struct{ name, spec, zone, from, want string }{
		{"S33: the hour that is left out", "30 2 * * *", "America/New_York", "2025-03-08T00:00",
			"2025-03-08T02:30 08T07:30, 2025-03-09T02:30 09T07:00, 2025-03-10T02:30 10T06:30"},
		{"S33: the hour that is repeated", "30 1 * * *", "America/New_York", "2025-11-01T00:00",
			"2025-11-01T01:30 01T05:30, 2025-11-02T01:30 02T05:30, 2025-11-03T01:30 03T06:30"},
		{"several in the gap are due once", "*/15 2 * * *", "Europe/Berlin", "2026-03-29T00:00",
			"2026-03-29T02:00 29T01:00, 2026-03-30T02:00 30T00:00"},
		{"with the hour behind the gap as well", "0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00",
			"2026-03-29T02:00 29T01:00, 2026-03-30T02:00 30T00:00, 2026-03-30T03:00 30T01:00"},
		{"every hour goes on evenly over the gap", "30 * * * *", "Europe/Berlin", "2026-03-29T01:00",
			"2026-03-29T01:30 29T00:30, 2026-03-29T03:30 29T01:30"},
		{"every hour is due in both passes", "30 * * * *", "Europe/Berlin", "2026-10-25T01:00",
			"2026-10-25T01:30 24T23:30, 2026-10-25T02:30 25T00:30, 2026-10-25T02:30+ 25T01:30, 2026-10-25T03:30 25T02:30"},
		{"both passes of an hour go on in time, not by their names", "*/30 * * * *", "Europe/Berlin", "2026-10-25T01:30",
			"2026-10-25T01:30 24T23:30, 2026-10-25T02:00 25T00:00, 2026-10-25T02:30 25T00:30, " +
				"2026-10-25T02:00+ 25T01:00, 2026-10-25T02:30+ 25T01:30, 2026-10-25T03:00 25T02:00"},
		{"half an hour is set in this zone", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00",
			"2026-10-03T02:15 02T15:45, 2026-10-04T02:15 03T15:30, 2026-10-05T02:15 04T15:15"},
		{"a whole day was left out", "0 12 * * *", "Pacific/Apia", "2011-12-29T00:00",
			"2011-12-29T12:00 29T22:00, 2011-12-30T12:00 30T10:00, 2011-12-31T12:00 30T22:00"},
		{"midnight does not exist", "0 0 * * *", "America/Santiago", "2025-09-06T00:00",
			"2025-09-06T00:00 06T04:00, 2025-09-07T00:00 07T04:00, 2025-09-08T00:00 08T03:00"},
		{"zones with other minutes", "0 9 * * *", "Asia/Kathmandu", "2026-01-01T00:00", "2026-01-01T09:00 01T03:15"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.Split(c.want, ", ")
			if got := list(t, c.spec, c.zone, c.from, len(want)); strings.Join(got, ", ") != c.want {
				t.Errorf("%s in %s:\n got %v\nwant %v", c.spec, c.zone, got, want)
			}
		})
	}
}

func TestDays(t *testing.T) {
	for _, c := range []struct{ spec, from, want string }{
		{"0 0 1 JAN MON", "2026-01-01T00:00", // either kind of day is enough
			"2026-01-01T00:00 01T00:00, 2026-01-05T00:00 05T00:00"},
		{"0 0 29 2 *", "2026-01-01T00:00", "2028-02-29T00:00 29T00:00, 2032-02-29T00:00 29T00:00"},
		{"0 0 29 2 *", "2096-03-01T00:00", "2104-02-29T00:00 29T00:00"},
		{"0 0 31 * *", "2026-02-01T00:00", "2026-03-31T00:00 31T00:00, 2026-05-31T00:00 31T00:00"},
		{"0 0 30 2 MON", "2026-02-01T00:00", "2026-02-02T00:00 02T00:00"},
		{"59 23 31 12 *", "2026-12-31T23:59", "2026-12-31T23:59 31T23:59, 2027-12-31T23:59 31T23:59"},
		{"20/15 3 * * SUN-TUE", "2026-11-30T00:00",
			"2026-11-30T03:20 30T03:20, 2026-11-30T03:35 30T03:35, 2026-11-30T03:50 30T03:50, 2026-12-01T03:20 01T03:20"},
	} {
		want := strings.Split(c.want, ", ")
		if got := list(t, c.spec, "UTC", c.from, len(want)); strings.Join(got, ", ") != c.want {
			t.Errorf("%s:\n got %v\nwant %v", c.spec, got, want)
		}
	}
}

func TestTexts(t *testing.T) {
	for _, text := range []string{
		"0 000 001 * *", "2,10 4,5 * * *", "0 4-4 * * *", "28 5,*/4,6-8 * * *", "0 0 * * SUN-2", "0 2-4/5 * * *",
		"0   0  *  *               *", "00 10 * * * ", "\t5 4 * jan-Mar sUn\n", "* * * * *",
	} {
		if _, err := Parse(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, c := range []struct{ text, place, message string }{
		{"", "", "has 0 fields"},
		{"0 0 * *", "0 0 * *", "has 4 fields"},
		{"0 0 * * * *", "0 0 * * * *", "has 6 fields"},
		{"@daily", "@daily", "not a schedule of five fields"},
		{"0 24 * * *", "24", `the hour "24" is not valid: 24 is not between 0 and 23`},
		{"0 -1 * * *", "-1", "a value is missing"},
		{"0 1, * * *", "1,", "a value is missing"},
		{"0 */* * * *", "*/*", "the step after / must be a number between 1 and 23"},
		{"0 */0 * * *", "*/0", "the step"},
		{"0 2/4/6 * * *", "2/4/6", "the step"},
		{"0 ** * * *", "**", `"**" is not a number`},
		{"0 *-4 * * *", "*-4", `"*" is not a number`},
		{"0 0 * * BUN", "BUN", "neither a number nor one of SUN, MON"},
		{"0 0 * SUN JAN", "SUN", "the month"},
		{"0 0 * * FRI-TUE", "FRI-TUE", "goes down"},
		{"0 0 * * 7", "7", "from 0 to 6"},
		{"0 * * */FEB *", "*/FEB", "the step"},
		{"0 1.5 * * *", "1.5", "not a number"},
		{"0 99999999999999999999 * * *", "99999999999999999999", "not a number"},
		{"0 0 30,31 2 *", "30,31 2", "never due"},
		{"0 0 31 4,6,9,11 *", "31 4,6,9,11", "never due"},
		{strings.Repeat("0,", 600) + "0 * * * *", "", "longer than"},
	} {
		_, err := Parse(c.text)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, c.message) {
			t.Errorf("%q: %v, want %q", c.text, err, c.message)
			continue
		}
		if place := c.text[e.Offset : e.Offset+e.Length]; c.place != "" && place != c.place {
			t.Errorf("%q: the place is %q, want %q", c.text, place, c.place)
		}
	}
}

func TestShortestGap(t *testing.T) {
	for text, want := range map[string]int{
		"* * * * *": 1, "*/5 * * * *": 5, "0,58 * * * *": 2, "2,59 * * * *": 3, "0 * * * *": 60, "0 5 * * *": 1440,
		"0,59 3 * * *": 59, "59 3,4 * * *": 60, "0-4 * * * *": 1, "58 23 * * *": 1440, "0,20 0,23 * * *": 20,
	} {
		if got := parse(t, text).ShortestGap(); got != want {
			t.Errorf("%q: %d minutes, want %d", text, got, want)
		}
	}
}

// TestAgainstEveryMinute holds two years in zones of all kinds against a walk over every minute.
func TestAgainstEveryMinute(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	for _, name := range []string{"UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza"} {
		z := zone(t, name)
		for range 4 {
			text := strings.Join([]string{pick("*", "*/7", "0", "1,59", "20/15"), pick("*", "0-23", "2", "1,2,3", "*/2", "0"),
				pick("*", "*/3", "1,15,31"), pick("*", "3,4", "10-11", "JAN-MAR"), pick("*", "SUN", "1-5", "6")}, " ")
			walk(t, parse(t, text), text, z)
		}
	}
}

func walk(t *testing.T, s Spec, text string, z *time.Location) {
	t.Helper()
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	until := from.AddDate(1, 0, 0)
	due := make(map[string]time.Time) // wall time to the first time that it is shown
	for at := from; at.Before(until); at = at.Add(time.Minute) {
		local := at.In(z)
		day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
		if !s.onDay(day) || s.hours>>local.Hour()&1 == 0 || s.minutes>>local.Minute()&1 == 0 {
			continue
		}
		id := local.Format("2006-01-02T15:04")
		if _, ok := due[id]; !ok {
			due[id] = at
		} else if s.everyHour() {
			due[id+"+"] = at
		}
	}
	seen := make(map[string]bool)
	for at := from.Add(-time.Second); ; {
		next, ok := s.Next(at, z)
		if !ok || !next.At.Before(until) {
			break
		}
		if seen[next.ID] {
			t.Fatalf("%s in %s: %s comes twice", text, z, next.ID)
		}
		seen[next.ID] = true
		if want, ok := due[next.ID]; ok && !want.Equal(next.At) {
			t.Fatalf("%s in %s: %s is due at %v, want %v", text, z, next.ID, next.At, want)
		} else if !ok && s.everyHour() {
			t.Fatalf("%s in %s: %s is due, and no clock ever shows it", text, z, next.ID)
		}
		delete(due, next.ID)
		at = next.At
	}
	for id, at := range due {
		// What is left is behind a gap, at whose end something from within it was due already.
		if _, offset := at.In(z).Zone(); s.everyHour() || gapAt(at, z) == 0 {
			t.Errorf("%s in %s: %s (%v, offset %d) was not due", text, z, id, at, offset)
		}
	}
}

// gapAt is by how much clocks are set forward at a time.
func gapAt(at time.Time, z *time.Location) int {
	_, before := at.Add(-time.Second).In(z).Zone()
	_, behind := at.In(z).Zone()
	return max(behind-before, 0)
}

// TestPublicCases runs cases from elsewhere; FAIRLEAD_CORPORA names the folder that holds them.
func TestPublicCases(t *testing.T) {
	folder := os.Getenv("FAIRLEAD_CORPORA")
	if folder == "" {
		t.Log("no FAIRLEAD_CORPORA: only our own cases")
		return
	}
	file, err := os.Open(folder + "/filter/cron.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	n := 0
	for lines := bufio.NewScanner(file); lines.Scan(); n++ {
		var c struct {
			ID, Cron string
			Valid    bool
			Short    *bool `json:"under_5_minutes"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		s, err := Parse(c.Cron)
		if (err == nil) != c.Valid {
			t.Errorf("%s %q: %v", c.ID, c.Cron, err)
		} else if err == nil && c.Short != nil && (s.ShortestGap() < 5) != *c.Short {
			t.Errorf("%s %q: the shortest gap is %d minutes", c.ID, c.Cron, s.ShortestGap())
		}
	}
	t.Logf("%d cases", n)
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"30 2 * * *", "*/5 0-4/2 1,31 JAN-MAR SUN", "0 0 30 2 *", "@daily", "0 1- * * *"} {
		f.Add(text, int64(1_774_000_000))
	}
	z := zone(f, "America/New_York")
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		s, err := Parse(text)
		if e := (*Error)(nil); err != nil {
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset+e.Length > len(text) {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		at := time.Unix(unix%4e9, 0).UTC()
		next, ok := s.Next(at, z)
		if !ok || !next.At.After(at) || next.At.Second() != 0 || len(next.ID) < 16 {
			t.Fatalf("%q after %v: %v, %v", text, at, next, ok)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	z := zone(b, "Europe/Berlin")
	for _, text := range []string{"* * * * *", "30 2 * * *", "0 0 29 2 *"} {
		b.Run(text, func(b *testing.B) {
			s, at := parse(b, text), time.Date(2026, 11, 30, 22, 59, 0, 0, time.UTC)
			for b.Loop() {
				_, _ = s.Next(at, z)
			}
		})
	}
}

func ExampleSpec_Next() {
	s, _ := Parse("0 4 * * 1-5")
	next, _ := s.Next(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), time.UTC)
	fmt.Println(next.ID)
	// Output: 2026-11-30T04:00
}

func TestZonesAreThoseThatCanBeLoaded(t *testing.T) {
	all := Zones()
	if !slices.IsSorted(all) || len(all) < 500 {
		t.Fatalf("%d zones", len(all))
	}
	for _, name := range all {
		if _, err := time.LoadLocation(name); err != nil || !KnownZone(name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "Local", "europe/berlin", "Europe/Bonn", "../etc/passwd", "CEST"} {
		if KnownZone(name) {
			t.Errorf("%q is a zone", name)
		}
	}
}
