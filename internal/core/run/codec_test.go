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

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/codec/codectest"
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
var formsOfEvents = map[string]int{"LeaseGranted": formatRunnerVersion, "RunRequested": formatCall,
	"MatrixAsked": formatMatrix, "MatrixExpanded": formatCall, "RoundOpened": formatMatrix,
	"AttemptConcluded": formatMatrix, "CallAsked": formatCall, "CallOpened": formatCall, "JobConcluded": formatCall,
	"ConcurrencyAsked": formatCall, "GroupAsked": formatCall, "GroupJoined": formatCall,
	"GroupAdmitted": formatCall, "GroupReplaced": formatCall, "GroupLeft": formatCall}

// Promises: [FORMAT-1].
func TestStoredEvents(t *testing.T) {
	files, err := filepath.Glob("testdata/event/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range eventNames() {
		sample := sampleOf(t, name)
		for _, format := range []uint32{codec.FormatPacked - 1, codec.Format} {
			data, err := EncodeEvents([]Event{sample}, format)
			if err != nil {
				t.Fatal(err)
			}
			file := fmt.Sprintf("testdata/event/%s.%d.json", name, max(1, formsOfEvents[name]))
			if format < codec.FormatPacked {
				golden(t, file, data)
			} else {
				file = fmt.Sprintf("testdata/event/%s.%d.hex", name, max(codec.FormatPacked, uint32(formsOfEvents[name])))
				codectest.Packed(t, file, data, *rewrite)
			}
			files = slices.DeleteFunc(files, func(f string) bool { return f == file })
			again, err := DecodeEvents(data)
			if err != nil || !reflect.DeepEqual(again, []Event{sample}) {
				t.Errorf("%s comes back as another event from format %d: %v", name, format, err)
			}
		}
	}
	for _, file := range files { // of versions that are not written any more
		if _, err := DecodeEvents(stored(t, file)); err != nil {
			t.Errorf("%s can't be read any more: %v", file, err)
		}
	}
}

// sampleOf is an event with a value in every field.
func sampleOf(t *testing.T, name string) Event {
	t.Helper()
	sample, ok := form.New(name)
	if !ok {
		t.Fatalf("%s has no stored form", name)
	}
	fill(reflect.ValueOf(sample).Elem(), name)
	return sample
}

// stored gives the bytes of a golden file of either form.
func stored(t testing.TB, file string) []byte {
	t.Helper()
	if strings.HasSuffix(file, ".hex") {
		return codectest.ReadPacked(t, file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
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
	codectest.Packed(t, fmt.Sprintf("testdata/state/%d.hex", StateEncoding), data, *rewrite)
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
	for _, s := range []*State{{Version: 1, Jobs: []*Job{{}}}, {Version: 1, Jobs: []*Job{nil}}} {
		if _, err := DecodeState(EncodeState(s)); err == nil {
			t.Error("decoded a state with a job that the skeleton does not have")
		}
	}
}

func FuzzDecodeEvents(f *testing.F) {
	files, _ := filepath.Glob("testdata/event/*")
	for _, file := range files {
		f.Add(stored(f, file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := DecodeEvents(data)
		if err != nil {
			return
		}
		for _, format := range []uint32{codec.FormatPacked - 1, codec.Format} {
			once, err := EncodeEvents(events, format)
			if err != nil {
				t.Fatalf("decoded but can't be encoded: %v", err)
			}
			again, err := DecodeEvents(once)
			if err != nil {
				t.Fatalf("encoded but can't be decoded: %v", err)
			}
			twice, err := EncodeEvents(again, format)
			if err != nil || !bytes.Equal(once, twice) {
				t.Fatalf("the stored form is not stable: %s / %s", once, twice)
			}
		}
	})
}
