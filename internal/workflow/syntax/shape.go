package syntax

import (
	"fmt"
	"slices"
	"strings"
)

// forms is a set of the kinds of value that a key accepts.
type forms uint8

const (
	formText forms = 1 << iota // any scalar but null; numbers and booleans are taken by their text
	formEmpty
	formBool
	formNumber
	formList
	formMapping
	formAny = formText | formEmpty | formList | formMapping
)

// shape is what the value of a key may be; the zero shape leaves the value to the reader of
// the key. The reader, the JSON Schema for editors and the generator of test files all go by
// the same shapes.
type shape struct {
	forms    forms
	name     string          // of a mapping with known keys, for messages: "a job"
	keys     func() []key    // of a mapping with known keys
	entries  *shape          // of the values of a mapping whose keys are free
	items    *shape          // of a list
	values   func() []string // the words that a text may be; nil: any
	nonEmpty bool            // of text
	filled   bool            // of a list: it has an entry
	// dynamic: an expression may stand for the value and for whatever is in it.
	dynamic bool
}

func (s shape) evaluated() shape {
	s.dynamic = true
	return s
}

func (s shape) orEmpty() shape {
	s.forms |= formEmpty
	return s
}

// or accepts what either of the two accepts; only one of them may be text, a list and so on.
func (s shape) or(other shape) shape {
	s.forms |= other.forms
	if other.forms&formMapping != 0 {
		s.name, s.keys, s.entries = other.name, other.keys, other.entries
	}
	if other.forms&formList != 0 {
		s.items = other.items
	}
	s.nonEmpty, s.filled = s.nonEmpty || other.nonEmpty, s.filled || other.filled
	return s
}

func anything() shape { return shape{forms: formAny} }
func text() shape     { return shape{forms: formText | formEmpty} }
func word() shape     { return shape{forms: formText, nonEmpty: true} }
func truth() shape    { return shape{forms: formBool} }
func number() shape   { return shape{forms: formNumber} }

func oneOf(values ...string) shape {
	return shape{forms: formText, values: func() []string { return values }}
}

func listOf(item shape) shape { return shape{forms: formList, items: &item} }

func wordOrList() shape { return word().or(listOf(word())) }

func mapOf(entry shape) shape { return shape{forms: formMapping, entries: &entry} }

func keysOf(name string, keys func() []key) shape {
	return shape{forms: formMapping, name: name, keys: keys}
}

// expected names the forms for a message: "true or false", "text or a list".
func (s shape) expected() string {
	var out []string
	add := func(form forms, what string) {
		if s.forms&form != 0 {
			out = append(out, what)
		}
	}
	switch {
	case s.values != nil && len(s.values()) <= 4:
		add(formText, list(s.values(), "or"))
	case s.values != nil:
		add(formText, "one of its words")
	default:
		add(formText, "text")
	}
	add(formBool, "true or false")
	add(formNumber, "a number")
	add(formList, "a list")
	add(formMapping, "a mapping")
	return list(out, "or")
}

// list joins words as a sentence does: "a, b or c".
func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}

// check compares a value with its shape and reports what does not fit. what names the
// value, and at is what an empty value is reported at. It returns false when the value
// itself is of no use, so that nothing more shall be said of it.
func (r *reader) check(n, at *Node, what string, s shape, dynamic bool) bool {
	dynamic = dynamic || s.dynamic
	switch {
	case s.forms == 0: // the reader of the key checks the value itself
		return true
	case n.IsNull():
		return r.checkEmpty(at, what, s)
	case n.Kind == Scalar && IsExpression(n):
		n.unfit = !r.checkExpression(n, what, dynamic)
		return !n.unfit
	case n.Kind == Scalar:
		n.unfit = !r.checkScalar(n, what, s)
		return !n.unfit
	case n.Kind == Sequence && s.forms&formList != 0:
		return r.checkList(n, at, what, s, dynamic)
	case n.Kind == Mapping && s.forms&formMapping != 0:
		return r.checkMapping(n, s, dynamic)
	}
	return r.unfit(n, what, s)
}

