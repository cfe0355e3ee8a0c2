// Package codectest checks that values of a closed set of types keep the form in which they
// are written: a golden file for each, made once and never changed.
//
// It is deliberately only for sets whose types are listed in one source file: a new type
// can't be forgotten then.
//
// Invariants: every field of a sample has a value, so a new field changes the file.
//
// Read next: internal/core/run/codec_command_test.go
package codectest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Form is a closed set of types and their codec.
type Form[V any] struct {
	// Source is a Go file; each of its lines that begins with Before and goes on with After
	// names a type of the set in between.
	Source, Before, After string
	Zero                  []V // a zero value of every type
	Encode                func(V) ([]byte, error)
	Decode                func([]byte) (V, error)
	Folder                string // of the golden files
	Rewrite               bool   // write files that are not there
	// Newest is the format that brought the newest form of a type, by its name; 1 for those
	// that are not listed. Files of earlier forms stay, and must be readable.
	Newest map[string]int
}

// Sample is a value of zero's type with a recognisable value in every field.
func Sample[V any](zero V) V {
	filled := reflect.New(reflect.TypeOf(zero)).Elem()
	fill(filled, filled.Type().Name())
	return filled.Interface().(V)
}

// Check compares every type with its golden file, and reads it back.
func (f Form[V]) Check(t *testing.T) {
	t.Helper()
	missing := f.names(t)
	for _, zero := range f.Zero {
		typ := reflect.TypeOf(zero)
		// After may begin with an ending that the names in the source lack.
		missing = slices.DeleteFunc(missing, func(name string) bool {
			return name == strings.TrimSuffix(typ.Name(), strings.Fields(f.After)[0])
		})
		sample := Sample(zero)
		data, err := f.Encode(sample)
		if err != nil {
			t.Fatalf("encode %s: %v", typ.Name(), err)
		}
		newest := max(1, f.Newest[typ.Name()])
		f.golden(t, f.file(typ.Name(), newest), data)
		f.earlier(t, typ.Name(), newest)
		again, err := f.Decode(data)
		if err != nil || !reflect.DeepEqual(again, sample) {
			t.Errorf("%s comes back as another value: %v\n%+v\n%+v", typ.Name(), err, again, sample)
		}
		broken := bytes.Replace(data, []byte(`"d":{`), []byte(`"d":{"novelty":1,`), 1)
		if _, err := f.Decode(bytes.Replace(broken, []byte(`,}`), []byte(`}`), 1)); err == nil {
			t.Errorf("%s with an unknown field is understood", typ.Name())
		}
	}
	if len(missing) > 0 {
		t.Errorf("no form of %v is checked", missing)
	}
	for _, text := range []string{`{"t":"Novelty","d":{}}`, `{}`, `[]`, `x`} {
		if v, err := f.Decode([]byte(text)); err == nil {
			t.Errorf("%s is understood as %+v", text, v)
		}
	}
}

func (f Form[V]) file(name string, format int) string {
	return filepath.Join(f.Folder, fmt.Sprintf("%s.%d.json", name, format))
}

// earlier reads the forms that were written before the newest one.
func (f Form[V]) earlier(t *testing.T, name string, newest int) {
	t.Helper()
	found := 0
	for format := 1; format < newest; format++ {
		data, err := os.ReadFile(f.file(name, format))
		if os.IsNotExist(err) {
			continue // the form did not change in that format
		}
		if err == nil {
			_, err = f.Decode(data)
		}
		if err != nil {
			t.Errorf("%s of format %d can't be read any more: %v", name, format, err)
		}
		found++
	}
	if newest > 1 && found == 0 {
		t.Errorf("%s: no golden file of the form before format %d", name, newest)
	}
}

func (f Form[V]) names(t *testing.T) (names []string) {
	t.Helper()
	source, err := os.ReadFile(f.Source)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(source)) {
		if rest, ok := strings.CutPrefix(line, f.Before); ok {
			if name, _, ok := strings.Cut(rest, f.After); ok && !strings.ContainsAny(name, " *") {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("%s names no type", f.Source)
	}
	return names
}

func (f Form[V]) golden(t *testing.T, file string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	want, err := os.ReadFile(file)
	if os.IsNotExist(err) && f.Rewrite {
		if err = os.MkdirAll(filepath.Dir(file), 0o755); err == nil {
			err = os.WriteFile(file, pretty.Bytes(), 0o644)
		}
		want = pretty.Bytes()
	}
	if err != nil || !bytes.Equal(want, pretty.Bytes()) {
		t.Errorf("%s: servers of two versions read this form; a changed one is refused by the older (%v)\n%s",
			file, err, pretty.Bytes())
	}
}

// fill puts a recognisable value into every field.
func fill(v reflect.Value, name string) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)))
		return
	case v.Kind() == reflect.String:
		v.SetString(strings.ToLower(name))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), f.Name)
			}
		}
	default:
		panic(fmt.Sprintf("no sample of %s", v.Type()))
	}
}
