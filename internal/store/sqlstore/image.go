package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Image is the reading half of store.Image over a Querier that stays at one moment.
type Image struct{ Reader }

// Scan implements store.Image.
func (i Image) Scan(ctx context.Context, name string, page store.Page) ([][]any, error) {
	t, ok := store.TableNamed(name)
	if !ok || page.Limit < 1 || page.From != nil && len(page.From) != t.Key {
		return nil, fmt.Errorf("scan table %q from %v, %d rows: %w", name, page.From, page.Limit, store.ErrInvalid)
	}
	var rows [][]any
	err := i.Querier.Query(ctx, scanText(&t, page), func(row Row) error {
		values, err := scanValues(&t, row)
		rows = append(rows, values)
		return err
	}, append(slices.Clone(page.From), int64(page.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("scan table %s from %v: %w", name, page.From, err)
	}
	return rows, nil
}

// Get implements store.Image.
func (i Image) Get(ctx context.Context, name string, key []any) ([]any, error) {
	t, ok := store.TableNamed(name)
	if !ok || len(key) != t.Key {
		return nil, fmt.Errorf("read row %v of table %q: %w", key, name, store.ErrInvalid)
	}
	var values []any
	text := "SELECT " + columnNames(&t, len(t.Columns)) + " FROM " + t.Name +
		" WHERE (" + columnNames(&t, t.Key) + ") = (" + places(1, t.Key) + ")"
	err := i.Querier.Query(ctx, text, func(row Row) (err error) {
		values, err = scanValues(&t, row)
		return err
	}, key...)
	if err == nil && values == nil {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read row %v of table %s: %w", key, name, err)
	}
	return values, nil
}

// scanText is a keyset page: the key is compared as a row value, which both databases
// answer from the primary key.
func scanText(t *store.Table, page store.Page) string {
	key := columnNames(t, t.Key)
	order, compare := key, ">"
	if page.Back {
		order, compare = strings.Join(strings.Split(key, ", "), " DESC, ")+" DESC", "<"
	}
	var where string
	if page.From != nil {
		where = " WHERE (" + key + ") " + compare + " (" + places(1, t.Key) + ")"
	}
	return "SELECT " + columnNames(t, len(t.Columns)) + " FROM " + t.Name + where +
		" ORDER BY " + order + " LIMIT $" + strconv.Itoa(len(page.From)+1)
}

func columnNames(t *store.Table, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = t.Columns[i].Name
	}
	return strings.Join(names, ", ")
}

func places(first, n int) string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = "$" + strconv.Itoa(first+i)
	}
	return strings.Join(texts, ", ")
}

// scanValues reads a row as the types that store.ColumnKind names.
func scanValues(t *store.Table, row Row) ([]any, error) {
	values, dest := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i, c := range t.Columns {
		switch c.Kind {
		case store.ColumnText:
			dest[i] = new(string)
		case store.ColumnNumber:
			dest[i] = new(int64)
		case store.ColumnTruth:
			dest[i] = new(bool)
		default:
			dest[i] = new([]byte)
		}
	}
	if err := row.Scan(dest...); err != nil {
		return nil, err
	}
	for i := range dest {
		switch v := dest[i].(type) {
		case *string:
			values[i] = *v
		case *int64:
			values[i] = *v
		case *bool:
			values[i] = *v
		case *[]byte:
			if *v == nil {
				*v = []byte{}
			}
			values[i] = *v
		}
	}
	return values, nil
}

// PutOne is the statement that writes one row of a table as it is.
func PutOne(t *store.Table) string {
	return "INSERT INTO " + t.Name + " (" + columnNames(t, len(t.Columns)) + ") VALUES (" +
		places(1, len(t.Columns)) + ") " + replacing(t)
}

// PutMany is PutOne for any number of rows, on PostgreSQL: an array per column.
func PutMany(t *store.Table) string {
	return "INSERT INTO " + t.Name + " (" + columnNames(t, len(t.Columns)) + ") SELECT u.* FROM unnest(" +
		arrays(t, len(t.Columns)) + ") AS u " + replacing(t)
}

// DeleteOne is the statement that removes the row with a key.
func DeleteOne(t *store.Table) string {
	return "DELETE FROM " + t.Name + " WHERE (" + columnNames(t, t.Key) + ") = (" + places(1, t.Key) + ")"
}

func replacing(t *store.Table) string {
	columns := make([]Column, len(t.Columns))
	for i, c := range t.Columns {
		columns[i].Name = c.Name
	}
	return replace(columns, t.Key)
}

func arrays(t *store.Table, n int) string {
	texts := make([]string, n)
	for i := range texts {
		kind := map[store.ColumnKind]string{
			store.ColumnText: "text[]", store.ColumnNumber: "bigint[]", store.ColumnTruth: "boolean[]",
			store.ColumnBytes: "bytea[]",
		}[t.Columns[i].Kind]
		texts[i] = "$" + strconv.Itoa(i+1) + "::" + kind
	}
	return strings.Join(texts, ", ")
}

// Arrays turns rows into the arguments of PutMany.
func Arrays(t *store.Table, rows [][]any) []any {
	args := make([]any, len(t.Columns))
	for i, c := range t.Columns {
		switch c.Kind {
		case store.ColumnText:
			args[i] = column[string](rows, i)
		case store.ColumnNumber:
			args[i] = column[int64](rows, i)
		case store.ColumnTruth:
			args[i] = column[bool](rows, i)
		default:
			args[i] = column[[]byte](rows, i)
		}
	}
	return args
}

func column[T any](rows [][]any, i int) []T {
	out := make([]T, len(rows))
	for n := range rows {
		out[n] = rows[n][i].(T)
	}
	return out
}

// Losses implements store.Losses.
func (r Reader) Losses(ctx context.Context, partition domain.PartitionID) ([]store.Loss, error) {
	t, _ := store.TableNamed(store.TableLosses)
	var losses []store.Loss
	err := r.query(ctx, "SELECT "+columnNames(&t, len(t.Columns))+" FROM losses WHERE partition = $1 ORDER BY epoch, kind",
		func(row Row) error {
			values, err := scanValues(&t, row)
			if err == nil {
				losses = append(losses, store.LossOf(values))
			}
			return err
		}, string(partition))
	if err != nil {
		return nil, fmt.Errorf("list losses of partition %s: %w", partition, err)
	}
	return losses, nil
}
