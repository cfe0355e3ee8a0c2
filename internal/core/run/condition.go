package run

import (
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Status is what the status functions of a condition say about a job's ancestors.
type Status struct {
	Success   bool `json:"success"`
	Failure   bool `json:"failure"`
	Cancelled bool `json:"cancelled"`
}

// condition is the text of an `if`, as far as the core understands it. The core decides
// what is made of status functions, true, false, !, && and || only, because that needs no
// value that it does not hold; everything else is evaluated elsewhere and recorded.
type condition struct {
	text      string // without the enclosing ${{ }}, if the whole is one expression
	decidable bool
	hasStatus bool // names a status function, so success() is not implied
}

// parseCondition reads a condition. With anything outside of its one ${{ }}, even a space or the
// end of a line, the whole is a text, which is never false: that is not for the core to decide, and
// goes to the evaluator as it was written.
func parseCondition(text string) condition {
	if !strings.Contains(text, "${{") {
		return plainCondition(strings.TrimSpace(text))
	}
	inner, opened := strings.CutPrefix(text, "${{")
	inner, shut := strings.CutSuffix(inner, "}}")
	if opened && shut && !strings.Contains(inner, "${{") && !strings.Contains(inner, "}}") {
		return plainCondition(strings.TrimSpace(inner))
	}
	return condition{text: text, hasStatus: templateNamesStatus(text)}
}

func plainCondition(text string) condition {
	c := condition{text: text, hasStatus: namesStatus(text)}
	p := parser{text: text}
	p.or()
	c.decidable = text == "" || (!p.broken && p.rest() == "")
	return c
}

// value computes a decidable condition.
func (c condition) value(st Status) bool {
	if c.text == "" {
		return st.Success
	}
	p := parser{text: c.text, status: st}
	v := p.or()
	return v && (c.hasStatus || st.Success)
}

// parser reads the decidable form and computes it on the way. Both sides of && and || are
// always read: there is nothing here that could go wrong by being computed.
type parser struct {
	text   string
	status Status
	broken bool
	depth  int
}

const conditionDepthMax = 50

func (p *parser) rest() string { return strings.TrimLeft(p.text, " \t\r\n") }

func (p *parser) take(token string) bool {
	rest, ok := strings.CutPrefix(p.rest(), token)
	if ok {
		p.text = rest
	}
	return ok
}

func (p *parser) or() bool {
	v := p.and()
	for !p.broken && p.take("||") {
		right := p.and()
		v = v || right
	}
	return v
}

func (p *parser) and() bool {
	v := p.not()
	for !p.broken && p.take("&&") {
		right := p.not()
		v = v && right
	}
	return v
}

func (p *parser) not() bool {
	if p.depth++; p.depth > conditionDepthMax {
		p.broken = true
		return false
	}
	defer func() { p.depth-- }()
	if strings.HasPrefix(p.rest(), "!=") {
		p.broken = true
		return false
	}
	if p.take("!") {
		return !p.not()
	}
	return p.primary()
}

func (p *parser) primary() bool {
	if p.take("(") {
		v := p.or()
		p.broken = p.broken || !p.take(")")
		return v
	}
	word := leadingWord(p.rest())
	p.text = p.rest()[len(word):]
	switch strings.ToLower(word) {
	case "true":
		return true
	case "false":
		return false
	}
	v, ok := p.status.call(word)
	if !ok || !p.take("(") || !p.take(")") {
		p.broken = true
	}
	return v
}

func (st Status) call(name string) (value, ok bool) {
	switch strings.ToLower(name) {
	case "always":
		return true, true
	case "success":
		return st.Success, true
	case "failure":
		return st.Failure, true
	case "cancelled":
		return st.Cancelled, true
	}
	return false, false
}

func leadingWord(text string) string {
	n := strings.IndexFunc(text, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if n < 0 {
		return text
	}
	return text[:n]
}

// namesStatus reports whether a status function is called outside of string literals.
func namesStatus(text string) bool {
	for text != "" {
		if text[0] == '\'' {
			_, after, closed := strings.Cut(text[1:], "'")
			if !closed {
				return false
			}
			text = after
			continue
		}
		word := leadingWord(text)
		if word == "" {
			text = text[1:]
			continue
		}
		text = text[len(word):]
		if _, ok := (Status{}).call(word); ok && strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "(") {
			return true
		}
	}
	return false
}

// templateNamesStatus reports whether a status function is called within some ${{ }}. Quotes
// outside of them mean nothing.
func templateNamesStatus(text string) bool {
	for {
		_, after, opened := strings.Cut(text, "${{")
		if !opened {
			return false
		}
		end := closing(after)
		if namesStatus(after[:end]) {
			return true
		}
		text = after[end:]
	}
}

// closing is where the }} is that ends an expression: the first one outside of a string
// literal, or the end of text.
func closing(text string) int {
	quoted := false
	for i := range len(text) {
		switch {
		case text[i] == '\'':
			quoted = !quoted
		case !quoted && strings.HasPrefix(text[i:], "}}"):
			return i
		}
	}
	return len(text)
}

// ancestors lists every job that j depends on, directly or not, in index order.
func (s *State) ancestors(j int) []int {
	seen := make([]bool, len(s.Jobs))
	stack := slices.Clone(s.Needs(j))
	var out []int
	for len(stack) > 0 {
		k := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[k] {
			continue
		}
		seen[k] = true
		out = append(out, k)
		stack = append(stack, s.Skeleton(k).Needs...)
	}
	slices.Sort(out)
	return out
}

// statusOf says what the status functions mean for j, and which ancestor is the root of
// success() being false (-1: none). A job that was skipped because of another is never
// the root; that other one is among the ancestors too.
func (s *State) statusOf(j int) (st Status, root int) {
	st, root = Status{Success: true, Cancelled: s.Desired == domain.DesiredCancel}, -1
	for _, k := range s.ancestors(j) {
		job := s.Jobs[k]
		switch job.Outcome {
		case domain.OutcomeSuccess, domain.OutcomeSoftFailure:
			continue
		case domain.OutcomeFailure, domain.OutcomeTimedOut:
			st.Failure = true
		}
		st.Success = false
		if root < 0 || (s.Jobs[root].Reason.Code == ReasonDependency && job.Reason.Code != ReasonDependency) {
			root = k
		}
	}
	return st, root
}

// unfinished lists the needs of j without an outcome.
func (s *State) unfinished(j int) []int {
	var out []int
	for _, need := range s.Needs(j) {
		if s.Jobs[need].State != StateConcluded {
			out = append(out, need)
		}
	}
	return out
}

// needs reports whether a need of j is without an outcome. A job that needs a thousand others is
// asked a thousand times.
func (s *State) needs(j int) bool {
	return slices.ContainsFunc(s.Needs(j), func(need int) bool { return s.Jobs[need].State != StateConcluded })
}

// consider decides the condition of a waiting job once all its needs are committed.
func (d *draft) consider(j int) {
	job := d.job(j)
	if _, leg := d.s.GroupOf(j); leg {
		return // its group is asked, once for all legs
	}
	if job.State != StateWaiting || job.Evaluation != nil || !d.s.opened(j) || d.s.needs(j) || d.cancelling() ||
		d.s.blocked() {
		return
	}
	if job.Inputs != nil { // a call that is kept keeps its condition
		d.start(j)
		return
	}
	c := parseCondition(d.s.Skeleton(j).If)
	st, root := d.s.statusOf(j)
	skipped := Reason{Code: ReasonConditionFalse, Expression: clip(c.text, textBytesMax)}
	if root >= 0 {
		broken := Reason{Code: ReasonDependency, Jobs: []int{root}, Outcome: d.job(root).Outcome}
		if !c.decidable && !c.hasStatus {
			d.concludeJob(j, 0, domain.OutcomeSkipped, domain.FailureNone, broken)
			return
		}
		// The ancestor is to blame only if without it the condition would have held.
		if c.decidable && c.value(Status{Success: true}) {
			skipped = broken
		}
	}
	switch {
	case !c.decidable:
		d.emit(&EvaluationAsked{
			OfJob: d.ofJob(j), Expression: c.text, InputDigest: EvaluationInputs(d.s, j).Digest(),
			Deadline: d.now.Add(seconds(d.limits().EvaluationSeconds)),
		})
	case c.value(st):
		d.begin(j)
	default:
		d.concludeJob(j, 0, domain.OutcomeSkipped, domain.FailureNone, skipped)
	}
}
