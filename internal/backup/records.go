package backup

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/fairlead-ci/fairlead/internal/store"
)

// The records of a store are lines of JSON in a Zstandard stream. Each table begins with an
// object that names it and its columns, goes on with one array per row, and ends with an
// object that counts them. Numbers are integers, bytes are base64.
type tableLine struct {
	Table   string         `json:"table,omitempty"`
	Columns []store.Column `json:"columns,omitempty"`
	End     string         `json:"end,omitempty"`
	Rows    int64          `json:"rows,omitempty"`
}

// lineBytesMax bounds a line that a damaged file could make us hold: a row of the log has
// the events of one batch of one stream.
const lineBytesMax = 256 << 20

// recordWriter writes tables.
type recordWriter struct {
	zstd *zstd.Encoder
	line bytes.Buffer
	rows int64 // of all tables
	open *store.Table
	n    int64
}

func newRecordWriter(w io.Writer) (*recordWriter, error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(1))
	return &recordWriter{zstd: z}, err
}

func (w *recordWriter) begin(t *store.Table) error {
	w.open, w.n = t, 0
	return w.json(tableLine{Table: t.Name, Columns: t.Columns})
}

// row writes a row. Text that JSON would change is refused: it can only come from damage.
func (w *recordWriter) row(values []any) error {
	if err := w.open.Fits(values); err != nil {
		return err
	}
	w.n++
	return w.json(values)
}

func (w *recordWriter) end() error {
	w.rows += w.n
	return w.json(tableLine{End: w.open.Name, Rows: w.n})
}

func (w *recordWriter) json(v any) error {
	w.line.Reset()
	enc := json.NewEncoder(&w.line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	_, err := w.zstd.Write(w.line.Bytes())
	return err
}

func (w *recordWriter) close() error { return w.zstd.Close() }

// lines reads lines of JSON from a Zstandard stream.
func lines(r io.Reader, each func(line []byte) error) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	in := bufio.NewScanner(z)
	in.Buffer(make([]byte, 0, 1<<20), lineBytesMax)
	for in.Scan() {
		if err := each(in.Bytes()); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// recordReader hands the rows of every table on, in the shape that this program knows.
type recordReader struct {
	table   func(t *store.Table) error
	row     func(t *store.Table, values []any) error
	now     *store.Table
	columns []int // of now's columns: where they are in the file, -1 when it has none
	n       int64
}

func (r *recordReader) read(from io.Reader) error {
	err := lines(from, func(line []byte) error {
		if line[0] == '[' {
			return r.values(line)
		}
		return r.frame(line)
	})
	if err == nil && r.now != nil {
		return fmt.Errorf("table %s has no end: %w", r.now.Name, ErrDamaged)
	}
	return err
}

func (r *recordReader) frame(line []byte) error {
	var f tableLine
	if err := json.Unmarshal(line, &f); err != nil {
		return fmt.Errorf("read records: %w: %w", ErrDamaged, err)
	}
	switch {
	case f.Table != "" && r.now == nil:
		t, known := store.TableNamed(f.Table)
		if !known || t.Derived {
			return fmt.Errorf("table %s: %w", f.Table, ErrNewer)
		}
		r.now, r.n = &t, 0
		if err := r.match(f.Columns); err != nil {
			return err
		}
		return r.table(&t)
	case r.now != nil && f.End == r.now.Name && f.Rows == r.n:
		r.now = nil
		return nil
	}
	return fmt.Errorf("read records: unexpected %.200s: %w", line, ErrDamaged)
}

// match finds where the file has the columns. A column that the file does not have yet
// takes its zero value; one that this program does not know is of a later version.
func (r *recordReader) match(columns []store.Column) error {
	r.columns = make([]int, len(r.now.Columns))
	known := 0
	for i, want := range r.now.Columns {
		r.columns[i] = -1
		for at, c := range columns {
			if c == want {
				r.columns[i] = at
				known++
			}
		}
	}
	if known != len(columns) {
		return fmt.Errorf("table %s has columns %v: %w", r.now.Name, columns, ErrNewer)
	}
	return nil
}

func (r *recordReader) values(line []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(line, &raw); err != nil || r.now == nil {
		return fmt.Errorf("read records: unexpected %.200s: %w", line, ErrDamaged)
	}
	values := make([]any, len(r.columns))
	for i, at := range r.columns {
		var text json.RawMessage
		if at >= len(raw) {
			return fmt.Errorf("read row %d of %s: %w", r.n, r.now.Name, ErrDamaged)
		}
		if at >= 0 {
			text = raw[at]
		}
		v, err := value(r.now.Columns[i].Kind, text)
		if err != nil {
			return fmt.Errorf("read row %d of %s: %w: %w", r.n, r.now.Name, ErrDamaged, err)
		}
		values[i] = v
	}
	r.n++
	return r.row(r.now, values)
}

// value reads one value; no text is the zero value.
func value(kind store.ColumnKind, text json.RawMessage) (any, error) {
	there := text != nil
	switch kind {
	case store.ColumnText:
		return parse[string](text, there)
	case store.ColumnNumber:
		return parse[int64](text, there)
	case store.ColumnTruth:
		return parse[bool](text, there)
	case store.ColumnBytes:
		encoded, err := parse[string](text, there)
		if err != nil {
			return nil, err
		}
		return base64.StdEncoding.DecodeString(encoded)
	}
	return nil, errors.New("unknown kind of column")
}

func parse[T any](text json.RawMessage, there bool) (v T, err error) {
	if there {
		err = json.Unmarshal(text, &v)
	}
	return v, err
}
