package run

import "fmt"

// bytes is what an output counts for.
func (o Output) bytes() int64 { return max(o.Size, int64(len(o.Value))) + int64(len(o.Name)) }

// outputsOver says which bound the outputs of a job exceed, and which output is the biggest
// of those that count; empty when they exceed none.
func (s *State) outputsOver(j int, outputs []Output) string {
	var own, all, most int64
	biggest := ""
	count := func(job int, o Output) int64 {
		if n := o.bytes(); n > most {
			most, biggest = n, fmt.Sprintf("%s of %s", clip(o.Name, nameBytesMax), s.Skeleton(job).Key)
		}
		return o.bytes()
	}
	for _, o := range outputs {
		own += count(j, o)
	}
	if own > outputsBytesMax {
		return fmt.Sprintf("its outputs have %d bytes, and the limit is %d; the biggest is %s with %d", own, outputsBytesMax,
			biggest, most)
	}
	if own == 0 {
		return ""
	}
	for other := range s.Jobs {
		if other == j || s.Skeleton(other).Group != nil {
			continue
		}
		for _, o := range s.Outputs(other) {
			all += count(other, o)
		}
	}
	if all += own; all > runOutputsBytesMax {
		return fmt.Sprintf("with its outputs those of all jobs of the run have %d bytes, and the limit is %d; "+
			"the biggest is %s with %d", all, runOutputsBytesMax, biggest, most)
	}
	return ""
}
