package run

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

var rewrite = flag.Bool("rewrite", false, "write what happened into the files that say what should")

// TestScenarios runs every file of testdata. A file is a story: commands, a line of dashes,
// and the exact events that follow, or the reason of refusal.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(text), "# ") {
				t.Fatalf("%s: the first line does not say what is shown", file)
			}
			got := playScenario(t, string(text))
			if got == string(text) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s: what happened differs; -rewrite accepts it\n%s", file, firstDifference(string(text), got))
		})
	}
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("line %d\n want %s\n got  %s", i+1, x, y)
		}
	}
	return "no difference"
}

// playScenario runs a story and returns it with what happened in place of what should.
func playScenario(t *testing.T, text string) string {
	t.Helper()
	teller := &teller{world: newWorld()}
	var out []string
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		if lines[i] == "" || strings.HasPrefix(lines[i], "#") {
			out = append(out, lines[i])
			continue
		}
		var block []string
		for ; i < len(lines) && lines[i] != "----"; i++ {
			block = append(block, lines[i])
		}
		for i++; i < len(lines) && lines[i] != ""; i++ { // what should happen
		}
		happened, err := teller.tell(block)
		if err != nil {
			t.Fatalf("%s: %v", strings.Join(block, " / "), err)
		}
		out = append(out, block...)
		out = append(out, "----")
		out = append(out, happened...)
		if i < len(lines) {
			out = append(out, "")
		}
	}
	again, err := teller.replayAll()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(EncodeState(again), EncodeState(teller.live)) {
		t.Fatalf("the state rebuilt from the stored events is another one\nlive   %s\nreplay %s",
			stateText(teller.live), stateText(again))
	}
	return strings.Join(out, "\n") + "\n"
}

// teller turns lines of a story into commands and events into lines.
type teller struct {
	*world
	slots int
}

type words struct {
	plain []string
	named map[string]string
}

func (w words) at(i int) string {
	if i < len(w.plain) {
		return w.plain[i]
	}
	return ""
}

func split(line string) words {
	w := words{named: map[string]string{}}
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		end := 0
		for quoted := false; end < len(line) && (quoted || line[end] != ' '); end++ {
			if line[end] == '"' {
				quoted = !quoted
			}
		}
		word := line[:end]
		line = line[end:]
		name, value, ok := strings.Cut(word, "=")
		if ok && !strings.HasPrefix(word, `"`) {
			w.named[name] = strings.Trim(value, `"`)
		} else {
			w.plain = append(w.plain, strings.Trim(word, `"`))
		}
	}
	return w
}

func (t *teller) tell(block []string) ([]string, error) {
	w := split(block[0])
	if at, ok := w.named["at"]; ok {
		since, err := parseClock(at)
		if err != nil {
			return nil, err
		}
		t.now = start.Add(since)
	}
	if w.at(0) == "show" {
		return t.show(), nil
	}
	if w.at(0) == "waits" {
		return t.waits(), nil
	}
	c, err := t.command(w, block[1:])
	if err != nil {
		return nil, err
	}
	d, rejection, err := t.do(c)
	if err != nil {
		return nil, err
	}
	return t.lines(d, rejection), nil
}

func (t *teller) lines(d Decision, rejection *domain.Rejection) []string {
	if rejection != nil {
		return []string{"rejected " + string(rejection.Code) + ": " + rejection.Message}
	}
	var out []string
	for _, e := range d.Events {
		out = append(out, traceEvent(t.live, e))
	}
	if len(out) == 0 {
		out = append(out, "nothing new")
	}
	if r, ok := d.Reply.(LeaseReply); ok && r.Repeat {
		out = append(out, fmt.Sprintf("reply: attempt %d again, epoch %d", r.Number, r.Epoch))
	}
	if d.Refusal != nil {
		out = append(out, "refused "+string(d.Refusal.Code))
	}
	return out
}

