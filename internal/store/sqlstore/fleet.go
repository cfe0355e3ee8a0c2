package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Renewal are the statements of one Renew, in order; the first must change one row, or
// nothing may be committed. clock is Reader.Clock.
type Renewal struct{ Join, Raise, Prune string }

// NewRenewal writes the statements for one database.
func NewRenewal(clock string) Renewal {
	return Renewal{
		// The member, unless another live session has its name, or events may be stored
		// that it does not read. Arguments: see JoinArgs.
		Join: `INSERT INTO members (name, session, address, version, format, draining, until)
SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS BIGINT),
  CAST($6 AS BOOLEAN), ` + clock + ` + CAST($7 AS BIGINT)
WHERE NOT EXISTS (SELECT 1 FROM fleet WHERE format > CAST($5 AS BIGINT))
ON CONFLICT (name) DO UPDATE SET session = excluded.session, address = excluded.address,
  version = excluded.version, format = excluded.format, draining = excluded.draining, until = excluded.until
WHERE members.session = excluded.session OR members.until <= ` + clock + `
  OR members.session = CAST($8 AS TEXT) AND members.until = CAST($9 AS BIGINT)`,
		// The format that may be written: what all read that are members, or were lately.
		Raise: `INSERT INTO fleet (one, partitions, spread, format)
SELECT 1, 0, '', MIN(format) FROM members WHERE until >= ` + clock + ` - ` + memberKept + ` HAVING COUNT(*) > 0
ON CONFLICT (one) DO UPDATE SET format = excluded.format WHERE fleet.format < excluded.format`,
		Prune: `DELETE FROM members WHERE until < ` + clock + ` - ` + memberKept,
	}
}

var memberKept = fmt.Sprint(store.MemberKept.Microseconds())

// JoinArgs are the arguments of Join.
func JoinArgs(m *store.Member, ttl time.Duration) []any {
	return []any{m.Name, m.Session, store.CleanText(m.Address), store.CleanText(m.Version), int64(m.Format),
		m.Draining, ttl.Microseconds(), m.Instead, Micros(m.InsteadUntil)}
}

// NotJoined says why Join changed nothing.
func NotJoined(p *store.Picture, m *store.Member) error {
	if m.Format < p.Format {
		return store.ErrTooOld
	}
	return store.ErrNameTaken
}

// Picture implements store.Fleet in one statement, and so from one snapshot. kind 0 is the
// clock and the format, 1 a member, 2 a partition.
func (r Reader) Picture(ctx context.Context) (store.Picture, error) {
	var p store.Picture
	var until []int64
	err := r.query(ctx, `SELECT 0 AS kind, '' AS a, '' AS b, '' AS c, '' AS d, `+r.Clock+` AS x,
  COALESCE((SELECT format FROM fleet WHERE one = 1), 0) AS y, 0 AS z
UNION ALL
SELECT 1, name, session, address, version, until, format, CASE WHEN draining THEN 1 ELSE 0 END FROM members
UNION ALL
SELECT 2, partition, owner, digest, '', epoch, position, 0 FROM partitions`, func(row Row) error {
		var kind, x, y, z int64
		var a, b, c, d string
		if err := row.Scan(&kind, &a, &b, &c, &d, &x, &y, &z); err != nil {
			return err
		}
		switch kind {
		case 0:
			p.Now, p.Format = Time(x), uint32(y)
		case 1:
			until = append(until, x)
			p.Members = append(p.Members, store.Member{Name: a, Session: b, Address: c, Version: d, Until: Time(x),
				Format: uint32(y), Draining: z == 1})
		default:
			p.Partitions = append(p.Partitions, store.Holding{Owner: b, Ownership: store.Ownership{
				Partition: domain.PartitionID(a), Epoch: uint64(x), Position: store.Position(y), Digest: domain.Digest(c)}})
		}
		return nil
	})
	if err != nil {
		return store.Picture{}, fmt.Errorf("read picture of the fleet: %w", err)
	}
	for i := range p.Members {
		p.Members[i].Live = Time(until[i]).After(p.Now)
	}
	slices.SortFunc(p.Members, func(a, b store.Member) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Partitions, func(a, b store.Holding) int { return cmp.Compare(a.Partition, b.Partition) })
	return p, nil
}

// RecordedShape reads the shape; the zero Shape when none is recorded.
func (r Reader) RecordedShape(ctx context.Context) (store.Shape, error) {
	var partitions int64
	var s store.Shape
	err := r.query(ctx, `SELECT partitions, spread FROM fleet WHERE one = 1`,
		func(row Row) error { return row.Scan(&partitions, &s.Spread) })
	if err != nil {
		return store.Shape{}, fmt.Errorf("read shape: %w", err)
	}
	s.Partitions = int(partitions)
	return s, nil
}
