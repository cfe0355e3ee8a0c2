package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// JSON compares two JSON values. names are the paths of what differs: a.b[2]. An empty text is no
// value, and one that can't be read is compared as a text.
func JSON(before, after []byte) []Difference {
	if bytes.Equal(before, after) {
		return nil
	}
	a, errA := read(before)
	b, errB := read(after)
	if errA != nil || errB != nil {
		d, _ := Between("", string(before), string(after))
		return []Difference{d}
	}
	return values(a, b)
}

// absent is the value of what is not there, which null is not.
type absent struct{}

func read(text []byte) (any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return absent{}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// values compares two values as encoding/json reads them.
func values(a, b any) []Difference {
	var out []Difference
	walk("", a, b, func(path string, a, b any) {
		d := Difference{Name: strings.TrimPrefix(path, "."), Kind: Changed}
		if _, none := a.(absent); none {
			d.Kind = Added
		} else {
			d.Before = Shorten(text(a))
		}
		if _, none := b.(absent); none {
			d.Kind = Removed
		} else {
			d.After = Shorten(text(b))
		}
		out = append(out, d)
	})
	return out
}

func walk(path string, a, b any, differs func(path string, a, b any)) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			walkObjects(path, x, y, differs)
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			for i := range max(len(x), len(y)) {
				walk(fmt.Sprintf("%s[%d]", path, i), element(x, i), element(y, i), differs)
			}
			return
		}
	default:
		switch b.(type) {
		case map[string]any, []any:
		default:
			if a == b {
				return
			}
		}
	}
	differs(path, a, b)
}

func walkObjects(path string, x, y map[string]any, differs func(path string, a, b any)) {
	keys := slices.AppendSeq(slices.Sorted(maps.Keys(x)), func(yield func(string) bool) {
		for _, k := range slices.Sorted(maps.Keys(y)) {
			if _, both := x[k]; !both && !yield(k) {
				return
			}
		}
	})
	slices.Sort(keys)
	for _, k := range keys {
		name := path + "." + k
		if strings.ContainsAny(k, ".[] ") {
			name = path + "[" + strconv.Quote(k) + "]"
		}
		walk(name, field(x, k), field(y, k), differs)
	}
}

func field(m map[string]any, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return absent{}
}

func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}

// text is a value for showing: a string without its quotes.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(out.String(), "\n")
}
