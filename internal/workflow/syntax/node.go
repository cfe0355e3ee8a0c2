package syntax

// NodeKind is the shape of a node.
type NodeKind uint8

// Shapes of nodes.
const (
	Scalar NodeKind = iota
	Mapping
	Sequence
)

// String names the shape for messages.
func (k NodeKind) String() string {
	switch k {
	case Mapping:
		return "a mapping"
	case Sequence:
		return "a list"
	}
	return "a value"
}

// Type is the type of a scalar.
type Type uint8

// Types of scalars, by the core schema of YAML 1.2: `on` and `yes` are strings.
const (
	TypeString Type = iota
	TypeNull
	TypeBool
	TypeInt
	TypeFloat
)

// Style is how a scalar is written.
type Style uint8

// Styles of scalars. StyleBlock covers both | and >.
const (
	StylePlain Style = iota
	StyleSingle
	StyleDouble
	StyleBlock
)

// Node is one value of the file. Aliases are resolved: the same node may hang in
// several places, and its range is where it is written.
type Node struct {
	Range
	Kind  NodeKind
	Type  Type   // of a scalar
	Style Style  // of a scalar
	Value string // of a scalar
	Pairs []Pair // of a mapping, in the order of the file
	Items []*Node

	src   *source
	unfit bool // reported as no value for its key, so nothing more is said of it
	// Where the last walk of Place stopped: trace stands before Value[traced].
	trace  *tracer
	traced int
	// What the node costs after alias expansion: nodes, levels, bytes of scalars.
	nodes, levels, bytes int
}

// Pair is a key with its value.
type Pair struct {
	Key   *Node
	Value *Node
}

// IsNull reports whether n is absent or null.
func (n *Node) IsNull() bool { return n == nil || n.Kind == Scalar && n.Type == TypeNull }

// resolve finds the type of a plain scalar.
func resolve(text string) Type {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return TypeNull
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return TypeBool
	case ".nan", ".NaN", ".NAN":
		return TypeFloat
	}
	unsigned := text
	if text[0] == '-' || text[0] == '+' {
		unsigned = text[1:]
	}
	switch unsigned {
	case "":
		return TypeString
	case ".inf", ".Inf", ".INF":
		return TypeFloat
	}
	switch {
	case all(unsigned, "0123456789"),
		len(text) > 2 && text[:2] == "0o" && all(text[2:], "01234567"),
		len(text) > 2 && text[:2] == "0x" && all(text[2:], "0123456789abcdefABCDEF"):
		return TypeInt
	case float(unsigned):
		return TypeFloat
	}
	return TypeString
}

func all(text, allowed string) bool {
	for i := range len(text) {
		found := false
		for j := range len(allowed) {
			found = found || text[i] == allowed[j]
		}
		if !found {
			return false
		}
	}
	return text != ""
}

// float matches digits [. digits] | . digits, with an optional exponent.
func float(text string) bool {
	count := func() (n int) {
		for text != "" && text[0] >= '0' && text[0] <= '9' {
			text, n = text[1:], n+1
		}
		return n
	}
	whole := count()
	if text != "" && text[0] == '.' {
		text = text[1:]
		if fraction := count(); whole+fraction == 0 {
			return false
		}
	} else if whole == 0 {
		return false
	}
	if text != "" && (text[0] == 'e' || text[0] == 'E') {
		text = text[1:]
		if text != "" && (text[0] == '+' || text[0] == '-') {
			text = text[1:]
		}
		if count() == 0 {
			return false
		}
	}
	return text == ""
}
