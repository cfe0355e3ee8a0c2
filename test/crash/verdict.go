package crash

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Judge waits until everything has concluded, and compares what is there with the book.
// Preconditions: the load has ended and everything is healed.
func (s *Siege) Judge(ctx context.Context) error {
	if err := s.settleDown(ctx); err != nil {
		return err
	}
	if err := s.world.read(); err != nil {
		return err
	}
	runs, err := s.compareRuns(ctx)
	if err != nil {
		return err
	}
	s.compareWorld(runs)
	if err := s.compareLogs(ctx, runs); err != nil {
		return err
	}
	if err := s.onceMore(ctx, runs); err != nil {
		return err
	}
	for _, text := range s.Book.check() {
		s.Book.finding("%s", text)
	}
	return nil
}

// settleDown repeats every key that nobody was told the run of, and waits until every run
// has concluded and every log is sealed. What waits for a person is decided.
func (s *Siege) settleDown(ctx context.Context) error {
	for _, o := range s.Book.allOrders() {
		for o.run == "" {
			if err := ctx.Err(); err != nil {
				return err
			}
			l := load{Siege: s, ctx: ctx, random: s.random, open: map[string]bool{}}
			if !l.ask(o, 0) {
				pause(ctx, 200*time.Millisecond)
			}
		}
	}
	last, moved := "", time.Now()
	for {
		_ = s.world.read()
		state, err := s.unfinished(ctx)
		switch {
		case err == nil && state == "":
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case state != last:
			last, moved = state, time.Now()
		case time.Since(moved) > calmPatience:
			s.Book.finding("stuck: nothing has moved for %s after healing:\n%s%s", calmPatience, state, s.lastWords())
			return fmt.Errorf("settle down: stuck (last error: %v)", err)
		}
		s.decideAll(ctx)
		pause(ctx, 500*time.Millisecond)
	}
}

// lastWords are the ends of the programs' logs: whoever reads of a siege that is stuck has
// nothing else when the machine is gone.
func (s *Siege) lastWords() string {
	var out strings.Builder
	for _, v := range s.servers {
		fmt.Fprintf(&out, "%s says last:\n%s\n", v.name, v.tail(4<<10))
	}
	for _, r := range s.runners {
		fmt.Fprintf(&out, "%s says last:\n%s\n", r.program.name, r.tail(4<<10))
	}
	return out.String()
}

// unfinished describes everything that has not come to its end; "" when all has.
func (s *Siege) unfinished(ctx context.Context) (string, error) {
	s.lookAfter(ctx)
	var out strings.Builder
	open, err := s.list(ctx, "open")
	if err != nil {
		return "the server does not answer", err
	}
	for _, r := range open {
		run, err := s.look(ctx, 0, r.GetRun())
		if err != nil {
			return "the server does not answer", err
		}
		fmt.Fprintf(&out, "%s version %d:", r.GetRun(), run.GetVersion())
		for _, j := range run.GetJobs() {
			fmt.Fprintf(&out, " %s is %s (%s)", j.GetKey(), j.GetState(), j.GetReason())
		}
		out.WriteString("\n")
	}
	if out.Len() > 0 {
		return out.String(), nil
	}
	for _, id := range s.Book.knownRuns() {
		run, err := s.look(ctx, 0, id)
		if err != nil {
			return "the server does not answer", err
		}
		for _, j := range run.GetJobs() {
			for _, a := range j.GetAttempts() {
				if !a.GetLog().GetSealed() {
					fmt.Fprintf(&out, "the log of %s is not sealed\n", a.GetId())
				}
			}
		}
	}
	return out.String(), nil
}

