package job

import "strings"

// workflowCommand is a line of the form "::name key=value,key=value::value".
type workflowCommand struct {
	name       string
	properties map[string]string
	value      string
}

var (
	valueEscapes    = strings.NewReplacer("%25", "%", "%0D", "\r", "%0A", "\n")
	propertyEscapes = strings.NewReplacer("%25", "%", "%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",")
)

// parseCommand reads a line. Blanks may stand before the first colons.
//
// Trust: line is the job's.
func parseCommand(line string) (workflowCommand, bool) {
	text, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), "::")
	if !ok {
		return workflowCommand{}, false
	}
	head, value, ok := strings.Cut(text, "::")
	if !ok {
		return workflowCommand{}, false
	}
	name, list, _ := strings.Cut(head, " ")
	if name == "" {
		return workflowCommand{}, false
	}
	c := workflowCommand{name: strings.ToLower(name), value: valueEscapes.Replace(value)}
	for pair := range strings.SplitSeq(list, ",") {
		key, v, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || key == "" {
			continue
		}
		if c.properties == nil {
			c.properties = make(map[string]string)
		}
		c.properties[strings.ToLower(key)] = propertyEscapes.Replace(v)
	}
	return c, true
}
