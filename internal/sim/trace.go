package sim

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// TraceKey says what the columns of a trace are.
const TraceKey = `# columns: time since the world began, in seconds | who | what | about
# who: s1… servers (with their incarnation after the dot), r1… runners, c1… clients, liar, db (the store), blob
#      (the objects), net, world
# what: + and - begin and end something; ! is a fault; = is a commit; > is an effect
# ids are cut to their last characters; p=partition e=epoch @=position a=attempt`

// traced is the world's trace: lines if somebody wants them, a sum in any case.
type traced struct {
	lines []string
	keep  bool
	sum   uint64
}

// line notes that something happened. Its text is made only if somebody reads it.
func (w *world) line(who, what, format string, args ...any) {
	if !w.trace.keep {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%11.6f %-6s %-18s ", w.sched.now.Seconds(), who, what)
	fmt.Fprintf(&text, format, args...)
	line := text.String()
	w.trace.lines = append(w.trace.lines, line)
	h := fnv.New64a()
	_, _ = h.Write([]byte(line))
	w.trace.sum = w.trace.sum*31 + h.Sum64()
}

// short cuts an identifier to what tells it apart in one world.
func short[T ~string](id T) string {
	text := string(id)
	kind := ""
	if i := strings.IndexByte(text, '/'); i >= 0 {
		kind, text = text[:i+1], text[i+1:]
	}
	parts := strings.Split(text, "_")
	if len(parts) < 2 || len(parts[1]) < 6 {
		return string(id)
	}
	parts[1] = parts[1][len(parts[1])-5:]
	return kind + strings.Join(parts, "_")
}
