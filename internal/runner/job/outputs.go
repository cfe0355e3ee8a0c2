package job

import (
	"fmt"
	"strings"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// giveOutputs evaluates the outputs of the job when nothing of it runs any more, so that
// every mask is known. One that is empty is left out, and so is one that holds a masked
// value: that is said where people look, because jobs after this one get nothing.
func (j *job) giveOutputs() []*runnerv1.Output {
	if j.ctx == nil || j.killed != nil {
		return nil
	}
	env := j.ctx.evaluation("", nil, j.status())
	var out []*runnerv1.Output
	bytes, most, biggest := 0, 0, ""
	for _, b := range j.m.Outputs {
		value, err := expr.Interpolate(b.Value, env)
		if err != nil {
			j.fail(domain.FailureInvalid, fmt.Sprintf("the output %s: %v", b.Name, err))
			continue
		}
		value = strings.ToValidUTF8(value, "\uFFFD")
		switch {
		case value == "":
		case j.masked(value):
			j.warn("warning: the output %s is not passed on, because it may hold a masked value; "+
				"jobs that need this one get an empty value", b.Name)
		default:
			out = append(out, &runnerv1.Output{Name: b.Name, Value: value})
			size := len(b.Name) + len(value)
			if bytes += size; size > most {
				most, biggest = size, b.Name
			}
		}
	}
	if bytes > outputBytesMax {
		j.fail(domain.FailureUserCode, fmt.Sprintf("the outputs of the job have %d bytes, and the limit is %d; "+
			"the biggest is %s with %d", bytes, outputBytesMax, biggest, most))
		return nil
	}
	return out
}

func (j *job) masked(text string) bool {
	j.log.mu.Lock()
	defer j.log.mu.Unlock()
	return j.log.mask.Contains(text)
}

// warn says something in the log and in the result, which may be a success all the same.
func (j *job) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.log.say(NoStep, "%s", text)
	j.warnings = append(j.warnings, text)
}