// compareRuns asks for every run, repeats every key, and looks for runs that nobody
// asked for.
func (s *Siege) compareRuns(ctx context.Context) (map[string]*fairleadv1.Run, error) {
	out := map[string]*fairleadv1.Run{}
	for _, o := range s.Book.allOrders() {
		l := load{Siege: s, ctx: ctx, random: s.random, open: map[string]bool{}}
		for !l.ask(o, 0) && ctx.Err() == nil {
			pause(ctx, 200*time.Millisecond)
		}
	}
	for _, id := range s.Book.knownRuns() {
		run, err := s.look(ctx, 0, id)
		if err != nil {
			s.Book.finding("run %s was accepted and can't be read: %v", id, err)
			continue
		}
		out[id] = run
		s.compareRun(run)
	}
	list, err := s.list(ctx, "")
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	strangers := 0
	for _, r := range list {
		if listed[r.GetRun()] {
			s.Book.finding("run %s is listed twice", r.GetRun())
		}
		listed[r.GetRun()] = true
		if out[r.GetRun()] == nil {
			strangers++
		}
	}
	if strangers -= len(s.sources); strangers != 0 { // one introduced each repository
		s.Book.finding("%d runs are listed that no key created", strangers)
	}
	for id := range out {
		if !listed[id] {
			s.Book.finding("run %s was accepted and is not listed", id)
		}
	}
	return out, nil
}

// compareRun compares one run with what was acknowledged of it.
func (s *Siege) compareRun(run *fairleadv1.Run) {
	b := s.Book
	b.mu.Lock()
	defer b.mu.Unlock()
	id, k := run.GetRun(), b.runs[run.GetRun()]
	if run.GetOutcome() == "" {
		b.note("run %s has no outcome", id)
	}
	rounds := len(run.GetRounds())
	if k.retried && rounds < 2 {
		b.note("the retry of %s was acknowledged, and it has %d round", id, rounds)
	}
	if rounds > 2 || rounds == 2 && !k.retried && k.sort.file != "fails.yml" {
		b.note("run %s has %d rounds, which nobody asked for", id, rounds)
	}
	if k.cancels && rounds == 1 && run.GetDesired() != "cancel" {
		b.note("the cancellation of %s was acknowledged, and %q is desired", id, run.GetDesired())
	}
	for _, j := range run.GetJobs() {
		live := 0
		for i, a := range j.GetAttempts() {
			if int(a.GetNumber()) != i+1 {
				b.note("the attempts of %s are not numbered 1, 2, 3: %d stands at %d", j.GetId(), a.GetNumber(), i+1)
			}
			if i > 0 && a.GetEpoch() <= j.GetAttempts()[i-1].GetEpoch() {
				b.note("the epochs of %s do not grow", j.GetId())
			}
			if a.GetOutcome() == "" {
				live++
			} else {
				b.Facts.Results++
				b.Facts.Outcomes[strings.TrimSuffix(a.GetOutcome()+" "+a.GetFailureClass(), " ")]++
			}
			if known := b.attempts[a.GetId()]; known != nil && known.settled && a.GetOutcome() != "lost" {
				b.note("attempt %s was settled by a person, and its outcome is %q", a.GetId(), a.GetOutcome())
			}
		}
		if live > 0 {
			b.note("%d attempts of %s have no outcome although the run has", live, j.GetId())
		}
		s.oneResult(run, j)
	}
}

// oneResult wants at most one attempt of a round whose result is the job's. The caller
// holds the book.
func (s *Siege) oneResult(run *fairleadv1.Run, j *fairleadv1.Job) {
	successes := map[int32]int{}
	for _, a := range j.GetAttempts() {
		if a.GetOutcome() == "success" {
			successes[a.GetRound()]++
		}
	}
	for round, n := range successes {
		if n > 1 {
			s.Book.note("job %s has %d successful attempts in round %d", j.GetId(), n, round)
		}
	}
	if run.GetOutcome() == "success" && j.GetOutcome() != "success" && j.GetOutcome() != "skipped" {
		s.Book.note("run %s succeeded with job %s %s", run.GetRun(), j.GetId(), j.GetOutcome())
	}
}

