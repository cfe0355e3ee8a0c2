package supervisor

import (
	"encoding/json"
	"flag"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/testkit/frozen"
)

var rewrite = flag.Bool("rewrite", false, "write golden files that don't exist yet")

func golden(name string) frozen.Form {
	return frozen.Form{Name: "testdata/frozen/" + name, Newest: 1, Text: true, Rewrite: *rewrite}
}

// stateOne is a state with a value in every field of the first form.
func stateOne() State {
	return State{
		Attempt: "att_01000000000000000000000003_0_1", Epoch: 3, Slot: "rnr_1/0/7", Driver: "namespace",
		Sandbox: isolate.Spec{ID: "box", Dir: "/data/box", Choice: "cgroup", Mask: []string{"/data/keys"}, Network: "none",
			Limits: isolate.Limits{MemoryBytes: 1 << 30, PidsMax: 99}, Warm: "warm-1"},
		Effectful: true, Steps: []string{"Checkout", "Test <it>"}, Boot: "b0075", AbandonAt: 1 << 50, Pid: 1234, Born: "5678",
		Started: true, Warm: "/data/warm/1",
	}
}

// A runner that is replaced finds the jobs of the one before by what is in their folders.
// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenState(t *testing.T) {
	frozen.Full(t, stateOne())
	folder := Folder(t.TempDir())
	if err := folder.save(stateOne()); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(string(folder) + "/state.json")
	if err != nil {
		t.Fatal(err)
	}
	golden("state").Written(t, written)

	old := t.TempDir()
	if err := os.WriteFile(old+"/state.json", golden("state").Read(t, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Folder(old).Load(); err != nil || !reflect.DeepEqual(got, stateOne()) {
		t.Errorf("it is read as %+v, %v", got, err)
	}
	for want, got := range map[string]string{
		"/a/spool": Folder("/a").Spool(), "/a/box": Folder("/a").Box(), "/a/control.sock": Folder("/a").socket(),
	} {
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

// And it speaks with their supervisors, which are of the version before.
// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenControl(t *testing.T) {
	near, far := net.Pipe()
	said := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(far)
		said <- all
	}()
	h := &Handle{conn: near}
	h.Extend(1 << 50)
	h.Cancel("timeout", 1500*time.Millisecond)
	h.Kill()
	h.Acknowledge(70, 8)
	if err := json.NewEncoder(near).Encode(control{Op: evSpooled}); err != nil { // as supervisors do
		t.Fatal(err)
	}
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	form := golden("control")
	form.Written(t, <-said)
	want := []control{{Op: "extend", AbandonAt: 1 << 50}, {Op: "cancel", Reason: "timeout", GraceMS: 1500}, {Op: "kill"},
		{Op: "ack", Chunks: 70, Progress: 8}, {Op: "spooled"}}
	frozen.Full(t, want)
	var got []control
	for line := range strings.Lines(string(form.Read(t, 1))) {
		var c control
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		got = append(got, c)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("they are read as %+v", got)
	}
}
