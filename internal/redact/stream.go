package redact

import "bytes"

// Stream masks output that comes in pieces. It holds back only what may be the start of
// a secret.
type Stream struct {
	set  *Set
	held []byte
	// covered is how many of the held bytes belong to a secret whose mask was already
	// written.
	covered int
}

// NewStream makes a stream over a set. Secrets that are added later count for what is
// written after that, and for what is still held.
func NewStream(set *Set) *Stream { return &Stream{set: set} }

// Write appends to dst what of the held bytes and p is decided.
func (t *Stream) Write(dst, p []byte) []byte {
	if t.set.Empty() && len(t.held) == 0 {
		return append(dst, p...)
	}
	text := p
	if len(t.held) > 0 {
		text = append(t.held, p...)
	}
	return t.scan(dst, text, false)
}

// Flush appends the rest: no more of this stream will come.
func (t *Stream) Flush(dst []byte) []byte { return t.scan(dst, t.held, true) }

// scan masks every form in text, joining those that overlap, so that the end of one
// can't show through beside the start of another.
func (t *Stream) scan(dst, text []byte, last bool) []byte {
	covered := t.covered // text[:covered] is masked already
	from := covered      // text[from:i] is plain and not yet written
	for i := 0; i < len(text); i++ {
		candidates := t.set.byFirst[text[i]]
		if len(candidates) == 0 {
			continue
		}
		if !last && undecided(candidates, text[i:]) {
			if i > covered {
				dst = append(dst, text[from:i]...)
				covered = i
			}
			t.covered = covered - i
			t.held = append(t.held[:0:0], text[i:]...)
			return dst
		}
		for _, form := range candidates {
			if !bytes.HasPrefix(text[i:], form) {
				continue
			}
			if i >= covered {
				dst = append(dst, text[from:i]...)
				dst = append(dst, Mask...)
			}
			covered = max(covered, i+len(form))
			from = covered
			break // the longest comes first
		}
	}
	if from < len(text) {
		dst = append(dst, text[from:]...)
	}
	t.held, t.covered = t.held[:0], 0
	return dst
}

// undecided reports whether more bytes could make text the start of a longer form.
func undecided(candidates [][]byte, text []byte) bool {
	for _, form := range candidates {
		if len(form) <= len(text) {
			return false // sorted: the others are shorter still
		}
		if bytes.HasPrefix(form, text) {
			return true
		}
	}
	return false
}
