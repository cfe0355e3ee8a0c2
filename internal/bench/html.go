package bench

import (
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
)

// Size of a plot, and of the room for its scale.
const (
	plotWidth, plotHeight = 860.0, 160.0
	plotLeft              = 64.0
)

// plot is one line over the seconds of a window.
type plot struct {
	Name, Unit, Most string
	Points           string // of an SVG polyline
	Seconds          string
}

// plots draws what changed from second to second.
func (r *Report) plots() []plot {
	if len(r.Seconds) < 2 {
		return nil
	}
	var out []plot
	for _, of := range []struct {
		name, unit string
		value      func(Sample) float64
	}{
		{"Results acknowledged", "jobs/s", func(s Sample) float64 { return s.Jobs }},
		{"Server's processor time", "% of one core", func(s Sample) float64 { return s.CPU }},
		{"Generator's processor time", "% of one core", func(s Sample) float64 { return s.Loader }},
		{"Server's resident memory", "MiB", func(s Sample) float64 { return float64(s.RSS) / mebi }},
		{"Runs under way", "runs", func(s Sample) float64 { return float64(s.Underway) }},
	} {
		most, last := 0.0, r.Seconds[len(r.Seconds)-1].At
		for _, s := range r.Seconds {
			most = max(most, of.value(s))
		}
		var points strings.Builder
		for _, s := range r.Seconds {
			fmt.Fprintf(&points, "%.1f,%.1f ", plotLeft+s.At/max(last, 1e-9)*plotWidth,
				plotHeight-of.value(s)/max(most, 1e-9)*plotHeight)
		}
		out = append(out, plot{of.name, of.unit, number(most), points.String(), number(last)})
	}
	return out
}

// WriteHTML writes the report as a page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		return err
	}
	return page().Execute(w, map[string]any{"Report": r, "Text": text.String(), "Plots": r.plots(),
		"Width": plotLeft + plotWidth, "Height": plotHeight, "Left": plotLeft})
}

// page is parsed when it is needed: every command of the program would wait for it.
var page = sync.OnceValue(func() *template.Template { return template.Must(template.New("report").Parse(pageText)) })

const pageText = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fairlead bench {{.Report.Bench}}</title>
<style>
:root { color-scheme: light dark; --line: #1565c0; --rule: #8884; }
@media (prefers-color-scheme: dark) { :root { --line: #90caf9; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { font: 13px/1.45 ui-monospace, monospace; overflow-x: auto; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } polyline { fill: none; stroke: var(--line); stroke-width: 1.5; }
path { stroke: var(--rule); fill: none; } text { font-size: 11px; fill: currentColor; }
</style>
<h1>fairlead bench {{.Report.Bench}}</h1>
<pre>{{.Text}}</pre>
{{- $top := .}}
{{range .Plots}}
<figure>
<figcaption>{{.Name}} ({{.Unit}})</figcaption>
<svg viewBox="0 -10 {{$top.Width}} 190" role="img" aria-label="{{.Name}}, at most {{.Most}} {{.Unit}}">
<path d="M{{$top.Left}} 0V{{$top.Height}}H{{$top.Width}}"/>
<text x="{{$top.Left}}" dx="-6" y="8" text-anchor="end">{{.Most}}</text>
<text x="{{$top.Left}}" dx="-6" y="{{$top.Height}}" text-anchor="end">0</text>
<text x="{{$top.Width}}" y="176" text-anchor="end">{{.Seconds}} s</text>
<polyline points="{{.Points}}"/>
</svg>
</figure>
{{end}}
</html>
`
