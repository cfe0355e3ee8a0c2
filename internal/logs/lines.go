package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/logs/ansi"
)

// Line is one line of a log: what lies between two line feeds, or a mark.
type Line struct {
	Number int64 // from 1
	Offset int64 // of the first byte
	Step   uint32
	Stream uint8 // of the first byte
	At     time.Time
	// Text is the line without its line feed, at most LineBytesMax of it.
	Text []byte
	// Bytes is the full length without the line feed; when it is more than len(Text), the
	// line was cut for showing and Raw has the rest.
	Bytes int64
	// Open: no line feed came yet; the line may grow.
	Open bool
	// Style is in force where the line begins (see ansi.Render).
	Style ansi.Style
	// Mark, when set, makes this a line of its own about missing bytes: Dropped of them.
	Mark    string
	Dropped uint64
}

// sink takes lines from a walk.
type sink interface {
	begin(Line)
	text([]byte)
	// skip stands for that many bytes of the line that need not be looked at.
	skip(int64)
	// full reports that the sink wants no more text of this line.
	full() bool
	// end ends the line that was begun; false stops the walk.
	end(open bool) bool
}

// walk goes over a view line by line.
type walk struct {
	sink   sink
	at     cursor
	track  ansi.Tracker
	styled bool
	begun  bool // a line was given to the sink and has not ended
}

// firstBlock is the block in which a line begins.
func (v *view) firstBlock(line int64) int {
	i, _ := slices.BinarySearchFunc(v.blocks, line, func(b block, line int64) int {
		if b.at.lines < line {
			return -1
		}
		return 1
	})
	return max(i-1, 0)
}

// each walks from block i to the end or until the sink has enough. Damaged blocks become
// lines with a mark, and the walk goes on behind them.
func (w *walk) each(ctx context.Context, v *view, i int) error {
	for ; i < len(v.blocks); i++ {
		b, next := &v.blocks[i], v.next(i)
		whole := next.lines == b.at.lines && b.at.open && next.open && next.step == b.at.step
		if w.begun && whole && w.sink.full() {
			w.sink.skip(b.length)
			w.at = next
			continue
		}
		k, err := v.read(ctx, i)
		var damage *Damage
		if errors.As(err, &damage) {
			if !w.damaged(b, damage) {
				return nil
			}
			w.at, w.track = next, ansi.Tracker{Style: next.style}
			continue
		}
		if err != nil {
			return err
		}
		if w.at != b.at {
			w.at, w.track = b.at, ansi.Tracker{Style: b.at.style}
		}
		for j := range k.spans {
			if !w.span(&k.spans[j], k.pieces[j]) {
				return nil
			}
		}
		// The index counts as the walk does; taking its word keeps both together.
		w.at = next
	}
	if w.begun {
		w.sink.end(true)
		w.begun = false
	}
	return nil
}

func (w *walk) damaged(b *block, d *Damage) bool {
	if !w.finish() {
		return false
	}
	w.sink.begin(Line{
		Number: b.at.lines + 1, Offset: b.at.offset, Step: b.at.step, Stream: StreamRunner,
		At: time.UnixMicro(b.time).UTC(), Mark: MarkDamaged + ":" + d.Object, Dropped: uint64(b.length),
	})
	return w.sink.end(false)
}

// finish ends the line that is open.
func (w *walk) finish() bool {
	w.at.open = false
	if !w.begun {
		return true
	}
	w.begun = false
	return w.sink.end(false)
}

func (w *walk) span(s *span, text []byte) bool {
	if w.at.step != s.step {
		if !w.finish() {
			return false
		}
		w.at.step, w.track = s.step, ansi.Tracker{}
	}
	if s.mark != "" && gapMark(s.mark) && !w.mark(s) {
		return false
	}
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\n')
		piece, ends := text, n >= 0
		if ends {
			piece = text[:n]
		}
		if !w.at.open {
			w.begin(s)
		}
		if w.begun {
			w.sink.text(piece)
		}
		if w.styled {
			w.track.Feed(piece)
		}
		w.at.offset += int64(len(piece))
		text = text[len(piece):]
		if ends {
			w.at.offset++
			text = text[1:]
			if !w.finish() {
				return false
			}
		}
	}
	if s.mark != "" && !gapMark(s.mark) {
		return w.mark(s)
	}
	return true
}

func (w *walk) begin(s *span) {
	w.at.open, w.begun = true, true
	w.at.lines++
	w.sink.begin(Line{
		Number: w.at.lines, Offset: w.at.offset, Step: s.step, Stream: s.stream,
		At: time.UnixMicro(s.at).UTC(), Style: w.track.Style,
	})
}