// compareWorld compares what jobs did with what was committed of them.
func (s *Siege) compareWorld(runs map[string]*fairleadv1.Run) {
	b, marks := s.Book, s.world.all()
	for _, line := range s.world.bad {
		b.finding("the world holds a line that no job writes: %q", line)
	}
	for attempt, n := range begun(marks) {
		if n > 1 {
			b.finding("attempt %s began %d times", attempt, n)
		}
	}
	effectful, did := map[domain.JobID]bool{}, map[domain.AttemptID]map[string]int{}
	for _, m := range marks {
		if did[m.Attempt] == nil {
			did[m.Attempt] = map[string]int{}
		}
		did[m.Attempt][m.Verb]++
	}
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		for _, j := range runs[id].GetJobs() {
			effectful[domain.JobID(j.GetId())] = j.GetEffectful()
			s.compareJob(j, did)
		}
	}
	var sound []Mark
	excused := map[Mark]bool{}
	for _, o := range overlaps(marks) {
		if !effectful[o.mark.Job] && woken(o.mark, s.sleeps, leaseTTL) {
			excused[o.mark] = true
			b.Facts.Woken++
			continue
		}
		b.finding("attempt %s did %q at %s (seen at %s), after %s had begun", o.mark.Attempt, o.mark.Verb, o.mark.At,
			o.mark.Seen, o.later)
	}
	for _, m := range marks {
		if _, ours := runs[string(m.Attempt.Run())]; ours && !excused[m] {
			sound = append(sound, m)
		}
	}
	b.Facts.Marks = len(marks)
	b.acts(sound)
}

// compareJob compares a job's committed attempts with their marks.
func (s *Siege) compareJob(j *fairleadv1.Job, did map[domain.AttemptID]map[string]int) {
	undecided := map[int32]string{} // by round: an attempt that acted and that nobody decided on
	for _, a := range j.GetAttempts() {
		marks := did[domain.AttemptID(a.GetId())]
		if a.GetOutcome() == "success" && (marks["begin"] != 1 || marks["end"] != 1) {
			s.Book.finding("attempt %s is committed as success, and the world shows %v", a.GetId(), marks)
		}
		if !j.GetEffectful() {
			continue
		}
		if before := undecided[a.GetRound()]; before != "" && marks["begin"] > 0 {
			s.Book.finding("effectful %s acted although nobody had decided about %s", a.GetId(), before)
		}
		if marks["begin"] > 0 && !s.Book.isDecided(a.GetId()) {
			undecided[a.GetRound()] = a.GetId()
		}
		if marks["effect"] > 1 {
			s.Book.finding("effectful attempt %s had its effect %d times", a.GetId(), marks["effect"])
		}
	}
}

// compareLogs reads every log once more. What was shown while it was followed must be
// there, and what an attempt printed that succeeded must be there to the byte.
func (s *Siege) compareLogs(ctx context.Context, runs map[string]*fairleadv1.Run) error {
	c, err := s.client(0, client.Options{})
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		kind := s.Book.runs[id].sort
		for _, j := range runs[id].GetJobs() {
			spec, ok := kind.job(j.GetKey())
			if !ok {
				s.Book.finding("run %s of %s has a job %s", id, kind.file, j.GetKey())
				continue
			}
			for _, a := range j.GetAttempts() {
				body, err := c.RawLog(ctx, a.GetId(), -1, 0)
				if err != nil {
					return fmt.Errorf("read the log of %s: %w", a.GetId(), err)
				}
				content, err := io.ReadAll(body)
				_ = body.Close()
				if err != nil {
					return fmt.Errorf("read the log of %s: %w", a.GetId(), err)
				}
				s.compareLog(a, spec, string(content))
			}
		}
	}
	return nil
}

