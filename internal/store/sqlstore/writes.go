package sqlstore

import (
	"fmt"
	"strconv"
	"strings"
)

// Column is one parameter of a Write: exactly one of its functions is set, and reads the
// value of record i from the plan.
type Column struct {
	Name string
	Text func(p *Plan, i int) string
	Int  func(p *Plan, i int) int64
	Bool func(p *Plan, i int) bool
	Blob func(p *Plan, i int) []byte // never nil: the schema knows no NULL
}

// Write is how the records of one kind get into one table.
type Write struct {
	Table   string
	Columns []Column
	// Len counts the records of that kind in a plan.
	Len func(p *Plan) int
	// Exact: every record must change one row; fewer means a conflict. Inserts without
	// it conflict by constraint.
	Exact bool
	// Conflict is the clause after the values: what to do when the key exists.
	Conflict string
	// Update, when set, replaces the insert: "SET … WHERE …" over the table (by its
	// name) and the record's columns (as u.name).
	Update string
}

// One is the statement for one record: a parameter per column, in order.
func (w *Write) One() string {
	params := make([]string, len(w.Columns))
	for i := range w.Columns {
		params[i] = "$" + strconv.Itoa(i+1)
	}
	if w.Update == "" {
		return w.insert("VALUES (" + strings.Join(params, ", ") + ")")
	}
	for i, c := range w.Columns {
		params[i] += " AS " + c.Name
	}
	return "UPDATE " + w.Table + " " + fmt.Sprintf(w.Update, "(SELECT "+strings.Join(params, ", ")+") AS u")
}

// Many is the PostgreSQL statement for any number of records: an array per column, so a
// batch is one statement per table however large it is.
func (w *Write) Many() string {
	params := make([]string, len(w.Columns))
	names := make([]string, len(w.Columns))
	for i, c := range w.Columns {
		names[i] = c.Name
		params[i] = "$" + strconv.Itoa(i+1) + "::" + c.array()
	}
	source := "unnest(" + strings.Join(params, ", ") + ") AS u(" + strings.Join(names, ", ") + ")"
	if w.Update != "" {
		return "UPDATE " + w.Table + " " + fmt.Sprintf(w.Update, source)
	}
	return w.insert("SELECT u.* FROM " + source)
}

func (w *Write) insert(values string) string {
	names := make([]string, len(w.Columns))
	for i, c := range w.Columns {
		names[i] = c.Name
	}
	text := "INSERT INTO " + w.Table + " (" + strings.Join(names, ", ") + ") " + values
	if w.Conflict != "" {
		text += " " + w.Conflict
	}
	return text
}

func (c *Column) array() string {
	switch {
	case c.Text != nil:
		return "text[]"
	case c.Int != nil:
		return "bigint[]"
	case c.Bool != nil:
		return "boolean[]"
	}
	return "bytea[]"
}

// Value is the parameter of record i for One.
func (c *Column) Value(p *Plan, i int) any {
	switch {
	case c.Text != nil:
		return c.Text(p, i)
	case c.Int != nil:
		return c.Int(p, i)
	case c.Bool != nil:
		return c.Bool(p, i)
	}
	return c.Blob(p, i)
}

// Values is the array of all records' values for Many.
func (c *Column) Values(p *Plan, n int) any {
	switch {
	case c.Text != nil:
		return collect(c.Text, p, n)
	case c.Int != nil:
		return collect(c.Int, p, n)
	case c.Bool != nil:
		return collect(c.Bool, p, n)
	}
	return collect(c.Blob, p, n)
}

func collect[T any](value func(*Plan, int) T, p *Plan, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = value(p, i)
	}
	return out
}

// replace is the conflict clause "the new record counts" for a table whose key columns
// come first.
func replace(columns []Column, keys int) string {
	var names, sets []string
	for i, c := range columns {
		if i < keys {
			names = append(names, c.Name)
			continue
		}
		sets = append(sets, c.Name+" = excluded."+c.Name)
	}
	return "ON CONFLICT (" + strings.Join(names, ", ") + ") DO UPDATE SET " + strings.Join(sets, ", ")
}

func text(name string, value func(*Plan, int) string) Column { return Column{Name: name, Text: value} }

func number(name string, value func(*Plan, int) int64) Column {
	return Column{Name: name, Int: value}
}

func truth(name string, value func(*Plan, int) bool) Column { return Column{Name: name, Bool: value} }

func blob(name string, value func(*Plan, int) []byte) Column {
	return Column{Name: name, Blob: func(p *Plan, i int) []byte {
		if b := value(p, i); b != nil {
			return b
		}
		return []byte{}
	}}
}
