package codec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

type kind int

const (
	kindBool kind = iota
	kindInt
	kindUint
	kindString
	kindTime
	kindPointer
	kindList
	kindObject
)

// shape is what packing has to know of a type. Fields have the names, and the rules of
// absence, of their JSON form, so that both forms say the same.
type shape struct {
	kind   kind
	of     reflect.Type
	elem   *shape // of pointers and lists
	fields []field
	byName map[string]*field
	words  []*field // by the place of the name among the words; nil for others
}

type field struct {
	name  string
	word  int // place of name among the words, or -1
	bit   uint
	path  []int // of embedded structs, then the field
	empty bool  // an empty list is left out, too
	shape *shape
}

func (f *field) in(v reflect.Value) reflect.Value {
	for _, i := range f.path {
		v = v.Field(i)
	}
	return v
}

func (f *field) absent(v reflect.Value) bool {
	switch f.shape.kind {
	case kindBool:
		return !v.Bool()
	case kindInt:
		return v.Int() == 0
	case kindUint:
		return v.Uint() == 0
	case kindString:
		return v.Len() == 0
	case kindTime:
		return v.Addr().Interface().(*time.Time).IsZero()
	case kindPointer:
		return v.IsNil()
	case kindList:
		return v.IsNil() || f.empty && v.Len() == 0
	}
	return v.IsZero()
}

func (s *shape) byWord(place int) *field {
	if place < len(s.words) {
		return s.words[place]
	}
	return nil
}

// shapes makes each shape once.
type shapes map[reflect.Type]*shape

// shapeOf panics for a type that has no packed form: those of events and checkpoints are in
// the source.
func (all shapes) shapeOf(t reflect.Type) *shape {
	if s := all[t]; s != nil {
		return s
	}
	s := &shape{of: t}
	all[t] = s
	if t == reflect.TypeFor[time.Time]() {
		s.kind = kindTime
		return s
	}
	for _, method := range []string{"MarshalJSON", "MarshalText"} {
		if _, ok := reflect.PointerTo(t).MethodByName(method); ok {
			panic(fmt.Sprintf("%s has a form of its own: it can't be packed", t))
		}
	}
	switch t.Kind() {
	case reflect.Bool:
		s.kind = kindBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.kind = kindInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.kind = kindUint
	case reflect.String:
		s.kind = kindString
	case reflect.Pointer:
		if t.Elem() == reflect.TypeFor[time.Time]() {
			panic("a pointer to a time can't be packed: the zero time is nothing, too")
		}
		s.kind, s.elem = kindPointer, all.shapeOf(t.Elem())
	case reflect.Slice:
		s.kind, s.elem = kindList, all.shapeOf(t.Elem())
	case reflect.Struct:
		s.kind = kindObject
		all.fieldsOf(s, t, nil)
		s.index()
	default:
		panic(fmt.Sprintf("%s can't be packed", t))
	}
	return s
}

func (all shapes) fieldsOf(s *shape, t reflect.Type, path []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clone(path), i)
		name, rules, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			all.fieldsOf(s, f.Type, at)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		s.fields = append(s.fields, field{name: name, word: wordOf(name), bit: uint(len(s.fields)), path: at,
			empty: strings.Contains(rules, "omitempty"), shape: all.shapeOf(f.Type)})
	}
}

func (s *shape) index() {
	if len(s.fields) > 64 {
		panic(fmt.Sprintf("%s has more than 64 fields", s.of))
	}
	s.byName = make(map[string]*field, len(s.fields))
	for i := range s.fields {
		f := &s.fields[i]
		if s.byName[f.name] != nil {
			panic(fmt.Sprintf("%s has two fields %q", s.of, f.name))
		}
		s.byName[f.name] = f
		if f.word >= 0 && f.word < shortWords {
			for len(s.words) <= f.word {
				s.words = append(s.words, nil)
			}
			s.words[f.word] = f
		}
	}
}