func (w *walk) mark(s *span) bool {
	if !w.finish() {
		return false
	}
	w.at.lines++
	w.sink.begin(Line{
		Number: w.at.lines, Offset: w.at.offset, Step: s.step, Stream: s.stream, At: time.UnixMicro(s.at).UTC(),
		Mark: s.mark, Dropped: s.dropped,
	})
	return w.sink.end(false)
}

// Lines gives up to count lines from the line with that number (from 1). The window may be
// shorter: at the end of the log, after WindowLinesMax lines or WindowBytesMax of text. A
// damaged block comes as a line whose mark begins with "damaged".
func (l *Log) Lines(ctx context.Context, from int64, count int) ([]Line, error) {
	if from < 1 || count < 0 {
		return nil, fmt.Errorf("read lines %d+%d of %s: %w", from, count, l.id.attempt, ErrInvalid)
	}
	for {
		v, err := l.view(ctx)
		if err != nil {
			return nil, err
		}
		w := &window{from: from, count: min(count, WindowLinesMax), room: WindowBytesMax}
		if from > v.end.lines || count == 0 {
			return nil, nil
		}
		err = (&walk{sink: w, styled: true}).from(ctx, v, from)
		if v.moved(err) {
			continue
		}
		return w.lines, err
	}
}

// from starts a walk at the block in which a line begins.
func (w *walk) from(ctx context.Context, v *view, line int64) error {
	if len(v.blocks) == 0 {
		return nil
	}
	i := v.firstBlock(line)
	w.at, w.track = v.blocks[i].at, ansi.Tracker{Style: v.blocks[i].at.style}
	return w.each(ctx, v, i)
}

// window is the sink that collects lines.
type window struct {
	from  int64
	count int
	room  int
	lines []Line
	line  Line
}

func (w *window) wanted() bool { return w.line.Number >= w.from }

func (w *window) begin(l Line) { w.line = l }

func (w *window) text(b []byte) {
	w.line.Bytes += int64(len(b))
	if n := min(len(b), LineBytesMax-len(w.line.Text)); n > 0 && w.wanted() {
		w.line.Text = append(w.line.Text, b[:n]...)
	}
}

func (w *window) skip(n int64) { w.line.Bytes += n }

func (w *window) full() bool { return !w.wanted() || len(w.line.Text) == LineBytesMax }

func (w *window) end(open bool) bool {
	if !w.wanted() {
		return true
	}
	w.line.Open = open
	w.lines = append(w.lines, w.line)
	w.room -= len(w.line.Text) + len(w.line.Mark)
	return len(w.lines) < w.count && w.room > 0
}

// Search gives the numbers of up to limit lines, from the line with that number on, that
// contain the needle. Colours do not get in its way: sequences are removed before comparing.
func (l *Log) Search(ctx context.Context, needle []byte, from int64, limit int) ([]int64, error) {
	if from < 1 || limit < 0 || len(needle) == 0 || len(needle) > LineBytesMax {
		return nil, fmt.Errorf("search log of %s: %w", l.id.attempt, ErrInvalid)
	}
	for {
		v, err := l.view(ctx)
		if err != nil {
			return nil, err
		}
		f := &finder{needle: needle, from: from, limit: limit}
		if limit == 0 {
			return nil, nil
		}
		err = (&walk{sink: f}).from(ctx, v, from)
		if v.moved(err) {
			continue
		}
		return f.found, err
	}
}

// finder is the sink that searches. A line that comes in one piece is looked at in place; of
// a longer one a window of two pieces is kept, so that no cut hides a match.
type finder struct {
	needle []byte
	from   int64
	limit  int
	found  []int64
	number int64
	hit    bool
	held   []byte
}

func (f *finder) begin(l Line) { f.number, f.hit, f.held = l.Number, l.Number < f.from, f.held[:0] }

func (f *finder) text(b []byte) {
	if f.hit {
		return
	}
	if len(f.held) > 0 {
		f.held = append(f.held, b...)
		b = f.held
	}
	f.hit = bytes.Contains(ansi.Strip(b), f.needle)
	switch {
	case f.hit:
		f.held = f.held[:0]
	case len(f.held) == 0:
		f.held = append(f.held, b[max(len(b)-2*LineBytesMax, 0):]...)
	case len(f.held) > 2*LineBytesMax:
		f.held = append(f.held[:0], f.held[len(f.held)-2*LineBytesMax:]...)
	}
}

func (f *finder) skip(int64) {}

func (f *finder) full() bool { return f.hit }

func (f *finder) end(bool) bool {
	if f.hit && f.number >= f.from {
		f.found = append(f.found, f.number)
	}
	return len(f.found) < f.limit
}
