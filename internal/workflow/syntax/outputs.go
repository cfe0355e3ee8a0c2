package syntax

// Output is one entry of the outputs of a job; Value is a scalar.
type Output struct{ Name, Value *Node }

// outputs reads the outputs of a job. An empty value is the empty text.
func (r *reader) outputs(p Pair) []Output {
	if p.Value.IsNull() {
		return nil
	}
	n := r.mapping(p, "outputs")
	if n == nil {
		return nil
	}
	var out []Output
	for _, pair := range n.Pairs {
		if pair.Value.Kind != Scalar {
			r.add(CodeWrongType, pair.Value, "write the value as text, for example with toJSON",
				"the output %s must be a single value, not %s", Quote(pair.Key.Value), describe(pair.Value))
			continue
		}
		out = append(out, Output{pair.Key, pair.Value})
	}
	return out
}