func (s *Siege) compareLog(a *fairleadv1.Attempt, spec kindOfJob, content string) {
	b := s.Book
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.attempts[a.GetId()]; known != nil && !strings.HasPrefix(content, string(known.log)) {
		b.note("%d bytes of the log of %s were shown, and are not what its %d bytes begin with", len(known.log),
			a.GetId(), len(content))
	}
	if a.GetLog().GetGaps() > 0 && a.GetOutcome() == "success" {
		b.note("the log of %s has %d gaps", a.GetId(), a.GetLog().GetGaps())
	}
	var whole strings.Builder
	for n := range spec.lines {
		whole.WriteString(lineOf(a.GetId(), n+1))
	}
	at := strings.Index(content, "line 1 of ")
	if at < 0 {
		at = len(content)
	}
	own := content[at:]
	switch {
	case a.GetOutcome() == "success" && !strings.HasPrefix(own, whole.String()):
		b.note("the log of %s, which succeeded, does not hold all its lines: %s", a.GetId(),
			firstDifference(own, whole.String()))
	case a.GetOutcome() != "success" && a.GetLog().GetGaps() == 0 && !a.GetLog().GetTruncated():
		// What comes behind the beginning may be a word of the runner's own, and no line.
		if n := same(own, whole.String()); strings.Contains(own[n:], " of "+a.GetId()) {
			b.note("the log of %s (%s) is not a beginning of what it printed: %s", a.GetId(), a.GetOutcome(),
				firstDifference(own, whole.String()))
		}
	}
}

// same is how many bytes two texts begin with alike.
func same(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// firstDifference says where two texts part.
func firstDifference(got, want string) string {
	n := same(got, want)
	return fmt.Sprintf("at byte %d of %d: %.60q, want %.60q", n, len(got), got[n:], want[n:])
}

// onceMore kills the servers a last time, when nothing is under way any more, and wants
// everything to be as it was: runs, and every token that was ever handed out.
func (s *Siege) onceMore(ctx context.Context, runs map[string]*fairleadv1.Run) error {
	for _, r := range s.runners {
		if !r.end(syscall.SIGTERM, endPatience) {
			s.Book.finding("%s does not end on SIGTERM within %s", r.program.name, endPatience)
		}
	}
	for _, v := range s.servers {
		v.end(syscall.SIGKILL, endPatience)
	}
	for _, v := range s.servers {
		if err := v.start(); err != nil {
			return err
		}
		if err := s.awaitReady(v.program); err != nil {
			return err
		}
	}
	if err := s.presentTokens(ctx); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		again, err := s.look(ctx, 0, id)
		if err != nil {
			s.Book.finding("run %s can't be read after a restart: %v", id, err)
			continue
		}
		if was := runs[id]; again.GetVersion() != was.GetVersion() || again.GetOutcome() != was.GetOutcome() {
			s.Book.finding("run %s was %s at version %d, and is %s at version %d after a restart", id,
				was.GetOutcome(), was.GetVersion(), again.GetOutcome(), again.GetVersion())
		}
	}
	for _, v := range s.servers {
		if !v.end(syscall.SIGTERM, endPatience) {
			s.Book.finding("%s does not end on SIGTERM within %s", v.name, endPatience)
		}
	}
	return s.audit(ctx)
}

// presentTokens shows every acknowledgement to the server, oldest first: it compares each
// with its history, and would pass over one that lies before another it has compared.
func (s *Siege) presentTokens(ctx context.Context) error {
	b := s.Book
	b.mu.Lock()
	tokens := slices.SortedFunc(maps.Keys(b.tokens), func(x, y domain.Token) int {
		if x.Partition != y.Partition {
			return strings.Compare(string(x.Partition), string(y.Partition))
		}
		return int(min(max(int64(x.Position)-int64(y.Position), -1), 1))
	})
	b.Facts.Tokens = len(tokens)
	b.mu.Unlock()
	known := b.knownRuns()
	if len(known) == 0 {
		return nil
	}
	for _, token := range tokens {
		_, err := s.caller(0).Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: known[0], Token: token.String()})
		if err != nil {
			b.finding("the acknowledgement %s is not honoured: %v", token, err)
			if kind, _ := s.meaning(err); kind == silent {
				return fmt.Errorf("present %s: %w", token, err)
			}
		}
	}
	return nil
}
