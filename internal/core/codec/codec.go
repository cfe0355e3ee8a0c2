// Package codec is the stored form of events and checkpoints that all stream kinds share:
// a JSON list of type and body.
//
// It deliberately knows no event: each stream kind says which types it has, and lifts old
// versions of them itself.
//
// Invariants: the same values give the same bytes; what can't be understood completely (an
// unknown type or field) is an error, because history of a newer release must not be half
// read.
//
// Read next: internal/core/run/codec.go
package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
const Format uint32 = 2

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

// Encode writes events as [{"t":"Name","d":{…}}, …].
func Encode[E Named](events []E) ([]byte, error) {
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

// Decode reads what Encode wrote. empty makes an event of the named type to decode into;
// ok is false for a name that it does not know.
func Decode[E Named](data []byte, empty func(name string) (e E, ok bool)) ([]E, error) {
	var list []envelope
	if err := Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("decode events: %w", err)
	}
	events := make([]E, 0, len(list))
	for _, item := range list {
		e, ok := empty(item.Type)
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
