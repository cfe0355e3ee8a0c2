package syntax

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator writes workflow files from the tables of keys, right ones and ones with a few
// mistakes. The same seed writes the same files.
type generator struct {
	random   *rand.Rand
	mistakes int // still to be made
	job      int // the one at hand
	step     int
}

// Generate writes the workflow file of a seed.
func Generate(seed uint64) string {
	g := &generator{random: rand.New(rand.NewPCG(seed, 1))}
	if g.chance(3, 5) {
		g.mistakes = 1 + g.random.IntN(3)
	}
	var out strings.Builder
	for _, k := range workflowKeys() {
		switch {
		case k.name == "jobs":
			out.WriteString("jobs:\n")
			for g.job = range 1 + g.random.IntN(3) {
				fmt.Fprintf(&out, "  %s: %s\n", g.jobID(g.job), g.jobBody())
			}
		case k.name == "on":
			fmt.Fprintf(&out, "on: %s\n", g.on())
		case g.chance(1, 4):
			fmt.Fprintf(&out, "%s: %s\n", g.spelt(k.name), g.value(k.name, k.value, false))
		}
	}
	if g.slip() {
		out.WriteString("Name: again\nname: again\n")
	}
	return out.String()
}

func (g *generator) chance(n, of int) bool { return g.random.IntN(of) < n }

func (g *generator) pick(words ...string) string { return words[g.random.IntN(len(words))] }

// slip decides whether a mistake is made here.
func (g *generator) slip() bool {
	if g.mistakes > 0 && g.chance(1, 8) {
		g.mistakes--
		return true
	}
	return false
}

func (g *generator) jobID(n int) string { return fmt.Sprintf("job%d", n) }

