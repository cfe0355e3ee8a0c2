package tally

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"strconv"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Words that lines of a book begin with.
const (
	BookRun   = "run"   // a request for a run was answered with this run
	BookAsked = "asked" // the same, and nobody has waited for the run to end
	BookGot   = "got"   // a runner had verified the manifest of this attempt, at microseconds of Unix time
	BookAcked = "ack"   // the result of this attempt was acknowledged, at microseconds of Unix time
)

// lineMax is longer than any line of a book.
const lineMax = 512

// digest stands for a name: books of millions of names fit into memory. Two names that share
// one among ten million are a chance of one in a hundred thousand.
type digest uint64

var seed = maphash.MakeSeed()

func of[T ~string](name T) digest { return digest(maphash.String(seed, string(name))) }

// book is what somebody outside remembers.
type book struct {
	runs  map[digest]string // requests that were answered; the name is for the report
	asked map[digest]string // those whose runs may be open
	got   map[digest]gotten // executions
	acked map[digest]string
	told  bool // it remembers executions
}

// gotten is an execution: when its manifest had been verified.
type gotten struct {
	name string
	at   int64
}

// readBook reads lines "run RUN", "asked RUN", "got ATTEMPT MICROSECONDS" and "ack ATTEMPT MICROSECONDS".
func readBook(in io.Reader) (*book, error) {
	b := &book{runs: map[digest]string{}, asked: map[digest]string{}, got: map[digest]gotten{}, acked: map[digest]string{}}
	if in == nil {
		return b, nil
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, lineMax), lineMax)
	for n := 1; lines.Scan(); n++ {
		if err := b.line(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("read book: line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read book: %w", err)
	}
	return b, nil
}

func (b *book) line(text []byte) error {
	word, rest, _ := bytes.Cut(text, []byte(" "))
	name, at, timed := bytes.Cut(rest, []byte(" "))
	if runs := map[string]map[digest]string{BookRun: b.runs, BookAsked: b.asked}[string(word)]; runs != nil && !timed &&
		domain.ValidID(domain.PrefixRun, string(name)) {
		runs[of(string(name))] = string(name)
		return nil
	}
	id := domain.AttemptID(name)
	_, _, _, ok := id.Split()
	us, err := strconv.ParseInt(string(at), 10, 64)
	if !ok || err != nil {
		return fmt.Errorf("%q is no entry", domain.Clip(string(text), lineMax))
	}
	switch string(word) {
	case BookGot:
		b.told = true
		if _, twice := b.got[of(id)]; !twice { // the same manifest again is no second execution
			b.got[of(id)] = gotten{string(name), us}
		}
	case BookAcked:
		b.acked[of(id)] = string(name)
	default:
		return fmt.Errorf("%q is no entry", domain.Clip(string(text), lineMax))
	}
	return nil
}