func (r *reader) checkEmpty(at *Node, what string, s shape) bool {
	if s.forms&formEmpty == 0 {
		r.add(CodeEmptyValue, at, "remove the key, or give it a value", "%s is empty; it must be %s", what, s.expected())
		return false
	}
	return true
}

// IsExpression reports whether a scalar holds ${{, so that its value comes from expressions.
func IsExpression(n *Node) bool {
	return n.Kind == Scalar && n.Type == TypeString && strings.Contains(n.Value, "${{")
}

// literalOnly reports whether an expression is nothing but a text in quotes, which is how
// a text that holds ${{ is written; it may stand everywhere.
func literalOnly(text string) bool {
	inner, ok := strings.CutPrefix(strings.TrimSpace(text), "${{")
	if !ok {
		return false
	}
	inner, ok = strings.CutSuffix(inner, "}}")
	inner = strings.TrimSpace(inner)
	return ok && len(inner) > 1 && inner[0] == '\'' && inner[len(inner)-1] == '\'' &&
		!strings.Contains(strings.ReplaceAll(inner[1:len(inner)-1], "''", ""), "'")
}

func (r *reader) checkExpression(n *Node, what string, dynamic bool) bool {
	if !dynamic && !literalOnly(n.Value) {
		at := strings.Index(n.Value, "${{")
		r.reports.Add(CodeExpressionNotAllowed, n.Place(at, len(n.Value)),
			fmt.Sprintf("%s is read before anything is evaluated, so it can't have an expression", what),
			"write the value out")
		return false
	}
	return true
}

func (r *reader) checkScalar(n *Node, what string, s shape) bool {
	switch {
	case s.forms&formBool != 0 && n.Type == TypeBool,
		s.forms&formNumber != 0 && (n.Type == TypeInt || n.Type == TypeFloat):
		return true
	case s.forms&formText == 0:
		return r.unfit(n, what, s)
	case s.values != nil && !slices.Contains(s.values(), n.Value):
		hint := "allowed are " + list(s.values(), "and")
		r.add(CodeInvalidValue, n, r.reports.Suggest(n.Value, s.values(), hint), "%s can't be %s", what, Quote(n.Value))
		return false
	case s.nonEmpty && n.Value == "":
		r.add(CodeEmptyValue, n, "remove it, or give it a value", "%s is empty", what)
		return false
	}
	return true
}

// unfit reports a value of the wrong form.
func (r *reader) unfit(n *Node, what string, s shape) bool {
	hint := ""
	switch quoted := n.Kind == Scalar && n.Style != StylePlain; {
	case s.forms&formBool != 0 && quoted && resolve(n.Value) == TypeBool,
		s.forms&formNumber != 0 && quoted && (resolve(n.Value) == TypeInt || resolve(n.Value) == TypeFloat):
		hint = "write it without quotes: in quotes it is text"
	case s.forms&formBool != 0 && n.Kind == Scalar && slices.Contains(yaml11(), strings.ToLower(n.Value)):
		hint = "write true or false: yes, no, on and off are text"
	case s.forms&formList != 0 && s.forms&formText == 0 && n.Kind != Sequence:
		hint = "start each entry with a dash"
	case s.forms&formMapping != 0 && s.keys != nil && n.Kind != Mapping:
		hint = "its keys are " + names(s.keys())
	case s.forms&formMapping != 0 && s.entries != nil && n.Kind != Mapping:
		hint = "write each entry as name: value"
	}
	r.add(CodeWrongType, n, hint, "%s must be %s, not %s", what, s.expected(), describe(n))
	return false
}

func yaml11() []string { return []string{"yes", "no", "on", "off", "y", "n"} }

func (r *reader) checkList(n, at *Node, what string, s shape, dynamic bool) bool {
	if len(n.Items) == 0 && s.filled {
		r.add(CodeEmptyValue, at, "remove it, or give it entries", "%s is an empty list", what)
		return false
	}
	for _, item := range n.Items {
		r.check(item, item, "an entry of "+what, *s.items, dynamic)
	}
	return true
}

