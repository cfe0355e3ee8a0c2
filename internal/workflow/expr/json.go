package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// FromJSON reads one JSON text. Objects keep their order of names; a name that comes
// twice (without case) has its last value.
//
// Trust: text may come from anybody; nesting is bounded by JSONDepthMax.
func FromJSON(text string) (Value, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	v, err := readJSON(dec, 1)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the text is empty or ends too early")
		}
		return Value{}, fmt.Errorf("read JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Value{}, errors.New("read JSON: there is more text after the value")
	}
	return v, nil
}

func readJSON(dec *json.Decoder, depth int) (Value, error) {
	if depth > JSONDepthMax {
		return Value{}, fmt.Errorf("nested deeper than %d", JSONDepthMax)
	}
	token, err := dec.Token()
	if err != nil {
		return Value{}, err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			return readArray(dec, depth)
		}
		return readObject(dec, depth)
	case json.Number:
		return Number(ParseNumber(token.String())), nil
	}
	return From(token)
}

func readArray(dec *json.Decoder, depth int) (Value, error) {
	var items []Value
	for dec.More() {
		item, err := readJSON(dec, depth+1)
		if err != nil {
			return Value{}, err
		}
		items = append(items, item)
	}
	_, err := dec.Token()
	return Array(items...), err
}

func readObject(dec *json.Decoder, depth int) (Value, error) {
	var fields []Field
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return Value{}, err
		}
		value, err := readJSON(dec, depth+1)
		if err != nil {
			return Value{}, err
		}
		text, _ := name.(string)
		fields = append(fields, Field{text, value})
	}
	_, err := dec.Token()
	return Object(fields...), err
}

// JSON writes v as toJSON does: two spaces of indent, one element or field per line.
func (v Value) JSON() string {
	w := &jsonWriter{indent: true}
	_ = w.write(v, 0)
	return w.out.String()
}

// MarshalJSON implements json.Marshaler with compact text; NaN and infinities, which
// JSON can't hold, are null there.
func (v Value) MarshalJSON() ([]byte, error) {
	w := &jsonWriter{strict: true}
	err := w.write(v, 0)
	return []byte(w.out.String()), err
}

type jsonWriter struct {
	out    strings.Builder
	indent bool
	strict bool
	exact  bool
	charge func(steps, bytes int) error // nil: unbounded
	paid   int
}

// settle pays for what was written since the last time.
func (w *jsonWriter) settle(steps int) error {
	if w.charge == nil {
		return nil
	}
	grown := w.out.Len() - w.paid
	w.paid = w.out.Len()
	return w.charge(steps, grown)
}

// write is recursive, which is safe: values come from JSON of bounded depth or from
// callers' own contexts.
func (w *jsonWriter) write(v Value, depth int) error {
	if err := w.settle(1); err != nil {
		return err
	}
	switch v.kind {
	case KindNull:
		w.out.WriteString("null")
	case KindString:
		return w.quote(v.text)
	case KindArray:
		return w.list('[', ']', len(v.array.items), depth, func(i int) error {
			return w.write(v.array.items[i], depth+1)
		})
	case KindObject:
		return w.list('{', '}', len(v.obj.fields), depth, func(i int) error {
			if err := w.quote(v.obj.fields[i].Name); err != nil {
				return err
			}
			w.out.WriteByte(':')
			if w.indent {
				w.out.WriteByte(' ')
			}
			return w.write(v.obj.fields[i].Value, depth+1)
		})
	case KindNumber:
		text := v.Text()
		if w.exact {
			text = exactNumber(v.num)
		}
		if w.strict && strings.ContainsAny(text, "Ny") { // NaN, Infinity
			text = "null"
		}
		w.out.WriteString(text)
	case KindBool:
		w.out.WriteString(v.Text())
	}
	return nil
}

func (w *jsonWriter) list(open, shut byte, count, depth int, element func(int) error) error {
	w.out.WriteByte(open)
	for i := range count {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.line(depth + 1)
		if err := element(i); err != nil {
			return err
		}
	}
	if count > 0 {
		w.line(depth)
	}
	w.out.WriteByte(shut)
	return nil
}

func (w *jsonWriter) line(depth int) {
	if w.indent {
		w.out.WriteByte('\n')
		w.out.WriteString(strings.Repeat("  ", depth))
	}
}

// quote escapes what GitHub's writer escapes: quotes, backslashes, control characters
// and the three line separators that JavaScript would stumble over.
func (w *jsonWriter) quote(text string) error {
	const settleEvery = 4 << 10 // escapes make text longer, so its length alone says too little
	w.out.WriteByte('"')
	for _, r := range text {
		if w.out.Len()-w.paid > settleEvery {
			if err := w.settle(0); err != nil {
				return err
			}
		}
		switch {
		case r == '"' || r == '\\':
			w.out.WriteByte('\\')
			w.out.WriteRune(r)
		case r == '\n':
			w.out.WriteString(`\n`)
		case r == '\r':
			w.out.WriteString(`\r`)
		case r == '\t':
			w.out.WriteString(`\t`)
		case r == '\b':
			w.out.WriteString(`\b`)
		case r == '\f':
			w.out.WriteString(`\f`)
		case r < ' ' || r == 0x85 || r == 0x2028 || r == 0x2029:
			fmt.Fprintf(&w.out, `\u%04x`, r)
		default:
			w.out.WriteRune(r) // invalid bytes come out as utf8.RuneError
		}
	}
	w.out.WriteByte('"')
	return w.settle(0)
}