func parseClock(text string) (time.Duration, error) {
	var h, m, s int
	if _, err := fmt.Sscanf(text, "%d:%d:%d", &h, &m, &s); err != nil {
		return 0, fmt.Errorf("parse clock %q: %w", text, err)
	}
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second, nil
}

func (w words) duration(name string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(w.named[name]); err == nil {
		return d
	}
	return otherwise
}

func (w words) clock(name string) time.Time {
	since, err := parseClock(w.named[name])
	if err != nil {
		return time.Time{}
	}
	return start.Add(since)
}

func (w words) number(name string, otherwise int) int {
	if n, err := strconv.Atoi(w.named[name]); err == nil {
		return n
	}
	return otherwise
}

func (t *teller) command(w words, more []string) (Command, error) {
	cause := by("ada")
	if name := w.named["by"]; name != "" {
		cause = by(name)
	}
	switch w.at(0) {
	case "request":
		return t.requestOf(w, more, cause), nil
	case "lease":
		return t.leaseOf(w)
	case "cancel":
		return RequestCancel{Cause: cause, Reason: w.named["reason"]}, nil
	case "wake":
		return Wake{}, nil
	case "evaluate":
		return t.evaluationOf(w)
	case "matrix":
		return t.matrixOf(w)
	case "call":
		return t.callOf(w)
	case "place":
		return t.placeOf(w)
	case "concurrency":
		return t.concurrencyOf(w)
	case "rerun":
		return t.rerunOf(w, cause)
	}
	id, a, err := t.attemptOf(w.at(1))
	if err != nil {
		return nil, err
	}
	epoch := uint64(w.number("epoch", int(a.Epoch)))
	until := t.now.Add(w.duration("ttl", time.Minute))
	switch w.at(0) {
	case "decline":
		return DeclineLease{Attempt: id, Epoch: epoch, Reason: w.named["reason"]}, nil
	case "progress":
		return ReportProgress{Attempt: id, Epoch: epoch, Observed: domain.Observed(w.at(2)), Steps: t.stepsOf(w),
			At: t.now}, nil
	case "report":
		return t.resultOf(w, id, epoch), nil
	case "lapse":
		return LapseLease{Attempt: id, Epoch: epoch, LastSeen: w.clock("last-seen"), AbandonBy: w.clock("abandon-by")}, nil
	case "regain":
		return RegainLease{Attempt: id, Epoch: epoch, Until: until, AbandonBy: until.Add(30 * time.Second)}, nil
	case "settle":
		return Settle{
			Cause: cause, Attempt: id, Effect: domain.SideEffect(w.named["effect"]), Then: w.named["then"],
			Note: w.named["note"],
		}, nil
	case "log":
		return RecordLog{Attempt: id, Log: logOf(w)}, nil
	case "refuse":
		return RefuseAccess{
			Attempt: id, Epoch: epoch, What: w.at(2), Message: w.named["message"], Count: uint64(w.number("count", 0)),
		}, nil
	}
	return nil, fmt.Errorf("unknown command %q", w.at(0))
}

func logOf(w words) Log {
	l := Log{Bytes: int64(w.number("bytes", 0)), Lines: int64(w.number("lines", 0))}
	if l.Bytes > 0 {
		l.Object, l.Length, l.Digest = "logs/o1", l.Bytes, domain.DigestOf([]byte("log"))
	}
	return l
}

