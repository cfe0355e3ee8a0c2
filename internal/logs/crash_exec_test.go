package logs

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/blob/file"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// crashFolder, when set, makes the test binary the process that is going to be killed.
const crashFolder = "FAIRLEAD_LOGS_CRASH_FOLDER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(crashFolder); folder != "" {
		if err := appendForEver(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// crashText is the text of a chunk of the crash test: some a few bytes, some many.
func crashText(stream int, sequence uint64) string {
	line := fmt.Sprintf("stream %d chunk %d\n", stream, sequence)
	if sequence%5 == 0 {
		line = strings.Repeat(line, 2000)
	}
	return line
}

// appendForEver continues each of three logs from where it stands and prints a line for
// every acknowledgement, after it came.
func appendForEver(folder string) error {
	store, err := file.Open(folder)
	if err != nil {
		return err
	}
	g, err := Open(context.Background(), store, Config{})
	if err != nil {
		return err
	}
	through := map[domain.AttemptID]uint64{}
	for _, l := range g.Live() {
		through[l.Attempt] = l.Through
	}
	failed := make(chan error)
	for stream := range 3 {
		go func() {
			a := attempt(stream)
			for sequence := through[a] + 1; ; sequence++ {
				// A repeat of the one before, as a runner sends that missed an answer.
				chunks := []Chunk{chunk(a, sequence, crashText(stream, sequence))}
				if sequence > 1 {
					chunks = append(chunks, chunk(a, sequence-1, crashText(stream, sequence-1)))
				}
				acks, err := g.Append(context.Background(), chunks)
				if err != nil || acks[0].Through != sequence || acks[0].Conflicts != 0 {
					failed <- fmt.Errorf("stream %d: %+v, %w", stream, acks, err)
					return
				}
				fmt.Printf("%d %d\n", stream, sequence)
			}
		}()
	}
	return <-failed
}

// Promises: [LOG-1].
func TestKillInTheMiddleOfAppend(t *testing.T) {
	folder := t.TempDir()
	acked := map[int]uint64{}
	for round := range 4 {
		kill(t, folder, acked, 60+20*round)
		store, err := file.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		g := open(t, store)
		if d := g.Damaged(); len(d) > 0 {
			t.Fatalf("round %d: damaged: %v", round, d)
		}
		if left, err := filepath.Glob(filepath.Join(folder, "tmp", "*")); err != nil || len(left) > 0 {
			t.Errorf("round %d: left behind: %v, %v", round, left, err)
		}
		for _, l := range g.Live() {
			stream := int(l.Attempt[len("att_")+25] - '0')
			if l.Through < acked[stream] {
				t.Errorf("round %d: %d of stream %d is acknowledged, %d is there", round, acked[stream], stream, l.Through)
			}
			var want strings.Builder
			for sequence := uint64(1); sequence <= l.Through; sequence++ {
				want.WriteString(crashText(stream, sequence))
			}
			if got := raw(t, reader(t, g, l.Attempt)); got != want.String() {
				t.Errorf("round %d: stream %d is not what was sent", round, stream)
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(acked) != 3 {
		t.Errorf("acknowledged: %v", acked)
	}
}

// kill runs the child until it has acknowledged n chunks more, then kills it on the spot.
func kill(t *testing.T, folder string, acked map[int]uint64, n int) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), crashFolder+"="+folder)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	seen := 0
	for lines.Scan() {
		var stream int
		var sequence uint64
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &stream, &sequence); err != nil {
			t.Errorf("child says %q", lines.Text())
		}
		acked[stream] = max(acked[stream], sequence)
		if seen++; seen == n {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || seen < n {
		t.Fatalf("child: %v after %d chunks", err, seen)
	}
}
