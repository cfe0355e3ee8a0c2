package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/store"
)

// findingsMax bounds what one examination of a file lists.
const findingsMax = 100

// finding is one damaged place of the file.
type finding struct {
	text string
	// bearable: the server can go on. Rows of the log are only added, at its end, so a
	// broken page further in front is read by nobody but its own streams, and a page that
	// belongs to nothing is lost space. In any other tree SQLite would write beside the
	// damage, or hand out a page twice.
	bearable bool
}

func texts(found []finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, f.text)
	}
	return out
}

func bearable(found []finding) bool {
	for _, f := range found {
		if !f.bearable {
			return false
		}
	}
	return true
}

// tree is a table or an index by the page that its tree begins at.
type tree struct{ kind, name, table string }

var (
	treeText    = regexp.MustCompile(`^Tree (\d+)\b`)
	entriesText = regexp.MustCompile(`^wrong # of entries in index (\S+)$`)
)

// damage examines the structure of a whole database file. It reads all of it.
func damage(ctx context.Context, db *sql.DB, limit int) ([]finding, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, asStoreError(err)
	}
	defer func() { _ = conn.Close() }()
	verdict, err := lines(ctx, conn, fmt.Sprintf("PRAGMA quick_check(%d)", limit))
	if err != nil && (!errors.Is(err, store.ErrBroken) || len(verdict) == 0) {
		return nil, err
	}
	// After the structure the check reads rows, and gives up at the damage that it has told.
	var found []finding
	trees := map[string]tree{}
	for _, line := range verdict {
		line = strings.TrimSpace(line)
		if line == "ok" || line == "" || strings.HasPrefix(line, "*** in database") {
			continue
		}
		if len(trees) == 0 {
			if trees, err = roots(ctx, conn); err != nil {
				return nil, err
			}
		}
		found = append(found, judge(line, trees))
	}
	return found, nil
}

// judge gives a line of quick_check the names that people know.
func judge(line string, trees map[string]tree) finding {
	if strings.HasPrefix(line, "Page ") && strings.HasSuffix(line, "never used") {
		return finding{line, true}
	}
	if match := entriesText.FindStringSubmatch(line); match != nil {
		// The index is sound itself: it only knows rows that are on a broken page.
		for _, t := range trees {
			if t.kind == "index" && t.name == match[1] && t.table == store.TableLog {
				return finding{"table log: " + line, true}
			}
		}
	}
	match := treeText.FindStringSubmatch(line)
	if match == nil {
		return finding{line, false}
	}
	t, known := trees[match[1]]
	if !known {
		return finding{line, false}
	}
	what := "table " + t.name
	if t.kind == "index" {
		what = "an index of table " + t.table
	}
	return finding{
		text:     what + ": " + line,
		bearable: t.kind == "table" && t.name == store.TableLog && !strings.Contains(line, "2nd reference"),
	}
}

func roots(ctx context.Context, conn *sql.Conn) (map[string]tree, error) {
	rows, err := conn.QueryContext(ctx, `SELECT rootpage, type, name, tbl_name FROM sqlite_schema WHERE rootpage > 0`)
	if err != nil {
		return nil, asStoreError(err)
	}
	defer func() { _ = rows.Close() }()
	trees := map[string]tree{}
	for rows.Next() {
		var page int64
		var t tree
		if err := rows.Scan(&page, &t.kind, &t.name, &t.table); err != nil {
			return nil, err
		}
		trees[strconv.FormatInt(page, 10)] = t
	}
	return trees, asStoreError(rows.Err())
}

// lines reads the lines of all rows of a one-column result.
func lines(ctx context.Context, conn *sql.Conn, query string) ([]string, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, asStoreError(err)
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		out = append(out, strings.Split(text, "\n")...)
	}
	return out, asStoreError(rows.Err()) // what came before an error counts
}