func (t *teller) requestOf(w words, more []string, cause domain.Cause) Command {
	var jobs, legs []JobSkeleton
	index := map[string]int{}
	var invalid []string
	for _, line := range more {
		jw := split(line)
		if jw.at(0) == "invalid" {
			invalid = append(invalid, jw.at(1))
			continue
		}
		k := JobSkeleton{Key: jw.at(1), If: jw.named["if"], Effectful: has(jw, "effectful"), SoftFail: has(jw, "may-fail")}
		for _, need := range list(jw.named["needs"]) {
			n, ok := index[need]
			if !ok {
				n = 99
			}
			k.Needs = append(k.Needs, n)
		}
		k.TimeoutSeconds = int64(jw.duration("timeout", time.Hour).Seconds())
		k.QueueTimeoutSeconds = int64(jw.duration("queue", 0).Seconds())
		k.RunsOn = list(jw.named["runs-on"])
		k.Steps = []string{"build", "test", "publish"}
		k.Retry = Retry{Max: jw.number("retries", 2), BackoffSeconds: int64(jw.duration("backoff", 0).Seconds())}
		k.Retry.On = []domain.FailureClass{domain.FailureRunnerLost, domain.FailurePlatform}
		for _, class := range list(jw.named["retry-on"]) {
			k.Retry.On = append(k.Retry.On, domain.FailureClass(class))
		}
		k.Concurrency = withConcurrency(jw)
		index[k.Key] = len(jobs)
		jobs = append(jobs, withGroup(withCall(k, jw), jw))
		for n := range jw.number("legs", 0) {
			legs = append(legs, JobSkeleton{
				Key: legKey(k.Key, n+1), TimeoutSeconds: k.TimeoutSeconds, Retry: k.Retry, Effectful: k.Effectful,
				SoftFail: k.SoftFail || jw.number("may-fail", 0) == n+1, Leg: &Leg{Of: index[k.Key]}, Call: jobs[len(jobs)-1].Call,
				Concurrency: k.Concurrency,
			})
		}
	}
	all := append(jobs, legs...)
	for i := range all {
		if caller, id, ok := cutLast(all[i].Key, "/"); ok && all[i].Leg == nil {
			in := slices.IndexFunc(all, func(k JobSkeleton) bool { return k.Key == caller })
			all[i].In, all[i].ID = &in, id
		}
	}
	c := testRequest(all...)
	c.Cause = cause
	c.Request.Invalid = invalid
	if g := withConcurrency(w); g != nil {
		c.Request.Concurrency = &g.Concurrency
	}
	if tier := w.named["tier"]; tier != "" {
		c.Request.Tier = domain.Tier(tier)
	}
	return c
}

// withGroup makes a job one with a matrix: legs=2 parallel=1 no-fail-fast, or later.
func withGroup(k JobSkeleton, w words) JobSkeleton {
	if w.number("legs", 0) > 0 || has(w, "later") {
		k.Group = &Group{FailFast: !has(w, "no-fail-fast"), MaxParallel: w.number("parallel", 0), Later: has(w, "later")}
	}
	return k
}

// withCall makes a job one that calls a workflow: calls, or calls=ask, and outputs. The jobs that it
// calls have its key and a slash before theirs.
func withCall(k JobSkeleton, w words) JobSkeleton {
	ask := w.named["calls"] == "ask"
	if ask || has(w, "calls") {
		k.Call, k.Steps = &CallSkeleton{Ask: ask, Outputs: has(w, "outputs")}, nil
		if !ask {
			k.Call.Inputs = `{"x":1}`
		}
	}
	return k
}

func cutLast(text, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return "", "", false
	}
	return text[:i], text[i+len(sep):], true
}

// callOf reads "call test inputs" and "call test outputs=id:x".
func (t *teller) callOf(w words) (Command, error) {
	j, err := t.jobOf(w.at(1))
	if err != nil {
		return nil, err
	}
	c := RecordCall{Job: t.live.JobID(j), What: w.at(2), Error: w.named["error"]}
	if c.What == CallAsksInputs {
		c.Inputs = CallInputs{Value: `{"x":2}`}
	}
	for _, o := range list(w.named["outputs"]) {
		name, value, _ := strings.Cut(o, ":")
		c.Outputs = append(c.Outputs, Output{Name: name, Value: value})
	}
	if j < len(t.live.Jobs) && t.live.Jobs[j].Evaluation != nil {
		c.InputDigest = t.live.Jobs[j].Evaluation.InputDigest
	}
	if has(w, "stale") {
		c.InputDigest = domain.DigestOf([]byte("inputs of another time"))
	}
	return c, nil
}

