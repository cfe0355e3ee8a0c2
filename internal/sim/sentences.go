package sim

// Sentences are the promises that the checkers and the oracle defend, each as a violation
// of it names it. Those that hold of any program (nothing panics, nothing goes round in
// circles) are not among them.
func Sentences() []string {
	var out []string
	for _, c := range checkers(nil) {
		out = append(out, c.sentence)
	}
	return append(out, checkRows, checkPlan, checkLogs, checkInvented)
}
