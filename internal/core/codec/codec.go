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
	"fmt"
)

// Named is an event that knows its stored name.
type Named interface{ Name() string }

type envelope struct {
	Type string          `json:"t"`
	Body json.RawMessage `json:"d"`
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
