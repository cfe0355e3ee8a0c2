package bench

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of what a histogram tells apart: a microsecond to ten minutes, three digits.
const (
	spreadLeast  = 1
	spreadMost   = int64(10 * time.Minute / time.Microsecond)
	spreadDigits = 3
)

// Spread is how times are distributed, in milliseconds.
type Spread struct {
	Count int64   `json:"count"`
	Min   float64 `json:"min_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
	Mean  float64 `json:"mean_ms"`
}

// times collects durations. It is not safe for concurrent use.
type times struct{ histogram *hdrhistogram.Histogram }

func newTimes() *times {
	return &times{hdrhistogram.New(spreadLeast, spreadMost, spreadDigits)}
}

// add takes a duration. One beyond the bounds is a defect of the measurement: clocks that
// disagree, or a wait that should have ended long before.
func (t *times) add(d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("record a time: %s is negative: the machine's clock was set meanwhile", d)
	}
	if err := t.histogram.RecordValue(max(d.Microseconds(), spreadLeast)); err != nil {
		return fmt.Errorf("record a time: %w", err)
	}
	return nil
}

func (t *times) merge(other *times) { t.histogram.Merge(other.histogram) }

func (t *times) spread() *Spread {
	h := t.histogram
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return &Spread{Count: h.TotalCount(), Min: ms(h.Min()), P50: ms(h.ValueAtQuantile(50)), P90: ms(h.ValueAtQuantile(90)),
		P99: ms(h.ValueAtQuantile(99)), P999: ms(h.ValueAtQuantile(99.9)), Max: ms(h.Max()), Mean: h.Mean() / 1000}
}
