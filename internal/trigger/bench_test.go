package trigger

import (
	"testing"

	"github.com/fairlead-ci/fairlead/internal/capture"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

// BenchmarkAccept is the server's share of `fairlead run` on a commit that it has: from
// the request to the committed run, with git real, and store and objects in memory.
func BenchmarkAccept(b *testing.B) {
	w := newWorld(b, false)
	repo := scmtest.NewRepo(b)
	tip := repo.Write(".fairlead/workflows/ci.yml", onPush).Commit("ci")
	w.add("app", repo)
	r := Request{Repository: "app", Commit: tip, Captured: true}
	w.mustRun(r)
	for b.Loop() {
		w.mustRun(r)
	}
}

// BenchmarkCapture is the client's share: to look at a repository and name its commit.
func BenchmarkCapture(b *testing.B) {
	for _, dirty := range []bool{false, true} {
		name := map[bool]string{false: "clean", true: "dirty"}[dirty]
		b.Run(name, func(b *testing.B) {
			repo := scmtest.NewRepo(b)
			repo.Write("a", "1", "b", "1").Commit("first")
			if dirty {
				repo.Write("a", "2", "c", "1")
			}
			for b.Loop() {
				tree, err := capture.Open(b.Context(), repo.Dir)
				if err != nil {
					b.Fatal(err)
				}
				c, err := tree.Take(b.Context(), false)
				if err != nil {
					b.Fatal(err)
				}
				if err := c.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
