package projection

import (
	"fmt"
	"slices"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// causesMax bounds a cause chain; the timeline has the rest.
const causesMax = 20

// Place explains why a ready job has no runner yet; dispatch knows, the run does not.
// It may be nil.
type Place func(job domain.JobID) string

// Why explains a run, or one job of it (job is an id or a key; empty means the run and
// every job that is not simply done).
func Why(s *run.State, h engine.History, job string, place Place, contexts Contexts) (
	[]*fairleadv1.Explanation, *domain.Rejection) {
	line := Timeline(s, h.Events)
	of := newCauses(s, place, contexts)
	waits := map[int][]run.Wait{}
	for _, w := range run.Waits(s) {
		waits[w.Job] = append(waits[w.Job], w)
	}
	if job != "" {
		i := slices.IndexFunc(s.Request.Skeleton, func(k run.JobSkeleton) bool { return k.Key == job })
		if byID, ok := s.JobByID(domain.JobID(job)); ok {
			i = byID
		}
		if i < 0 {
			i = named(s, job)
		}
		if i < 0 {
			return nil, domain.Reject(domain.CodeNotFound, "The run has no such job; it has "+jobKeys(s)+".")
		}
		return []*fairleadv1.Explanation{tell(explainJob(s, i, line, waits[i], place), of.job(i, 1))}, nil
	}
	out := []*fairleadv1.Explanation{tell(explainRun(s, line), of.run())}
	for i := range s.Jobs {
		one := explainJob(s, i, line, waits[i], place)
		if i < storiesMax && s.Jobs[i].Outcome != domain.OutcomeSuccess {
			each := newCauses(s, place, contexts)
			each.github, each.inputs = of.github, of.inputs
			each.left = becauseMax / 10
			tell(one, each.job(i, 1))
			of.github, of.inputs = each.github, each.inputs
		}
		out = append(out, one)
	}
	return out, nil
}

// tell adds the tree of causes to an explanation.
func tell(e *fairleadv1.Explanation, f *fact) *fairleadv1.Explanation {
	e.Story, e.Because = f.story(), f.Because
	if f.is == "goes on" || f.Name == "" {
		e.Story = "The run " + f.is + ": " + f.Text + "."
		if len(f.children) > 0 {
			e.Story = strings.TrimSuffix(e.Story, ".") + "; " + f.children[0].story()
		}
	}
	return e
}

// named is the one job that is called so, -1 when none or several are.
func named(s *run.State, name string) int {
	at := -1
	for i := range s.Request.Skeleton {
		if s.Skeleton(i).Name != name {
			continue
		}
		if at >= 0 {
			return -1
		}
		at = i
	}
	return at
}

func jobKeys(s *run.State) string {
	var keys []string
	for i := range s.Request.Skeleton {
		keys = append(keys, s.Skeleton(i).Key)
	}
	return strings.Join(keys, ", ")
}

func explainRun(s *run.State, line []*fairleadv1.Sentence) *fairleadv1.Explanation {
	out := &fairleadv1.Explanation{Subject: string(s.Request.Run), Name: s.Request.WorkflowName,
		State: listState(s), Sentence: runReason(s)}
	for _, l := range line {
		switch l.GetEvent() {
		case "RunRequested", "RoundOpened", "CancelRequested", "RunConcluded":
			out.Causes = append(out.Causes, l)
		}
	}
	slices.Reverse(out.Causes)
	return out
}

// explainJob gives a job's reason, the chain of events that led to it (nearest first,
// through the dependencies that decided it), and what would end its wait.
func explainJob(
	s *run.State,
	i int,
	line []*fairleadv1.Sentence,
	waits []run.Wait,
	place Place,
) *fairleadv1.Explanation {
	j := s.Jobs[i]
	out := &fairleadv1.Explanation{Subject: string(s.JobID(i)), Name: s.Skeleton(i).Key, State: string(j.State),
		Sentence: s.Sentence(j.Reason)}
	if j.State == run.StateConcluded {
		out.State = string(j.Outcome)
	}
	if j.State == run.StateReady && place != nil {
		if text := place(s.JobID(i)); text != "" {
			out.Sentence += " " + text
		}
	}
	chain(s, i, line, out, map[int]bool{})
	for _, w := range waits {
		out.Endings = append(out.Endings, endings(s, w)...)
	}
	return out
}

// chain adds the events of a job, nearest first, then those of the jobs its reason names.
func chain(s *run.State, i int, line []*fairleadv1.Sentence, out *fairleadv1.Explanation, seen map[int]bool) {
	if seen[i] {
		return
	}
	seen[i] = true
	id := string(s.JobID(i))
	for n := len(line) - 1; n >= 0 && len(out.Causes) < causesMax; n-- {
		if line[n].GetJob() == id && line[n].GetEvent() != "ProgressReported" {
			out.Causes = append(out.Causes, line[n])
		}
	}
	for _, cause := range s.Jobs[i].Reason.Jobs {
		if cause >= 0 && cause < len(s.Jobs) {
			chain(s, cause, line, out, seen)
		}
	}
}

// endings says what ends a wait, for people.
func endings(s *run.State, w run.Wait) []*fairleadv1.Ending {
	var out []*fairleadv1.Ending
	for _, e := range w.EndedBy {
		end := &fairleadv1.Ending{Kind: e.Kind, At: Stamp(e.At)}
		switch e.Kind {
		case run.EndsByTimer:
			// With its day: a queue deadline is usually tomorrow's.
			end.Text = "the timer at " + e.At.UTC().Format(time.DateTime) + " UTC"
		case run.EndsByPerson:
			end.Text = "a person: " + e.What
		default:
			end.Text = "the event " + e.What
			if len(e.Jobs) > 0 && !(len(e.Jobs) == 1 && e.Jobs[0] == w.Job) {
				var keys []string
				for _, n := range e.Jobs {
					if n == group.Whole {
						keys = append(keys, "the run")
						continue
					}
					keys = append(keys, s.Skeleton(n).Key)
				}
				end.Text += fmt.Sprintf(" of %s", strings.Join(keys, ", "))
			}
		}
		out = append(out, end)
	}
	return out
}
