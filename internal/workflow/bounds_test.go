package workflow

import (
	"runtime"
	"strings"
	"testing"
)

// What a hostile file costs is bounded before its contents matter: one problem, and memory
// that is counted here, so that the test does not depend on the machine.
// Promises: [FORMAT-12].
func TestHostileFilesCostLittleMemory(t *testing.T) {
	const mebibyte = 1 << 20
	wide := func(of string) string { return of[:1] + strings.Repeat(of[1:2]+",", mebibyte/2-50) + of[2:] }
	tests := map[string]struct{ text, want string }{
		"aliases of aliases": {bomb(9), "yaml_too_many_nodes"},
		"wide aliases": {"a: &a [" + strings.Repeat("x,", 5_000) + "]\nb: [" + strings.Repeat("*a,", 200_000) + "]\n",
			"yaml_too_many_nodes"},
		"brackets":       {strings.Repeat("[", mebibyte), "yaml_too_deep"},
		"braces":         {strings.Repeat("{a: ", mebibyte/4), "yaml_too_deep"},
		"dashes":         {strings.Repeat("- ", mebibyte/2), "yaml_too_many_nodes"},
		"indentation":    {steps(1_400), "yaml_too_deep"},
		"a huge scalar":  {"on: push\nname: '" + strings.Repeat("x", mebibyte-20) + "'", "missing_key"},
		"a huge key":     {strings.Repeat("x", mebibyte-10) + ": 1", "missing_key"},
		"many entries":   {wide("[x]"), "yaml_too_many_nodes"},
		"many keys":      {manyKeys(mebibyte), "yaml_too_many_nodes"},
		"many documents": {strings.Repeat("---\n", mebibyte/4), "yaml_too_many_nodes"},
		"50 MB":          {strings.Repeat("a: b\n", 10*mebibyte), "source_too_large"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			src := Source{Path: "w.yml", Text: []byte(test.text)}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			p, list := Compile(src, Inputs{}, Limits{})
			runtime.ReadMemStats(&after)
			if p != nil || len(list) == 0 || string(list[0].Code) != test.want {
				t.Errorf("want %s, got %.3v", test.want, list)
			}
			if spent := (after.TotalAlloc - before.TotalAlloc) / mebibyte; spent > 64 {
				t.Errorf("it cost %d MiB", spent)
			} else {
				t.Logf("%d MiB for %d problems", spent, len(list))
			}
		})
	}
}

func steps(depth int) string {
	var out strings.Builder
	for i := range depth {
		out.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return out.String()
}

func manyKeys(size int) string {
	var out strings.Builder
	for i := 0; out.Len() < size-20; i++ {
		out.WriteString(strings.Repeat("k", 1+i%3) + string(rune('a'+i%26)) + ": x\n")
	}
	return out.String()
}
