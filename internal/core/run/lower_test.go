package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/codec/codectest"
)

// Every event and command with every field set, lowered to every format that may still be
// written, has exactly the form that its golden file of that format shows: nothing that the
// lower format does not know is ever written, and nothing that it knows gets lost.
func TestLoweredIsWhatTheLowerFormatKnows(t *testing.T) {
	for format := codec.Oldest; format <= codec.Format; format++ {
		for _, name := range eventNames() {
			sample := sampleOf(t, name)
			before := *asJSON(t, sample)
			lowered, err := Lower(sample, format)
			if err != nil {
				continue // no form in that format: nothing is written
			}
			data, err := EncodeEvents([]Event{lowered}, format)
			if err != nil {
				t.Fatal(err)
			}
			if format < codec.FormatPacked {
				sameAsGolden(t, "testdata/event/"+name, format, data)
			} else {
				sameAsPacked(t, "testdata/event/"+name, format, data)
			}
			if after := *asJSON(t, sample); before != after {
				t.Errorf("lowering changed the event itself: %s became %s", before, after)
			}
		}
		for _, zero := range allCommands() {
			lowered, err := LowerCommand(codectest.Sample(zero), format)
			if err != nil {
				continue
			}
			data, err := EncodeCommand(lowered)
			if err != nil {
				t.Fatal(err)
			}
			sameAsGolden(t, "testdata/command/"+zero.Name(), format, data)
		}
	}
}

func asJSON(t *testing.T, v any) *string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	return &text
}

// sameAsGolden compares with the newest golden file that is not of a later format.
func sameAsGolden(t *testing.T, stem string, format uint32, got []byte) {
	t.Helper()
	file := ""
	for f := format; f > 0 && file == ""; f-- {
		if _, err := os.Stat(fmt.Sprintf("%s.%d.json", stem, f)); err == nil {
			file = fmt.Sprintf("%s.%d.json", stem, f)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%s has no golden file for format %d: it must have no form there either", stem, format)
		return
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	if !bytes.Equal(want, pretty.Bytes()) {
		t.Errorf("lowered to format %d it is not what %s knows:\n%s", format, file,
			firstDifference(string(want), pretty.String()))
	}
}

// sameAsPacked is sameAsGolden for the packed form.
func sameAsPacked(t *testing.T, stem string, format uint32, got []byte) {
	t.Helper()
	for f := format; f >= codec.FormatPacked; f-- {
		if file := fmt.Sprintf("%s.%d.hex", stem, f); exists(file) {
			codectest.Packed(t, file, got, false)
			return
		}
	}
	t.Errorf("%s has no golden file for format %d: it must have no form there either", stem, format)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// A golden file of a format that the program does not know, or a format that brought
// nothing, would be a lie about what servers read.
func TestEveryFormatBroughtSomething(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*")
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`[A-Za-z]\.([0-9]+)\.(?:json|hex)$`)
	brought := map[int]bool{}
	for _, file := range files {
		if m := number.FindStringSubmatch(file); m != nil {
			n, _ := strconv.Atoi(m[1])
			brought[n] = true
		}
	}
	for n := range brought {
		if n < 1 || n > int(codec.Format) {
			t.Errorf("there are golden files of format %d, and the program has %d", n, codec.Format)
		}
	}
	for _, n := range []int{formatRunnerVersion, int(codec.FormatPacked), formatMatrix, formatCall} {
		if !brought[n] {
			t.Errorf("no golden file shows what format %d brought", n)
		}
	}
}
