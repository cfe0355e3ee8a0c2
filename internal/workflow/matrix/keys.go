package matrix

import (
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// TimeoutMax is the longest time limit of a job or step, in seconds: 30 days.
const TimeoutMax = 2_592_000

// StrategyContext is the context strategy of a leg; of a job without a matrix it is that of
// the one leg of one. maxParallel is 0 where all legs may run at the same time.
func StrategyContext(failFast bool, maxParallel, index, total int) expr.Value {
	if maxParallel == 0 {
		maxParallel = total
	}
	return expr.Object(
		expr.Field{Name: "fail-fast", Value: expr.Bool(failFast)},
		expr.Field{Name: "job-index", Value: expr.Int(int64(index))},
		expr.Field{Name: "job-total", Value: expr.Int(int64(total))},
		expr.Field{Name: "max-parallel", Value: expr.Int(int64(maxParallel))},
	)
}

// TruthOf reads a value that must be true or false; the texts count, too.
func TruthOf(v expr.Value) (truth, ok bool) {
	switch strings.ToLower(v.Text()) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// TimeoutOf reads a number of minutes as seconds.
func TimeoutOf(v expr.Value) (seconds int64, ok bool) {
	seconds, ok = v.Scaled(60)
	isNumber := v.Kind() == expr.KindNumber || v.Kind() == expr.KindString && expr.IsNumber(v.Text())
	return seconds, ok && isNumber && seconds > 0 && seconds <= TimeoutMax
}
