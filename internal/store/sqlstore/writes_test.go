package sqlstore

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/store"
)

// The two forms of one write, as a person would paste them into a database shell.
func TestOneDescriptionGivesBothForms(t *testing.T) {
	w := cursorWrite()
	for got, want := range map[string]string{
		w.One(): "INSERT INTO cursors (partition, reactor, position) VALUES ($1, $2, $3) " +
			"ON CONFLICT (partition, reactor) DO UPDATE SET position = excluded.position",
		w.Many(): "INSERT INTO cursors (partition, reactor, position) " +
			"SELECT u.* FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u(partition, reactor, position) " +
			"ON CONFLICT (partition, reactor) DO UPDATE SET position = excluded.position",
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	w = streamUpdate()
	if one := w.One(); !strings.Contains(one, "FROM (SELECT $1 AS tenant, ") || strings.Contains(one, "%") {
		t.Error(one)
	}
	if many := w.Many(); !strings.Contains(many, "FROM unnest($1::text[], ") || strings.Contains(many, "%") {
		t.Error(many)
	}
}

func TestEveryTableIsWrittenAndEveryColumnHasOneSource(t *testing.T) {
	written := []string{"partitions", "beat", "members", "fleet", "losses", // by statements of their own
		"archives", "archive_objects", "archived_streams"}
	for _, w := range Writes() {
		written = append(written, w.Table)
		for _, c := range w.Columns {
			sources := 0
			for _, set := range []bool{c.Text != nil, c.Int != nil, c.Bool != nil, c.Blob != nil} {
				if set {
					sources++
				}
			}
			if sources != 1 {
				t.Errorf("%s.%s has %d sources", w.Table, c.Name, sources)
			}
		}
	}
	for _, table := range Tables() {
		if !slices.Contains(written, table) {
			t.Errorf("nothing writes %s", table)
		}
	}
}

func TestOfRecordsThatReplaceEachOtherTheLastCounts(t *testing.T) {
	b := store.Batch{Partition: "p", Epoch: 1, Counters: []store.Counter{
		{Tenant: "a", Name: "n", Value: 1}, {Tenant: "b", Name: "n", Value: 2}, {Tenant: "a", Name: "n", Value: 3},
	}}
	p, err := NewPlan(&b)
	if err != nil {
		t.Fatal(err)
	}
	if want := b.Counters[1:]; !slices.Equal(p.counters, want) {
		t.Errorf("kept %v, want %v", p.counters, want)
	}
	b.Epoch = 0
	if _, err := NewPlan(&b); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a malformed batch: %v", err)
	}
}