// withConcurrency makes a job, or the run, a member of a group: group=g cancel-running keep-all, or
// named-later.
func withConcurrency(w words) *JobConcurrency {
	if w.named["group"] == "" && !has(w, "named-later") {
		return nil
	}
	c := Concurrency{w.named["group"], has(w, "cancel-running"), has(w, "keep-all")}
	return &JobConcurrency{c, has(w, "named-later")}
}

// placeOf reads "place test admitted generation=1 by=run9 ahead=run8"; the job "run" is the run.
func (t *teller) placeOf(w words) (Command, error) {
	c := RecordPlace{Job: group.Whole, Round: w.number("round", t.live.Round()), Phase: w.at(2),
		Generation: uint64(w.number("generation", 1))}
	if w.at(1) != "run" {
		j, err := t.jobOf(w.at(1))
		if err != nil {
			return nil, err
		}
		c.Job = j
	}
	if by := w.named["by"]; by != "" {
		c.By = group.Successor{Run: domain.RunID(by), Number: 9}
	}
	for _, r := range list(w.named["ahead"]) {
		c.Ahead = append(c.Ahead, domain.RunID(r))
	}
	return c, nil
}

// concurrencyOf reads "concurrency test group=g cancel-running", or error=broken.
func (t *teller) concurrencyOf(w words) (Command, error) {
	j, err := t.jobOf(w.at(1))
	if err != nil {
		return nil, err
	}
	c := RecordConcurrency{Job: t.live.JobID(j), Group: w.named["group"], CancelInProgress: has(w, "cancel-running"),
		Error: w.named["error"]}
	if j < len(t.live.Jobs) && t.live.Jobs[j].Evaluation != nil {
		c.InputDigest = t.live.Jobs[j].Evaluation.InputDigest
	}
	return c, nil
}

// matrixOf reads "matrix test legs=a,b parallel=1 no-fail-fast".
func (t *teller) matrixOf(w words) (Command, error) {
	j, err := t.jobOf(w.at(1))
	if err != nil {
		return nil, err
	}
	c := RecordMatrix{Job: t.live.JobID(j), FailFast: !has(w, "no-fail-fast"), MaxParallel: w.number("parallel", 0),
		Error: w.named["error"]}
	for _, value := range list(w.named["legs"]) {
		c.Legs = append(c.Legs, NewLeg{Name: fmt.Sprintf("%s (%s)", w.at(1), value), RunsOn: []string{"linux"},
			Matrix: fmt.Sprintf(`{"v":%q}`, value), SoftFail: has(w, "may-fail")})
	}
	if j < len(t.live.Jobs) && t.live.Jobs[j].Evaluation != nil {
		c.InputDigest = t.live.Jobs[j].Evaluation.InputDigest
	}
	if has(w, "stale") {
		c.InputDigest = domain.DigestOf([]byte("inputs of another time"))
	}
	return c, nil
}

