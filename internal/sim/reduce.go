package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Trim leaves out parts of what a seed drew, and nothing else changes: every purpose has a
// random source of its own. It is how a failing world is made short enough to be read.
type Trim struct {
	Off     []string      // kinds of faults that don't happen
	Phase   time.Duration // faults go on at most so long; 0: as drawn
	Runners int           // at most; 0: as drawn
	Clients int
	Runs    int
	Servers int
}

func (t Trim) off(f fault) bool { return slices.Contains(t.Off, string(f)) }

func (t Trim) shrink(s *swarm) {
	if t.Phase > 0 {
		s.phase = min(s.phase, t.Phase)
	}
	for _, limit := range []struct {
		most int
		of   *int
	}{{t.Runners, &s.runners}, {t.Clients, &s.clients}, {t.Runs, &s.runs}, {t.Servers, &s.servers}} {
		if limit.most > 0 {
			*limit.of = min(*limit.of, limit.most)
		}
	}
}

// String writes the trim as -trim reads it.
func (t Trim) String() string {
	var parts []string
	if len(t.Off) > 0 {
		parts = append(parts, "off="+strings.Join(t.Off, "+"))
	}
	if t.Phase > 0 {
		parts = append(parts, "phase="+t.Phase.String())
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"runners", t.Runners}, {"clients", t.Clients}, {"runs", t.Runs}, {"servers", t.Servers}} {
		if n.value > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", n.name, n.value))
		}
	}
	return strings.Join(parts, ",")
}

// ParseTrim reads the text form.
func ParseTrim(text string) (t Trim, err error) {
	if text == "" {
		return t, nil
	}
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "off":
			t.Off = strings.Split(value, "+")
		case "phase":
			t.Phase, err = time.ParseDuration(value)
		case "runners":
			_, err = fmt.Sscan(value, &t.Runners)
		case "clients":
			_, err = fmt.Sscan(value, &t.Clients)
		case "runs":
			_, err = fmt.Sscan(value, &t.Runs)
		case "servers":
			_, err = fmt.Sscan(value, &t.Servers)
		default:
			err = fmt.Errorf("there is no %q", name)
		}
		if err != nil {
			return t, fmt.Errorf("read trim %q: %w", part, err)
		}
	}
	return t, nil
}

// Reduce makes a failing world shorter for as long as the same check fails: faults go one
// by one, then actors, then time.
func Reduce(seed uint64, from Trim, progress func(Trim, *Violation)) (Trim, *Violation) {
	broken := Run(seed, Options{Trim: from}).Violation
	if broken == nil {
		return from, nil
	}
	best := from
	try := func(t Trim) bool {
		v := Run(seed, Options{Trim: t}).Violation
		if v == nil || v.Check != broken.Check {
			return false
		}
		best, broken = t, v
		progress(best, broken)
		return true
	}
	for again := true; again; {
		again = false
		for _, f := range faultOdds() {
			if draw(seed, best).odds[f.fault] > 0 {
				t := best
				t.Off = append(slices.Clone(best.Off), string(f.fault))
				again = try(t) || again
			}
		}
		for _, n := range []func(*Trim, *swarm) *int{
			func(t *Trim, s *swarm) *int { t.Runs = s.runs; return &t.Runs },
			func(t *Trim, s *swarm) *int { t.Clients = s.clients; return &t.Clients },
			func(t *Trim, s *swarm) *int { t.Runners = s.runners; return &t.Runners },
			func(t *Trim, s *swarm) *int { t.Servers = s.servers; return &t.Servers },
		} {
			for {
				s, t := draw(seed, best), best
				value := n(&t, &s)
				if *value <= 1 {
					break
				}
				*value--
				if !try(t) {
					break
				}
				again = true
			}
		}
		for {
			s, t := draw(seed, best), best
			t.Phase = s.phase * 3 / 4
			if t.Phase < 5*time.Second || !try(t) {
				break
			}
			again = true
		}
	}
	return best, broken
}
