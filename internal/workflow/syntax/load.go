package syntax

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Bounds of one file. A zero field means no file passes, so take them from
// workflow.Limits, which has the defaults.
type Bounds struct {
	SourceBytes int // of the file
	Nodes       int // after alias expansion
	Depth       int // of nesting, after alias expansion
	ScalarBytes int // of all scalars, after alias expansion
}

// Load reads the text of a file into a tree. When the text can't be read it returns nil
// and has reported why; problems that leave a tree (a duplicate key) are reported too.
//
// Trust: text may come from anybody. The parser below bounds its own nesting; duplicate
// keys, aliases, depth and size are checked here, because decoding into nodes checks
// none of them.
func Load(text []byte, bounds Bounds, reports *Reports) *Node {
	if len(text) > bounds.SourceBytes {
		reports.Add(CodeSourceTooLarge, Range{}, fmt.Sprintf("the file has more than %d bytes", bounds.SourceBytes),
			"split the workflow, or move long scripts into files of the repository")
		return nil
	}
	src := newSource(string(text))
	if !readable(src, reports) {
		return nil
	}
	const farAbove = 2
	if estimate(src) > farAbove*bounds.Nodes+farAbove {
		tooManyNodes(Range{}, bounds, reports)
		return nil
	}
	document := compose(src, bounds, reports)
	if document == nil {
		return nil
	}
	l := &loader{src: src, bounds: bounds, reports: reports, known: make(map[*yaml.Node]*Node)}
	root := l.node(document, 1)
	if l.stopped {
		return nil
	}
	return root
}

// readable refuses bytes that are no text: invalid UTF-8 and control characters.
func readable(src *source, reports *Reports) bool {
	for i := 0; i < len(src.text); {
		if b := src.text[i]; b >= ' ' && b < 0x7F || b == '\n' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(src.text[i:])
		at := func() Range { return Range{src.pos(i), src.pos(i + size)} }
		switch {
		case r == utf8.RuneError && size == 1:
			reports.Add(CodeInvalidUTF8, at(), fmt.Sprintf("byte 0x%02x is not valid UTF-8", src.text[i]),
				"save the file as UTF-8")
			return false
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7F:
			reports.Add(CodeControlCharacter, at(), fmt.Sprintf("the control character U+%04X is not allowed", r),
				`remove it, or write it as an escape in a double-quoted string, like "\e"`)
			return false
		}
		i += size
	}
	return true
}

// compose parses the one document of the file.
func compose(src *source, bounds Bounds, reports *Reports) *yaml.Node {
	load, err := yaml.NewLoader(strings.NewReader(src.text),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(bounds.Depth+10))))
	var document, another yaml.Node
	if err == nil {
		err = load.Load(&document)
	}
	if errors.Is(err, io.EOF) || err == nil && len(document.Content) == 0 {
		reports.Add(CodeEmptyWorkflow, Range{}, "the file has no content", "a workflow needs at least on: and jobs:")
		return nil
	}
	if err == nil {
		err = load.Load(&another)
		if err == nil {
			at := Pos{another.Line, another.Column}
			if len(another.Content) > 0 {
				at = Pos{another.Content[0].Line, another.Content[0].Column}
			}
			at.Line = min(at.Line, len(src.lines)) // an empty one at the end has no line of its own
			reports.Add(CodeMultipleDocuments, Range{Start: at}, "the file holds more than one YAML document",
				"keep one workflow per file")
			return nil
		}
		if errors.Is(err, io.EOF) {
			return document.Content[0]
		}
	}
	reportYAML(src, err, bounds, reports)
	return nil
}

func reportYAML(src *source, err error, bounds Bounds, reports *Reports) {
	var broken *yaml.LoadError
	if !errors.As(err, &broken) {
		reports.Add(CodeInvalidYAML, Range{}, "the file is not valid YAML: "+err.Error(), "")
		return
	}
	at := Pos{broken.Mark.Line, broken.Mark.Column}
	if at.Line == 0 {
		at = src.pos(broken.Mark.Index)
	}
	message := broken.Message
	if broken.ContextMsg != "" {
		message = broken.ContextMsg + ": " + message
	}
	if strings.Contains(message, "max depth") {
		reports.Add(CodeTooDeep, Range{Start: src.clamp(at)}, fmt.Sprintf("nested more than %d levels deep", bounds.Depth),
			"nothing in a workflow nests that deep")
		return
	}
	if opened := (Pos{broken.ContextMark.Line, broken.ContextMark.Column}); opened.Line > 0 &&
		strings.TrimSpace(src.text[src.offset(at):]) == "" {
		at = opened // what is not closed before the end is shown where it was opened
	}
	flow := strings.Contains(message, "parsing a flow")
	afterQuote := src.offset(at) > 0 && strings.ContainsRune(`'"`, rune(src.text[src.offset(at)-1]))
	message, hint := plainYAML(message)
	if afterQuote {
		message, hint = "a value goes on after its closing quote", `inside single quotes a ' is written twice, as in 'it''s'`
	}
	if flow && broken.ContextMark.Line != at.Line {
		hint += fmt.Sprintf("; it begins in line %d", broken.ContextMark.Line)
	}
	reports.Add(CodeInvalidYAML, Range{Start: src.clamp(at)}, "the file is not valid YAML: "+message, hint)
}

