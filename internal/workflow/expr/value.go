package expr

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Kind is the type of a Value.
type Kind uint8

// Kinds of values. The zero Value is null.
const (
	KindNull Kind = iota
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

// String names the kind as the language does when a structure is used as text.
func (k Kind) String() string {
	switch k {
	case KindBool:
		return "Boolean"
	case KindNumber:
		return "Number"
	case KindString:
		return "String"
	case KindArray:
		return "Array"
	case KindObject:
		return "Object"
	}
	return "Null"
}

// Value is a value of the language. Values are immutable; copying one is cheap.
type Value struct {
	kind  Kind
	truth bool
	num   float64
	text  string
	array *array
	obj   *object
}

// array is behind a pointer because two arrays are equal only if they are the same one.
// filtered marks the result of `.*`: indexing it applies to each element.
type array struct {
	items    []Value
	filtered bool
}

// object keeps its keys in order; index finds them without case.
type object struct {
	fields []Field
	index  map[string]int
}

// Field is one property of an object.
type Field struct {
	Name  string
	Value Value
}

// Null is the null value.
func Null() Value { return Value{} }

// Bool makes a boolean.
func Bool(b bool) Value { return Value{kind: KindBool, truth: b} }

// Number makes a number.
func Number(f float64) Value { return Value{kind: KindNumber, num: f} }

// Int makes a number from an integer, for callers that use no floating point.
func Int(n int64) Value { return Number(float64(n)) }

// String makes a string.
func String(s string) Value { return Value{kind: KindString, text: s} }

// Array makes an array of the given elements.
func Array(items ...Value) Value { return Value{kind: KindArray, array: &array{items: items}} }

func filtered(items []Value) Value {
	return Value{kind: KindArray, array: &array{items: items, filtered: true}}
}

// Object makes an object with fields in the given order. Names are looked up without
// case; a name that comes again replaces the earlier value at its place.
func Object(fields ...Field) Value {
	o := &object{fields: make([]Field, 0, len(fields)), index: make(map[string]int, len(fields))}
	for _, f := range fields {
		folded := fold(f.Name)
		if at, ok := o.index[folded]; ok {
			o.fields[at].Value = f.Value
			continue
		}
		o.index[folded] = len(o.fields)
		o.fields = append(o.fields, f)
	}
	return Value{kind: KindObject, obj: o}
}

// Strings makes an object of strings, its names in sorted order.
func Strings(m map[string]string) Value {
	fields := make([]Field, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fields = append(fields, Field{name, String(m[name])})
	}
	return Object(fields...)
}

// From makes a value from what encoding/json decodes to, and from the plain types near
// it. Maps become objects with their names in sorted order.
func From(v any) (Value, error) {
	switch v := v.(type) {
	case nil:
		return Null(), nil
	case Value:
		return v, nil
	case bool:
		return Bool(v), nil
	case string:
		return String(v), nil
	case int:
		return Number(float64(v)), nil
	case int64:
		return Number(float64(v)), nil
	case float64:
		return Number(v), nil
	case json.Number:
		return Number(ParseNumber(v.String())), nil
	case map[string]string:
		return Strings(v), nil
	case []string:
		items := make([]Value, len(v))
		for i, s := range v {
			items[i] = String(s)
		}
		return Array(items...), nil
	case []any:
		return fromSlice(v)
	case map[string]any:
		return fromMap(v)
	}
	return Value{}, fmt.Errorf("convert %T to a value: no such type in the language", v)
}

func fromSlice(list []any) (Value, error) {
	items := make([]Value, len(list))
	for i, e := range list {
		item, err := From(e)
		if err != nil {
			return Value{}, err
		}
		items[i] = item
	}
	return Array(items...), nil
}

func fromMap(m map[string]any) (Value, error) {
	fields := make([]Field, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		item, err := From(m[name])
		if err != nil {
			return Value{}, err
		}
		fields = append(fields, Field{name, item})
	}
	return Object(fields...), nil
}

// Kind is the type of v.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether v is null.
func (v Value) IsNull() bool { return v.kind == KindNull }

func (v Value) primitive() bool { return v.kind <= KindString }

// Truthy reports whether v counts as true: everything does, except null, false, zero,
// NaN and the empty string. The string "false" is true.
func (v Value) Truthy() bool {
	switch v.kind {
	case KindNull:
		return false
	case KindBool:
		return v.truth
	case KindNumber:
		return v.num != 0 && !math.IsNaN(v.num)
	case KindString:
		return v.text != ""
	}
	return true
}

// Text is v as a string, the way interpolation writes it: null is empty, numbers have
// at most 15 significant digits, structures are the word "Array" or "Object".
func (v Value) Text() string {
	switch v.kind {
	case KindNull:
		return ""
	case KindBool:
		if v.truth {
			return "true"
		}
		return "false"
	case KindNumber:
		return formatNumber(v.num)
	case KindString:
		return v.text
	}
	return v.kind.String()
}

// Len is the number of elements or fields; zero for everything else.
func (v Value) Len() int {
	switch v.kind {
	case KindArray:
		return len(v.array.items)
	case KindObject:
		return len(v.obj.fields)
	}
	return 0
}

// At is the element with that index of an array; null when there is none.
func (v Value) At(index int) Value {
	if v.kind != KindArray || index < 0 || index >= len(v.array.items) {
		return Null()
	}
	return v.array.items[index]
}

// Field finds a property of an object, without case.
func (v Value) Field(name string) (Value, bool) {
	if v.kind != KindObject {
		return Null(), false
	}
	at, ok := v.obj.index[fold(name)]
	if !ok {
		return Null(), false
	}
	return v.obj.fields[at].Value, true
}

// Fields lists the properties of an object in order; the slice is the caller's own.
func (v Value) Fields() []Field {
	if v.kind != KindObject {
		return nil
	}
	return slices.Clone(v.obj.fields)
}

// With is the object v with one property set; v itself stays as it was. A v that is
// not an object counts as an empty one.
func (v Value) With(name string, value Value) Value {
	return Object(append(v.Fields(), Field{name, value})...)
}

// Typed is the value that text stands for when its type was declared: "boolean" and
// "number" as in the declaration of an input; every other type is a string.
func Typed(kind, text string) Value {
	switch kind {
	case "boolean":
		return Bool(text == "true")
	case "number":
		return Number(ParseNumber(text))
	}
	return String(text)
}
