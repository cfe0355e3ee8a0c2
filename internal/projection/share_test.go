package projection

import (
	"fmt"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// stored is a run as the store would give it back: with memory of its own.
func stored(t *testing.T, n byte, labels string) *run.State {
	t.Helper()
	q := run.Request{Run: domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 15: n})), Tenant: "tnt_a",
		Repository: "rep_a", RepositoryName: "a/b", Tier: domain.TierTrusted, Class: domain.ClassBatch, Number: uint64(n)}
	for i := range 3 {
		q.Skeleton = append(q.Skeleton, run.JobSkeleton{Index: i, Key: fmt.Sprint("job-", i), Name: "Job", TimeoutSeconds: 60,
			RunsOn: []string{labels}, Steps: []string{"Checkout", "Test"}})
	}
	d, rejection := run.Decide(run.New(), run.RequestRun{Request: q}, time.Unix(1_000_000, 0))
	if rejection != nil {
		t.Fatal(rejection)
	}
	data, err := run.EncodeEvents(d.Events, codec.Format)
	if err != nil {
		t.Fatal(err)
	}
	events, err := run.DecodeEvents(data)
	if err != nil {
		t.Fatal(err)
	}
	s := run.New()
	for _, e := range events {
		run.Evolve(s, e)
	}
	return s
}

// Runs of the same plan hold its jobs once, and are the runs that they were.
func TestRunsOfOnePlanShareIt(t *testing.T) {
	h := new(sharing)
	one, two, other := stored(t, 1, "linux"), stored(t, 2, "linux"), stored(t, 3, "mac")
	for n, s := range []*run.State{one, two, other} {
		h.run(s)
		if want := stored(t, byte(n+1), s.Skeleton(0).RunsOn[0]); !reflect.DeepEqual(s, want) {
			t.Errorf("run %d is another one afterwards:\n%+v\n%+v", n, s, want)
		}
	}
	if one.Skeleton(0) != two.Skeleton(0) || one.Skeleton(0) == other.Skeleton(0) {
		t.Error("the jobs of the same plan are not the same, or those of another are")
	}
	if unsafe.StringData(one.Request.RepositoryName) != unsafe.StringData(other.Request.RepositoryName) {
		t.Error("a word is held twice")
	}
}
