package run

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

// fill puts a recognisable value into every field, so that a golden file shows them all.
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
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if v.Type().Elem().Kind() == reflect.Int {
			return // an index: zero is the one that exists
		}
		fill(v.Index(0), name)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Needs" {
				fill(v.Field(i), f.Name)
			}
		}
	default:
		panic(fmt.Sprintf("no sample of %s", v.Type()))
	}
}

// golden compares with a file that is written once and never changed.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	want, err := os.ReadFile(file)
	if os.IsNotExist(err) && *rewrite {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil || !bytes.Equal(want, pretty.Bytes()) {
		t.Errorf("%s: what is stored is for ever; a changed form is a new version, and the old one is lifted\n%s",
			file, firstDifference(string(want), pretty.String()))
	}
}

// Promises: [FORMAT-1].
// formsOfEvents is the format that brought the newest form of an event; the others have the
// form of format 1. A file of every earlier form stays beside the newest one for ever.
var formsOfEvents = map[string]int{"LeaseGranted": formatRunnerVersion}

// Promises: [FORMAT-1].
func TestStoredEvents(t *testing.T) {
	files, err := filepath.Glob("testdata/event/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range eventNames() {
		sample := newEvent(name)
		fill(reflect.ValueOf(sample).Elem(), name)
		data, err := EncodeEvents([]Event{sample})
		if err != nil {
			t.Fatal(err)
		}
		file := fmt.Sprintf("testdata/event/%s.%d.json", name, max(1, formsOfEvents[name]))
		golden(t, file, data)
		files = slices.DeleteFunc(files, func(f string) bool { return f == file })
		again, err := DecodeEvents(data)
		if err != nil || !reflect.DeepEqual(again, []Event{sample}) {
			t.Errorf("%s comes back as another event: %v", name, err)
		}
	}
	for _, file := range files { // of versions that are not written any more
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeEvents(data); err != nil {
			t.Errorf("%s can't be read any more: %v", file, err)
		}
	}
}

// eventNames finds the types in the source, so that a new one can't be forgotten here.
func eventNames() []string {
	source, err := os.ReadFile("event.go")
	if err != nil {
		panic(err)
	}
	var names []string
	for _, line := range strings.Split(string(source), "\n") {
		if rest, ok := strings.CutPrefix(line, "func (*"); ok && strings.Contains(rest, ") Name() string") {
			name, _, _ := strings.Cut(rest, ")")
			names = append(names, name)
		}
	}
	return names
}

// TestStoredState fails when the form of a checkpoint changes without a new StateEncoding:
// an old checkpoint would then be half understood.
// Promises: [FORMAT-1].
func TestStoredState(t *testing.T) {
	s := New()
	fill(reflect.ValueOf(s).Elem(), "state")
	data := EncodeState(s)
	golden(t, fmt.Sprintf("testdata/state/%d.json", StateEncoding), data)
	again, err := DecodeState(data)
	if err != nil || !bytes.Equal(EncodeState(again), data) {
		t.Errorf("a state comes back as another one: %v", err)
	}
}

// Promises: [FORMAT-2].
func TestDecodeRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `[{"t":"JobTeleported","d":{}}]`, `[{"t":"JobReady","d":{"at":"2026-01-01T00:00:00Z","job":0,"mood":1}}]`,
		`[{"t":"JobReady"}]`, `[{"t":"JobReady","d":[]}]`,
	} {
		if _, err := DecodeEvents([]byte(text)); err == nil {
			t.Errorf("decoded %s", text)
		}
	}
	if _, err := DecodeState([]byte(`{"version":1,"jobs":[{}]}`)); err == nil {
		t.Error("decoded a state with a job that the skeleton does not have")
	}
}

func FuzzDecodeEvents(f *testing.F) {
	files, _ := filepath.Glob("testdata/event/*.json")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := DecodeEvents(data)
		if err != nil {
			return
		}
		once, err := EncodeEvents(events)
		if err != nil {
			t.Fatalf("decoded but can't be encoded: %v", err)
		}
		again, err := DecodeEvents(once)
		if err != nil {
			t.Fatalf("encoded but can't be decoded: %v", err)
		}
		twice, err := EncodeEvents(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("the stored form is not stable: %s / %s", once, twice)
		}
	})
}
