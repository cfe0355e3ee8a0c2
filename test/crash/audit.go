package crash

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/postgres"
	"github.com/fairlead-ci/fairlead/internal/store/sqlite"
)

// audit opens the store when no server runs any more: positions must be gapless, batches
// chained by digest, versions of every stream gapless, and every acknowledgement at its
// place.
func (s *Siege) audit(ctx context.Context) error {
	var st store.Store
	var err error
	if s.database != nil {
		st, err = postgres.Open(ctx, s.database.url(fmt.Sprintf("127.0.0.1:%d", s.database.port)), postgres.Options{})
	} else {
		st, err = sqlite.Open(ctx, s.servers[0].data, sqlite.Options{})
	}
	if err != nil {
		s.Book.finding("the store does not open: %v", err)
		return nil
	}
	defer func() { _ = st.Close() }()
	owned, err := st.Partitions(ctx)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	for _, own := range owned {
		digests, err := s.auditPartition(ctx, st, own)
		if err != nil {
			s.Book.finding("the log of %s is damaged: %v", own.Partition, err)
			continue
		}
		for token := range s.Book.tokens {
			at := store.Position(token.Position)
			if token.Partition == own.Partition && at > 0 && digests[at] != token.Digest {
				s.Book.finding("the log of %s does not hold the acknowledged batch that ends at %d", own.Partition, token.Position)
			}
		}
	}
	return nil
}

// auditPartition walks the log and gives the digest of every batch by its last position.
func (s *Siege) auditPartition(
	ctx context.Context, st store.Store, own store.Ownership,
) (map[store.Position]domain.Digest, error) {
	digests, versions := map[store.Position]domain.Digest{}, map[string]uint64{}
	var before domain.Digest
	var batch []store.Row
	at := store.Position(0)
	for {
		rows, err := st.Read(ctx, own.Partition, at, 500)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			r := rows[i]
			if r.Position != at+1 {
				return nil, fmt.Errorf("position %d follows %d", r.Position, at)
			}
			at = r.Position
			id := string(r.Tenant) + "/" + string(r.Stream)
			if r.Version != versions[id]+uint64(r.Count) {
				return nil, fmt.Errorf("%s goes from version %d to %d with %d events", r.Stream, versions[id], r.Version, r.Count)
			}
			versions[id] = r.Version
			batch = append(batch, r)
			digest, _, err := st.BatchAt(ctx, own.Partition, at)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if want := store.BatchDigest(before, batch); want != digest {
				return nil, fmt.Errorf("the batch that ends at %d is not chained to the one before", at)
			}
			digests[at], before, batch = digest, digest, nil
		}
		if len(rows) == 0 {
			break
		}
	}
	if at != own.Position || before != own.Digest || len(batch) > 0 {
		return nil, fmt.Errorf("the log ends at %d and its ownership row at %d", at, own.Position)
	}
	return digests, nil
}