func (g *generator) on() string {
	if g.chance(1, 2) {
		return quoted(g.pick("push", "workflow_dispatch", "pull_request", "release"))
	}
	all := events()
	var pairs []string
	for range 1 + g.random.IntN(3) {
		e := all[g.random.IntN(len(all))]
		if slices.ContainsFunc(pairs, func(p string) bool { return strings.HasPrefix(p, quoted(e.name)) }) {
			continue
		}
		settings := "null"
		if e.name == "schedule" || g.chance(2, 3) {
			settings = g.event(e)
		}
		pairs = append(pairs, quoted(g.spelt(e.name))+": "+settings)
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}

// event writes the settings of an event; of two lists that exclude each other only one.
func (g *generator) event(e event) string {
	if e.name == "schedule" || e.name == "workflow_call" {
		return g.value(e.name, e.settings(), false)
	}
	if len(e.keys()) == 0 {
		return "null"
	}
	if e.name == "workflow_dispatch" {
		keys := slices.DeleteFunc(inputKeys(), func(k key) bool { return k.name == "options" })
		return `{"inputs": {"in": ` + g.keys(keys, false) + "}}"
	}
	keys := slices.DeleteFunc(e.keys(), func(k key) bool { return strings.HasSuffix(k.name, "-ignore") })
	return g.keys(keys, false)
}

func (g *generator) jobBody() string {
	keys := jobKeys()
	var pairs []string
	calls := g.chance(1, 6)
	for _, k := range keys {
		switch {
		case k.ours, k.name == "strategy", k.name == "outputs",
			calls != slices.Contains(callKeys(), k.name) && (calls || !shared(k.name)):
			continue
		case k.name == "needs" && g.job == 0 && !g.slip():
		case k.name == "uses" && calls:
			pairs = append(pairs, `"uses": "./.github/workflows/x.yml"`)
		case k.name == "runs-on" && g.slip():
		case k.name == "runs-on":
			labels := g.value(k.name, k.value, false)
			if labels == "{}" {
				labels = `"text"`
			}
			pairs = append(pairs, `"runs-on": `+labels)
		case k.name == "steps":
			pairs = append(pairs, `"steps": `+g.steps())
		case g.chance(1, 5):
			pairs = append(pairs, quoted(g.spelt(k.name))+": "+g.value(k.name, k.value, false))
		}
	}
	if g.slip() {
		pairs = append(pairs, `"runs": "x"`)
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}

// shared are the keys of a job with steps that one that calls a workflow has too.
func shared(name string) bool {
	return slices.Contains([]string{"name", "needs", "if", "permissions", "concurrency"}, name)
}

func (g *generator) steps() string {
	var steps []string
	for g.step = range 1 + g.random.IntN(3) {
		var pairs []string
		runs := g.chance(2, 3)
		for _, k := range stepKeys() {
			switch {
			case k.ours || slices.Contains([]string{"wait", "wait-all", "cancel", "parallel"}, k.name):
			case k.name == "run" && runs, k.name == "uses" && !runs:
				if !g.slip() {
					pairs = append(pairs, quoted(k.name)+": "+g.value(k.name, k.value, false))
				}
			case k.name == "run", k.name == "uses", runs && k.name == "with",
				!runs && (k.name == "shell" || k.name == "working-directory"):
			case g.chance(1, 5):
				pairs = append(pairs, quoted(g.spelt(k.name))+": "+g.value(k.name, k.value, false))
			}
		}
		if g.slip() {
			pairs = append(pairs, `"rum": "make"`)
		}
		steps = append(steps, "{"+strings.Join(pairs, ", ")+"}")
	}
	return "[" + strings.Join(steps, ", ") + "]"
}

// spelt is a key, now and then with a letter too few.
func (g *generator) spelt(name string) string {
	if len(name) > 3 && g.slip() {
		at := 1 + g.random.IntN(len(name)-2)
		return name[:at] + name[at+1:]
	}
	return name
}

// keys writes a mapping with known keys.
func (g *generator) keys(keys []key, dynamic bool) string {
	var pairs []string
	for _, k := range keys {
		if k.ours || !k.required && g.chance(1, 2) || k.required && g.slip() {
			continue
		}
		pairs = append(pairs, quoted(g.spelt(k.name))+": "+g.value(k.name, k.value, dynamic))
	}
	if g.slip() {
		pairs = append(pairs, `"unknown": 1`)
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}

// value writes a value of a shape, or one that does not fit.
func (g *generator) value(name string, s shape, dynamic bool) string {
	dynamic = dynamic || s.dynamic
	if g.slip() {
		return g.wrong(dynamic)
	}
	if dynamic && name != "if" && name != "shell" && s.forms&formMapping == 0 && g.chance(1, 5) {
		return quoted("${{ github.sha }}")
	}
	if fixed := g.fixed(name); fixed != "" {
		return fixed
	}
	var ways []func() string
	add := func(form forms, way func() string) {
		if s.forms&form != 0 {
			ways = append(ways, way)
		}
	}
	add(formText, func() string { return g.text(s) })
	add(formBool, func() string { return g.pick("true", "false") })
	add(formNumber, func() string { return g.pick("1", "30", "2.5") })
	add(formList, func() string {
		return "[" + g.value("", *s.items, dynamic) + ", " + g.value("", *s.items, dynamic) + "]"
	})
	add(formMapping, func() string {
		if s.keys != nil {
			return g.keys(s.keys(), dynamic)
		}
		return `{"a": ` + g.value("", *s.entries, dynamic) + `, "b": ` + g.value("", *s.entries, dynamic) + "}"
	})
	return ways[g.random.IntN(len(ways))]()
}

// fixed is a value of a key that not every text of its shape fits.
func (g *generator) fixed(name string) string {
	switch name {
	case "needs":
		if g.job == 0 || g.slip() {
			return quoted(g.pick("nobody", g.jobID(g.job)))
		}
		return quoted(g.jobID(g.random.IntN(g.job)))
	case "if":
		return quoted(g.pick("github.ref == 'x'", "success()", "${{ github.sha }}", "true"))
	case "id":
		return quoted(fmt.Sprintf("step%d", g.step))
	case "uses":
		return quoted(g.pick("actions/checkout@v4", "./local", "docker://alpine", "a/b/c@main"))
	case "shell":
		return quoted(g.pick("bash", "sh", "python"))
	case "cron":
		return quoted(g.pick("30 5 * * 1-5", "0 0 1 jan,jul *", "*/15 * * * *"))
	case "timezone":
		return quoted("Europe/Berlin")
	case "cancel-in-progress", "queue":
		return map[string]string{"cancel-in-progress": "false", "queue": `"single"`}[name]
	case "group":
		return quoted("large")
	case "inherit":
		return quoted("inherit")
	case "type":
		return quoted(g.pick("string", "string"))
	case "default":
		return quoted("text")
	}
	return ""
}

func (g *generator) text(s shape) string {
	if s.values != nil {
		return quoted(g.pick(s.values()...))
	}
	if s.forms&formEmpty != 0 && g.chance(1, 10) {
		return g.pick("null", `""`)
	}
	return g.pick(`"text"`, `"other text"`, "5", "true", "1.5")
}

// wrong is a value that fits hardly anywhere.
func (g *generator) wrong(dynamic bool) string {
	if dynamic {
		return g.pick("null", "[[1]]", `{"x": {"y": 1}}`, quoted("${{ nope.x }}"), quoted("${{ github.sha"), quoted("${{ }}"))
	}
	return g.pick("[[1]]", `{"x": {"y": 1}}`, quoted("${{ github.sha }}"), "null", `"nonsense"`, "-1.5", "[]", "{}")
}

func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}
