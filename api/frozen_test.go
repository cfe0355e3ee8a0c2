package api_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

var rewrite = flag.Bool("rewrite", false, "write the list of a frozen contract that has none yet")

// contract lists everything that a client or a runner may rest on, in one line each.
func contract() (lines []string) {
	for _, file := range []protoreflect.FileDescriptor{
		fairleadv1.File_fairlead_v1_fairlead_proto, runnerv1.File_fairlead_runner_v1_runner_proto,
	} {
		lines = append(lines, messages(file.Messages())...)
		lines = append(lines, enums(file.Enums())...)
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for k := range methods.Len() {
				lines = append(lines, call(methods.Get(k)))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func messages(all protoreflect.MessageDescriptors) (lines []string) {
	for i := range all.Len() {
		m := all.Get(i)
		for k := range m.Fields().Len() {
			f := m.Fields().Get(k)
			typ := f.Kind().String()
			switch {
			case f.IsMap():
				typ = "map"
			case f.Message() != nil:
				typ = string(f.Message().FullName())
			case f.Enum() != nil:
				typ = string(f.Enum().FullName())
			}
			line := fmt.Sprintf("field %s = %d %s %s json %s", f.FullName(), f.Number(), f.Cardinality(), typ, f.JSONName())
			if o := f.ContainingOneof(); o != nil {
				line += " in " + string(o.Name())
			}
			lines = append(lines, line)
		}
		lines = append(lines, messages(m.Messages())...)
		lines = append(lines, enums(m.Enums())...)
	}
	return lines
}

func enums(all protoreflect.EnumDescriptors) (lines []string) {
	for i := range all.Len() {
		values := all.Get(i).Values()
		for k := range values.Len() {
			lines = append(lines, fmt.Sprintf("value %s %s = %d", all.Get(i).FullName(), values.Get(k).Name(),
				values.Get(k).Number()))
		}
	}
	return lines
}

func call(m protoreflect.MethodDescriptor) string {
	stream := map[bool]string{true: "stream "}
	line := fmt.Sprintf("call %s(%s%s) %s%s", m.FullName(), stream[m.IsStreamingClient()], m.Input().FullName(),
		stream[m.IsStreamingServer()], m.Output().FullName())
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	if rule == nil {
		return line
	}
	for method, path := range map[string]string{"GET": rule.GetGet(), "POST": rule.GetPost(), "PUT": rule.GetPut(),
		"PATCH": rule.GetPatch(), "DELETE": rule.GetDelete()} {
		if path != "" {
			line += " " + method + " " + path
		}
	}
	return line
}

// lost are the lines of a frozen contract that are not in today's.
func lost(frozen, today []string) []string {
	return slices.DeleteFunc(slices.Clone(frozen), func(line string) bool { return slices.Contains(today, line) })
}

// What a release promised on the wire stays: every field under its number, name and type, every
// value, every call with its path.
// Promises: [FORMAT-15].
func TestTheFrozenContractIsKept(t *testing.T) {
	folders, err := filepath.Glob("frozen/[0-9]*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no contract is frozen: %v", err)
	}
	today := contract()
	for _, folder := range folders {
		list := filepath.Join(folder, "contract.txt")
		text, err := os.ReadFile(list)
		if os.IsNotExist(err) && *rewrite {
			text = []byte(strings.Join(today, "\n") + "\n")
			err = os.WriteFile(list, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		promised := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if len(promised) < 100 {
			t.Errorf("%s promises %d things", list, len(promised))
		}
		for _, line := range lost(promised, today) {
			t.Errorf("%s promises what is not there any more: %s", list, line)
		}
	}
}

// Promises: [FORMAT-15].
func TestALostPromiseIsFound(t *testing.T) {
	today := contract()
	if got := lost([]string{"call gone", today[0]}, today); !slices.Equal(got, []string{"call gone"}) {
		t.Errorf("lost: %v", got)
	}
	if got := lost(today, slices.Delete(slices.Clone(today), 3, 4)); !slices.Equal(got, today[3:4]) {
		t.Errorf("lost: %v", got)
	}
}
