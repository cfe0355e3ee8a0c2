// Package frozen checks stored and wire formats against golden files that are written once
// and never changed.
//
// It is deliberately not for output that may get better: pages, texts and decisions have golden
// files that are written anew.
//
// Invariants: a file that is there is never written; every file is in the list of digests
// frozen.sha256, so that an edited one is found.
//
// Read next: internal/testkit/frozen/list_test.go
package frozen

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Form is the golden files of one format: NAME.1, NAME.2 and so on, each as it was written by
// the releases of its time.
type Form struct {
	Name    string // "testdata/frozen/" and more, without the number
	Newest  int    // what is written today
	Text    bool   // the bytes are text, and lie there as they are; others lie there as a dump
	Rewrite bool   // write files that are not there
}

func (f Form) file(number int) string {
	if f.Text {
		return fmt.Sprintf("%s.%d.txt", f.Name, number)
	}
	return fmt.Sprintf("%s.%d.hex", f.Name, number)
}

// Written compares what is written today with the newest file.
func (f Form) Written(t *testing.T, got []byte) {
	t.Helper()
	if want := f.Once(t, func() []byte { return got }); !bytes.Equal(want, got) {
		t.Errorf("%s: what is stored is for ever; a changed form is a new number, and this one is read too. Now it is\n%s",
			f.file(f.Newest), f.shown(got))
	}
}

// Once gives the newest file. Where it is not there and may be written, it is what make makes:
// for bytes that depend on a compressor, or on time.
func (f Form) Once(t *testing.T, make func() []byte) []byte {
	t.Helper()
	file := f.file(f.Newest)
	if _, err := os.Stat(file); os.IsNotExist(err) && f.Rewrite {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(f.shown(make())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return f.Read(t, f.Newest)
}

func (f Form) shown(data []byte) string {
	if f.Text {
		return string(data)
	}
	return hex.Dump(data)
}

// Read gives the bytes of a form.
func (f Form) Read(t *testing.T, number int) []byte {
	t.Helper()
	text, err := os.ReadFile(f.file(number))
	if err != nil {
		t.Fatal(err)
	}
	if f.Text {
		return text
	}
	var all []byte
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(line, "|")
		if fields := strings.Fields(digits); len(fields) > 1 {
			row, err := hex.DecodeString(strings.Join(fields[1:], ""))
			if err != nil {
				t.Fatalf("%s: %v", f.file(number), err)
			}
			all = append(all, row...)
		}
	}
	return all
}

// Full demands a value in every field of a sample, also of those in it: a new field has to be
// set there, and so changes the form. Fields that this form can't have are named in except.
func Full(t *testing.T, sample any, except ...string) {
	t.Helper()
	missing := map[string]bool{}
	unset(reflect.ValueOf(sample), "", missing)
	for _, name := range except {
		if !missing[name] {
			t.Errorf("%T: field %s is set", sample, name)
		}
		delete(missing, name)
	}
	for name := range missing {
		t.Errorf("%T: field %s has no value: if it is new, it needs a form of the next number", sample, name)
	}
}

// unset names the fields without a value. Of a list, a field must be set in one element.
func unset(v reflect.Value, path string, missing map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		unset(v.Elem(), path, missing)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		var lacking map[string]bool
		for i := range v.Len() {
			of := map[string]bool{}
			unset(v.Index(i), path, of)
			for name := range lacking {
				if !of[name] {
					delete(lacking, name)
				}
			}
			if i == 0 {
				lacking = of
			}
		}
		for name := range lacking {
			missing[name] = true
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			name := strings.TrimPrefix(path+"."+field.Name, ".")
			if v.Field(i).IsZero() {
				missing[name] = true
			} else {
				unset(v.Field(i), name, missing)
			}
		}
	}
}