func has(w words, flag string) bool {
	for _, p := range w.plain {
		if p == flag {
			return true
		}
	}
	return false
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (t *teller) jobOf(key string) (int, error) {
	for i := range t.live.Request.Skeleton {
		if t.live.Request.Skeleton[i].Key == key {
			return i, nil
		}
	}
	if len(t.live.Jobs) == 0 { // no run, or an invalid one: the name stands for any job
		return 0, nil
	}
	return 0, fmt.Errorf("no job %q", key)
}

// attemptOf reads "test/a1". An attempt that does not exist yet still has a name.
func (t *teller) attemptOf(text string) (domain.AttemptID, *Attempt, error) {
	key, ordinal, _ := cutLast(text, "/a")
	j, err := t.jobOf(key)
	if err != nil {
		return "", nil, err
	}
	n, err := strconv.Atoi(ordinal)
	if err != nil {
		return "", nil, fmt.Errorf("no attempt in %q", text)
	}
	id := t.live.AttemptID(j, n)
	if _, a, ok := t.live.AttemptByID(id); ok {
		return id, a, nil
	}
	return id, &Attempt{}, nil
}

func (t *teller) leaseOf(w words) (Command, error) {
	j, err := t.jobOf(w.at(1))
	if err != nil {
		return nil, err
	}
	runner := w.named["runner"]
	if runner == "" {
		runner = "m1"
	}
	slot := w.named["slot"]
	if slot == "" {
		t.slots++
		slot = fmt.Sprintf("%s/0/%d", runner, t.slots)
	}
	until := t.now.Add(w.duration("ttl", time.Minute))
	tiers := []domain.Tier{domain.TierTrusted}
	if pool := w.named["accepts"]; pool != "" {
		tiers = []domain.Tier{domain.Tier(pool)}
	}
	return GrantLease{
		Job: t.live.JobID(j), Runner: domain.RunnerID(runner), RunnerName: runner, Pool: "default", Tiers: tiers,
		Alias: w.named["alias"], Slot: domain.SlotToken(slot), Until: until, AbandonBy: until.Add(30 * time.Second),
	}, nil
}

func (t *teller) evaluationOf(w words) (Command, error) {
	j, err := t.jobOf(w.at(1))
	if err != nil {
		return nil, err
	}
	c := RecordEvaluation{Job: t.live.JobID(j), Result: w.at(2) == "true", Error: w.named["error"]}
	if j >= len(t.live.Jobs) {
		return c, nil
	}
	if e := t.live.Jobs[j].Evaluation; e != nil {
		c.Expression, c.InputDigest = e.Expression, e.InputDigest
	}
	if has(w, "stale") {
		c.InputDigest = domain.DigestOf([]byte("inputs of another time"))
	}
	return c, nil
}

func (t *teller) rerunOf(w words, cause domain.Cause) (Command, error) {
	c := Rerun{Cause: cause, Mode: w.at(1)}
	for _, key := range list(w.named["jobs"]) {
		j, err := t.jobOf(key)
		if err != nil {
			return nil, err
		}
		c.Jobs = append(c.Jobs, t.live.JobID(j))
	}
	return c, nil
}

// stepsOf reads steps=1:success,2:failure:1 and 3:started.
func (t *teller) stepsOf(w words) []Step {
	var out []Step
	for _, text := range list(w.named["steps"]) {
		parts := strings.Split(text, ":")
		n, _ := strconv.Atoi(parts[0])
		s := Step{Index: n - 1, Started: t.now}
		if parts[1] != "started" {
			s.Outcome, s.Finished = domain.Outcome(parts[1]), t.now
		}
		if parts[1] == "skipped" {
			s.Started, s.Finished = time.Time{}, time.Time{}
		}
		if len(parts) > 2 {
			s.ExitCode, _ = strconv.Atoi(parts[2])
		}
		if len(parts) > 3 {
			s.Conclusion = domain.Outcome(parts[3])
		}
		out = append(out, s)
	}
	return out
}

func (t *teller) resultOf(w words, id domain.AttemptID, epoch uint64) Command {
	c := ReportResult{
		Attempt: id, Epoch: epoch, Outcome: domain.Outcome(w.at(2)), Class: domain.FailureClass(w.named["class"]),
		Message: w.named["message"], Steps: t.stepsOf(w), Effect: domain.SideEffect(w.named["effect"]),
		LogEnd: uint64(w.number("log-end", 0)),
	}
	if c.Outcome == domain.OutcomeFailure && c.Class == "" {
		c.Class = domain.FailureUserCode
	}
	for _, pair := range list(w.named["outputs"]) {
		name, value, _ := strings.Cut(pair, ":")
		c.Outputs = append(c.Outputs, Output{Name: name, Value: value})
	}
	name := w.named["digest"]
	if name == "" {
		name = string(c.Outcome) + w.named["steps"] + c.Message
	}
	c.Digest = domain.DigestOf([]byte(name))
	return c
}