// plainYAML says what the parser means to somebody who does not know how YAML is parsed.
func plainYAML(message string) (plain, hint string) {
	for _, known := range []struct{ part, plain, hint string }{
		{"mapping values are not allowed", "a second \": \" in one value",
			"check the indentation, and put a value that contains \": \" in quotes"},
		{"cannot start any token", "a character that no value can start with",
			"indent with spaces, not tabs, and put a value that starts with a special character in quotes"},
		{"anchor", "", "define the anchor with &name before it is used with *name"},
		{"expected '-' indicator", "this line stands in a list and does not start with a dash",
			"start it with \"- \", or indent it so that it belongs to the entry above"},
		{"did not find expected key", "this line is not a key with a value",
			"check the indentation of this line and of the one above"},
		{"did not find expected ',' or ']'", "a list in brackets is not closed", "close it with ]"},
		{"did not find expected ',' or '}'", "a mapping in braces is not closed", "close it with }"},
		{"scanning a quoted scalar", "a text in quotes is not closed", "close the text with the quote that it starts with"},
		{"could not find expected ':'", "a key without a colon ends before this place", "write key: value"},
	} {
		if strings.Contains(message, known.part) {
			if known.plain == "" {
				known.plain = message
			}
			return known.plain, known.hint
		}
	}
	return message, ""
}

// clamp moves a place that a parser gave into the file.
func (s *source) clamp(p Pos) Pos { return s.pos(s.offset(p)) }

// loader converts the parser's nodes. known holds finished nodes by identity, so that
// an alias costs nothing to expand; nil in it marks a node that is not finished.
type loader struct {
	src     *source
	bounds  Bounds
	reports *Reports
	known   map[*yaml.Node]*Node
	nodes   int
	bytes   int
	stopped bool
}

func (l *loader) stop(code Code, at Range, message, hint string) *Node {
	if !l.stopped {
		l.reports.Add(code, at, message, hint)
	}
	l.stopped = true
	return &Node{Range: at, Type: TypeNull, src: l.src}
}

func (l *loader) node(n *yaml.Node, depth int) *Node {
	at := Range{Start: Pos{n.Line, n.Column}}
	if l.stopped {
		return &Node{Range: at, Type: TypeNull, src: l.src}
	}
	if n.Kind == yaml.AliasNode {
		return l.alias(n, at, depth)
	}
	if n.Anchor != "" {
		l.known[n] = nil
	}
	out := &Node{Range: at, src: l.src, nodes: 1, levels: 1}
	if stopped := l.charge(at, depth, 1, 1, len(n.Value)); stopped != nil {
		return stopped
	}
	switch n.Kind {
	case yaml.MappingNode:
		l.mapping(n, out, depth)
	case yaml.SequenceNode:
		out.Kind, out.End = Sequence, at.Start
		for _, c := range n.Content {
			item := l.node(c, depth+1)
			out.Items = append(out.Items, item)
			out.add(item)
		}
		l.container(n, out, "!!seq")
	default:
		l.scalar(n, out)
	}
	if n.Anchor != "" {
		l.known[n] = out
	}
	return out
}

// add counts a child's cost and stretches n's range over it.
func (n *Node) add(child *Node) {
	n.nodes += child.nodes
	n.bytes += child.bytes
	n.levels = max(n.levels, child.levels+1)
	if n.End.Before(child.End) {
		n.End = child.End
	}
}

