package syntax

// Strategy is the strategy of a job.
type Strategy struct {
	Key         *Node
	Matrix      *Node // a mapping, or an expression
	FailFast    *Node
	MaxParallel *Node
}

func strategyKeys() []key {
	return []key{{name: "matrix"}, {name: "fail-fast", value: truth().evaluated()},
		{name: "max-parallel", value: number().evaluated()}}
}

// strategy reads the strategy of a job. Without a matrix it has no effect, as in the language.
func (r *reader) strategy(p Pair) *Strategy {
	n := r.mapping(p, "strategy")
	if n == nil {
		return nil
	}
	f := r.fields(n, "strategy", strategyKeys())
	s := &Strategy{
		Key:         p.Key,
		FailFast:    scalarOf(f["fail-fast"]),
		MaxParallel: scalarOf(f["max-parallel"]),
	}
	matrix, ok := f["matrix"]
	switch {
	case !ok:
	case matrix.Value.IsNull():
		r.add(CodeEmptyValue, matrix.Key, "remove the key, or give it a list of values", "matrix is empty")
	case matrix.Value.Kind == Sequence:
		r.add(CodeWrongType, matrix.Value, "write a key with a list, for example version: [1, 2]",
			"matrix must be a mapping, not %s", describe(matrix.Value))
	default:
		s.Matrix = matrix.Value
	}
	return s
}
