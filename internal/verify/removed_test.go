package verify

import (
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/logs"
)

// Logs that retention removed are counted, not damage; without the record of it they are.
// Promises: [LOG-16].
func TestRemovedLogsAreNoDamage(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		_, ref := w.Whole()
		w.Whole()
		w.Expire(w.Blobs, 7, time.Now().AddDate(0, 0, 9))
		if _, err := w.Blobs.Size(t.Context(), ref.Object); err == nil {
			t.Fatal("the log is still there")
		}
		r := w.verify(nil)
		expect(t, r)
		if r.Removed != 2 || r.Logs != 2 {
			t.Errorf("%d of %d logs were removed", r.Removed, r.Logs)
		}
		if err := w.Blobs.Delete(t.Context(), logs.RemovalKey(ref.Object)); err != nil {
			t.Fatal(err)
		}
		expect(t, w.verify(nil), ObjectMissing, ObjectMissing)
	})
}
