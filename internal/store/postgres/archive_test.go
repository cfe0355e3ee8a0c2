package postgres

import (
	"slices"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/storetest"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

func TestArchive(t *testing.T) {
	url := pg.Start(t)
	storetest.RunArchive(t, func(t *testing.T) storetest.ArchiveStore { return fresh(t, url) })
}

// ofProcesses are tables that no copy has: they speak of processes, or are the schema's own.
var ofProcesses = []string{"beat", "goose_db_version", "members"}

// A column that the copies do not know would be lost by every restore.
// Promises: [BACKUP-6].
func TestTheSchemaOfCopiesIsThatOfTheDatabase(t *testing.T) {
	s := fresh(t, pg.Start(t))
	defer closed(t, s)
	rows, err := s.pool.Query(t.Context(), `SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position`)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string][]string{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			t.Fatal(err)
		}
		have[table] = append(have[table], column)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, table := range store.Schema() {
		var want []string
		for _, c := range table.Columns {
			want = append(want, c.Name)
		}
		if !slices.Equal(have[table.Name], want) {
			t.Errorf("%s has columns %v, its copies %v", table.Name, have[table.Name], want)
		}
		delete(have, table.Name)
	}
	for _, name := range ofProcesses {
		delete(have, name)
	}
	if len(have) > 0 {
		t.Errorf("no copy has %v", have)
	}
}
