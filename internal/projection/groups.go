package projection

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/core/run"
)

// ofGroup says an event about a concurrency group in words; ok is false for any other. who is the
// key of a job, or the run.
func ofGroup(e run.Event, who string) (text, kind string, ok bool) {
	switch e := e.(type) {
	case *run.ConcurrencyAsked:
		return who + ": the name of its concurrency group is being evaluated.", kindWait, true
	case *run.GroupAsked:
		return fmt.Sprintf("%s asks for a place in the concurrency group %s.", who, e.Concurrency.Group), kindWait, true
	case *run.GroupJoined:
		text = fmt.Sprintf("%s has place %d in its concurrency group", who, e.Generation)
		for i, ahead := range e.Ahead {
			text += map[bool]string{true: ", behind ", false: ", "}[i == 0] + string(ahead)
		}
		return text + ".", kindWait, true
	case *run.GroupAdmitted:
		return fmt.Sprintf("%s is admitted by its concurrency group, at place %d.", who, e.Generation), kindRun, true
	case *run.GroupReplaced:
		return fmt.Sprintf("%s has to give its place in the concurrency group to %s.", who, e.By.Text()), kindWait, true
	case *run.GroupLeft:
		return fmt.Sprintf("%s gives its place in the concurrency group %s back.", who, e.Group), kindRun, true
	}
	return "", "", false
}