func (r *reader) checkMapping(n *Node, s shape, dynamic bool) bool {
	if s.keys != nil {
		r.known(n, s.name, s.keys(), dynamic)
		return true
	}
	for _, pair := range n.Pairs {
		if r.keyExpression(pair.Key, dynamic) {
			continue
		}
		if s.entries != nil {
			r.check(pair.Value, pair.Key, Quote(pair.Key.Value), *s.entries, dynamic)
		}
	}
	return true
}

// keyExpression reports a key that is an expression; nothing is known of its value.
func (r *reader) keyExpression(n *Node, dynamic bool) bool {
	if !IsExpression(n) || literalOnly(n.Value) {
		return false
	}
	if dynamic {
		r.add(CodeUnsupportedDynamic, n, "write the keys out", "a key can't come from an expression yet")
		return true
	}
	return !r.checkExpression(n, "a key here", false)
}

// known checks the keys of a mapping against a table, their values against their shapes,
// and returns those that are in the table. Of a value that is of no use only the key is kept.
func (r *reader) known(n *Node, where string, keys []key, dynamic bool) map[string]Pair {
	found := make(map[string]Pair, len(n.Pairs))
	computed := false
	for _, pair := range n.Pairs {
		if r.keyExpression(pair.Key, dynamic) {
			computed = true
			continue
		}
		at := slices.IndexFunc(keys, func(k key) bool { return k.name == pair.Key.Value })
		if at < 0 {
			meant := r.unknown(pair.Key, where, keys)
			if _, given := found[meant]; meant != "" && !given {
				found[meant] = Pair{Key: pair.Key} // so that it is not reported as missing too
			}
			continue
		}
		k := keys[at]
		if k.ours {
			r.reports.own(pair.Key)
		}
		if k.later != "" {
			r.later(pair.Key, k)
		}
		if !r.check(pair.Value, pair.Key, k.name, k.value, dynamic) {
			pair.Value = nil
		}
		found[k.name] = pair
	}
	for _, k := range keys {
		if _, given := found[k.name]; !given && k.required && !computed {
			r.reports.Add(CodeMissingKey, Range{Start: n.Start}, fmt.Sprintf("%s must have the key %q", where, k.name), k.hint)
		}
	}
	return found
}

// unknown reports a key that the language does not have at this place, and guesses which
// one is meant.
func (r *reader) unknown(n *Node, where string, keys []key) (meant string) {
	if r.reports.Full() {
		r.add(CodeUnknownKey, n, "", "%s has no key %s", where, Quote(n.Value))
		return "" // it is only counted, so no hint is looked for
	}
	allowed := make([]string, len(keys))
	for i, k := range keys {
		allowed[i] = k.name
	}
	hint := ""
	if meant = r.reports.similar(n.Value, allowed); meant != "" {
		hint = fmt.Sprintf("did you mean %q?", meant)
	} else {
		hint = elsewhere(n.Value, where)
	}
	if hint == "" && len(keys) > 0 {
		hint = "its keys are " + names(keys)
	}
	r.add(CodeUnknownKey, n, hint, "%s has no key %s", where, Quote(n.Value))
	return meant
}

// elsewhere says where a key belongs that stands at the wrong level, which is the commonest
// mistake in indentation.
func elsewhere(name, where string) string {
	for _, level := range []struct {
		name string
		keys []key
	}{{"a workflow", workflowKeys()}, {"a job", jobKeys()}, {"a step", stepKeys()},
		{"strategy", strategyKeys()}} {
		if level.name != where && slices.ContainsFunc(level.keys, func(k key) bool { return k.name == name }) {
			return fmt.Sprintf("%s is a key of %s: check the indentation", name, level.name)
		}
	}
	return ""
}

// names lists the keys of a table for a hint.
func names(keys []key) string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.name
	}
	return list(out, "and")
}