// charge checks the bounds before a node, or a copy of one, is added.
func (l *loader) charge(at Range, depth, nodes, levels, bytes int) *Node {
	l.nodes += nodes
	l.bytes += bytes
	switch {
	case depth+levels-1 > l.bounds.Depth:
		return l.stop(CodeTooDeep, at, fmt.Sprintf("nested %d levels deep; at most %d are allowed",
			depth+levels-1, l.bounds.Depth), "nothing in a workflow nests that deep")
	case l.nodes > l.bounds.Nodes:
		if !l.stopped {
			tooManyNodes(at, l.bounds, l.reports)
		}
		l.stopped = true
		return &Node{Range: at, Type: TypeNull, src: l.src}
	case l.bytes > l.bounds.ScalarBytes:
		return l.stop(CodeTooMuchText, at,
			fmt.Sprintf("the file has more than %d bytes of text once its aliases are expanded",
				l.bounds.ScalarBytes), "move long scripts into files of the repository")
	}
	return nil
}

func tooManyNodes(at Range, bounds Bounds, reports *Reports) {
	reports.Add(CodeTooManyNodes, at, fmt.Sprintf("the file has more than %d nodes once its aliases are expanded",
		bounds.Nodes), "split the workflow, and use fewer aliases inside anchors")
}

func (l *loader) alias(n *yaml.Node, at Range, depth int) *Node {
	target, started := l.known[n.Alias]
	if target == nil {
		message := "the alias *" + n.Value + " has no anchor before it"
		if started {
			message = "the alias *" + n.Value + " stands inside its own anchor"
		}
		return l.stop(CodeInvalidAlias, at, message, "write the value out")
	}
	if stopped := l.charge(at, depth, target.nodes, target.levels, target.bytes); stopped != nil {
		return stopped
	}
	return target
}

func (l *loader) mapping(n *yaml.Node, out *Node, depth int) {
	out.Kind, out.End = Mapping, out.Start
	first := make(map[string]*Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		merge := n.Content[i].ShortTag() == "!!merge"
		key := l.node(n.Content[i], depth+1)
		value := l.node(n.Content[i+1], depth+1)
		out.add(key)
		out.add(value)
		switch {
		case l.stopped:
			return
		case merge:
			l.reports.Add(CodeMergeKey, key.Range, "merge keys (<<) are not part of the workflow language",
				"anchors and aliases of whole values are; write the keys out where they differ")
			continue
		case key.Kind != Scalar || key.Type == TypeNull:
			l.reports.Add(CodeKeyNotText, key.Range, "a key must be text, not "+describe(key), "")
			continue
		}
		folded := strings.ToUpper(key.Value)
		if earlier := first[folded]; earlier != nil {
			l.reports.Add(CodeDuplicateKey, key.Range, fmt.Sprintf("the key %s was given already in line %d",
				Quote(key.Value), earlier.Start.Line), "keys are compared without case; keep one of them")
			continue
		}
		first[folded] = key
		out.Pairs = append(out.Pairs, Pair{key, value})
	}
	l.container(n, out, "!!map")
}

// container refuses a tag that is not the shape's own.
func (l *loader) container(n *yaml.Node, out *Node, tag string) {
	if n.Style&yaml.TaggedStyle != 0 && n.ShortTag() != tag && n.Tag != "!" {
		l.reports.Add(CodeUnsupportedTag, out.Range, "the tag "+Quote(n.Tag)+" has no meaning here", "remove it")
	}
}

func (l *loader) scalar(n *yaml.Node, out *Node) {
	out.Value, out.bytes = n.Value, len(n.Value)
	switch {
	case n.Style&yaml.SingleQuotedStyle != 0:
		out.Style = StyleSingle
	case n.Style&yaml.DoubleQuotedStyle != 0:
		out.Style = StyleDouble
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		out.Style = StyleBlock
	default:
		out.Type = resolve(n.Value)
	}
	out.End = out.scalarEnd()
	if n.Style&yaml.TaggedStyle == 0 || n.Tag == "" {
		return
	}
	if n.Tag == "!" || n.ShortTag() == "!!str" {
		out.Type = TypeString
		return
	}
	want := map[string]Type{"!!null": TypeNull, "!!bool": TypeBool, "!!int": TypeInt, "!!float": TypeFloat}
	wanted, ok := want[n.ShortTag()]
	found := resolve(n.Value)
	if !ok || out.Style != StylePlain || found != wanted && !(wanted == TypeFloat && found == TypeInt) {
		l.reports.Add(CodeUnsupportedTag, out.Range, "the tag "+Quote(n.Tag)+" has no meaning here", "remove it")
	}
	out.Type = found
}

// describe names what a node is, for messages.
func describe(n *Node) string {
	if n.Kind != Scalar {
		return n.Kind.String()
	}
	switch n.Type {
	case TypeNull:
		return "empty"
	case TypeBool:
		return "a boolean"
	case TypeInt, TypeFloat:
		return "a number"
	}
	return "text"
}
