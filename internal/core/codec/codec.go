// Package codec is the stored form of events and checkpoints that all stream kinds share: a
// list of type and body, packed, or as JSON until format 2; and the JSON form in which
// servers pass commands on.
//
// It deliberately knows no event: each stream kind says which types it has, and lifts old
// versions of them itself.
//
// Invariants: the same values give the same bytes; what can't be understood completely (an
// unknown type or field) is an error, because history of a newer release must not be half
// read; both forms of an event say the same; a word keeps its place for ever.
//
// Read next: packed.go, internal/core/run/codec.go
package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Named is an event that knows its stored name.
type Named interface{ Name() string }

type envelope struct {
	Type string          `json:"t"`
	Body json.RawMessage `json:"d"`
}

// Format is the event format that this program writes when every server that shares its
// store reads it, and the highest that it reads. It grows by one with every event type or
// field that an older program would refuse; the stream kind's Lower says what is written
// for those until then.
const Format uint32 = 5

// Oldest is the lowest format that this program can still write: a server that reads less
// is no neighbour, and nobody may join a fleet that has one. It grows when a Lower gives up
// a format, at the earliest one release after the format's successor was introduced.
const Oldest uint32 = 1

// ErrFormat: there is no form of an event that readers of the wanted format understand.
var ErrFormat = errors.New("a server of the fleet is too old to read this")

// EncodeOne writes one named value, such as a command on its way to another server.
func EncodeOne(name string, v any) ([]byte, error) {
	body, err := Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return Marshal(envelope{name, body})
}

// DecodeOne reads what EncodeOne wrote. read makes the value of a name; ok is false for a
// name that it does not know.
func DecodeOne[V any](data []byte, read func(name string, body []byte) (v V, ok bool, err error)) (V, error) {
	var none V
	var item envelope
	if err := Unmarshal(data, &item); err != nil {
		return none, fmt.Errorf("decode: %w", err)
	}
	v, ok, err := read(item.Type, item.Body)
	switch {
	case err != nil:
		return none, fmt.Errorf("decode %s: %w", item.Type, err)
	case !ok:
		return none, fmt.Errorf("decode %q: unknown type", item.Type)
	}
	return v, nil
}

// As reads a body as a T and gives it as the interface V, for the cases of DecodeOne.
func As[T, V any](body []byte, widen func(T) V) (V, bool, error) {
	var v T
	err := Unmarshal(body, &v)
	return widen(v), true, err
}

// Form is the stored form of a closed set of events.
type Form[E Named] struct {
	byName map[string]*member
}

type member struct {
	name  string
	word  int
	shape *shape
}

// FormOf makes the form of the set of which it gets one value each: pointers to structs. It
// panics for a type that has none.
func FormOf[E Named](set ...E) Form[E] {
	f, all := Form[E]{byName: make(map[string]*member, len(set))}, shapes{}
	for _, e := range set {
		f.byName[e.Name()] = &member{e.Name(), wordOf(e.Name()), all.shapeOf(reflect.TypeOf(e).Elem())}
	}
	return f
}

// Names lists the names of the set, sorted.
func (f Form[E]) Names() []string { return slices.Sorted(maps.Keys(f.byName)) }

// New makes an empty event of the named type; ok is false for a name that the set lacks.
func (f Form[E]) New(name string) (e E, ok bool) {
	m := f.byName[name]
	if m == nil {
		return e, false
	}
	return reflect.New(m.shape.of).Interface().(E), true
}

// Encode writes events for readers of a format: packed, or before that as
// [{"t":"Name","d":{…}}, …].
func (f Form[E]) Encode(events []E, format uint32) ([]byte, error) {
	if format < FormatPacked {
		return f.encodeText(events)
	}
	p := packer{out: make([]byte, 1, 1+128*len(events)), words: wordsOf(format), base: epoch}
	p.out[0] = packed
	for _, e := range events {
		m := f.byName[e.Name()]
		if m == nil {
			return nil, fmt.Errorf("encode event %s: unknown type", e.Name())
		}
		p.name(m.word, m.name)
		if err := p.fields(m.shape, reflect.ValueOf(e).Elem()); err != nil {
			return nil, fmt.Errorf("encode event %s: %w", e.Name(), err)
		}
	}
	return p.out, nil
}

func (f Form[E]) encodeText(events []E) ([]byte, error) {
	out := make([]envelope, 0, len(events))
	for _, e := range events {
		body, err := Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("encode event %s: %w", e.Name(), err)
		}
		out = append(out, envelope{e.Name(), body})
	}
	data, err := Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode events: %w", err)
	}
	return data, nil
}

// Decode reads what Encode wrote in any format.
func (f Form[E]) Decode(data []byte) ([]E, error) {
	if len(data) == 0 || data[0] != packed {
		return f.decodeText(data)
	}
	u, events := unpacker{in: data, at: 1, base: epoch}, make([]E, 0, 4)
	for u.at < len(u.in) {
		tag, err := u.tag()
		if err != nil {
			return nil, fmt.Errorf("decode events: %w", err)
		}
		name, err := u.text(tag, false)
		if err != nil {
			return nil, fmt.Errorf("decode events: %w", err)
		}
		m := f.byName[name]
		if m == nil {
			return nil, fmt.Errorf("decode event %q: unknown type", name)
		}
		e := reflect.New(m.shape.of)
		if err := u.fields(m.shape, e.Elem()); err != nil {
			return nil, fmt.Errorf("decode event %s: %w", name, err)
		}
		events = append(events, e.Interface().(E))
	}
	return events, nil
}

func (f Form[E]) decodeText(data []byte) ([]E, error) {
	var list []envelope
	if err := Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("decode events: %w", err)
	}
	events := make([]E, 0, len(list))
	for _, item := range list {
		e, ok := f.New(item.Type)
		if !ok {
			return nil, fmt.Errorf("decode event %q: unknown type", item.Type)
		}
		if err := Unmarshal(item.Body, e); err != nil {
			return nil, fmt.Errorf("decode event %s: %w", item.Type, err)
		}
		events = append(events, e)
	}
	return events, nil
}

// Record is the packed form of one type, such as the state that a checkpoint keeps.
type Record[S any] struct{ shape *shape }

// RecordOf makes the form of S, a struct. It panics if S has none.
func RecordOf[S any]() Record[S] { return Record[S]{shapes{}.shapeOf(reflect.TypeFor[S]())} }

// Encode writes s. It fails for a time outside the years 0 to 9999 only.
func (r Record[S]) Encode(s *S) ([]byte, error) {
	p := packer{out: make([]byte, 1, 1024), words: wordsOf(Format), base: epoch}
	p.out[0] = packed
	err := p.fields(r.shape, reflect.ValueOf(s).Elem())
	return p.out, err
}

// Decode reads what Encode wrote into s, which is zero.
func (r Record[S]) Decode(data []byte, s *S) error {
	if len(data) == 0 || data[0] != packed {
		return errors.New("it is not packed")
	}
	u := unpacker{in: data, at: 1, base: epoch}
	if err := u.fields(r.shape, reflect.ValueOf(s).Elem()); err != nil {
		return err
	}
	if u.at < len(data) {
		return fmt.Errorf("more after the value at byte %d", u.at)
	}
	return nil
}

// Marshal writes one value. Text stays readable: nothing is escaped for HTML.
func Marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Unmarshal reads one value and nothing else; unknown fields are an error.
func Unmarshal(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if end := dec.InputOffset(); len(bytes.TrimSpace(data[end:])) > 0 {
		return fmt.Errorf("more after the value at byte %d", end)
	}
	return nil
}
