package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// counterKey names a counter of a tenant.
type counterKey struct {
	tenant domain.TenantID
	name   string
}

// numbered is what the runs of one counter have: how many, and the highest number.
type numbered struct {
	highest, count uint64
}

// number notes the number of a run.
func (c *check) number(tenant domain.TenantID, counter string, n uint64) {
	key := counterKey{tenant, counter}
	have := c.numbers[key]
	if have == nil {
		have = &numbered{}
		c.numbers[key] = have
	}
	have.count++
	have.highest = max(have.highest, n)
}

// keys checks that what acted once leads to the stream that it acted on.
func (c *check) keys(ctx context.Context) error {
	return c.scan(ctx, store.TableKeys, func(row []any) error {
		tenant, scope, key, stream := row[0].(string), row[1].(string), row[2].(string), row[5].(string)
		if stream == "" || !c.chosen(tenant+" "+scope+" "+key, 1) {
			return nil
		}
		if c.report.Keys++; c.report.Keys%progressEvery == 0 {
			c.Progress("keys", c.report.Keys, 0)
		}
		_, err := c.image.Get(ctx, store.TableStreams, []any{tenant, stream})
		if errors.Is(err, store.ErrNotFound) {
			c.found(Finding{Code: KeyOrphaned, Tenant: domain.TenantID(tenant), Stream: domain.StreamID(stream),
				Table: store.TableKeys, Row: scope + " " + key, Fix: fixStorage,
				Text: fmt.Sprintf("the key %q of %s acted on a stream that is not there", key, scope)})
			return nil
		}
		if errors.Is(err, store.ErrBroken) {
			return nil // told where the streams were read
		}
		return err
	})
}

// counters checks that no number will be given again, and none was given twice.
func (c *check) counters(ctx context.Context) error {
	if c.Percent != 0 {
		return nil
	}
	values := map[counterKey]uint64{}
	if err := c.scan(ctx, store.TableCounters, func(row []any) error {
		values[counterKey{domain.TenantID(row[0].(string)), row[1].(string)}] = uint64(row[2].(int64))
		return nil
	}); err != nil {
		return err
	}
	for key, have := range c.numbers {
		if have.highest > values[key] {
			c.found(Finding{Code: CounterLow, Tenant: key.tenant, Table: store.TableCounters, Row: key.name,
				Fix: fixStorage, Text: fmt.Sprintf("counter %s is at %d, and number %d was given",
					key.name, values[key], have.highest)})
		}
		if have.count > have.highest {
			c.found(Finding{Code: NumberTwice, Tenant: key.tenant, Table: store.TableCounters, Row: key.name,
				Fix: fixStorage, Text: fmt.Sprintf("%d runs of counter %s share %d numbers", have.count, key.name, have.highest)})
		}
	}
	return nil
}

// cursors checks that no reactor is beyond the end of its log: it would miss what comes.
func (c *check) cursors(ctx context.Context) error {
	ends := map[string]store.Position{}
	for _, p := range c.report.Partitions {
		ends[string(p.Partition)] = p.Position
	}
	return c.scan(ctx, store.TableCursors, func(row []any) error {
		partition, reactor, at := row[0].(string), row[1].(string), store.Position(row[2].(int64))
		if at > ends[partition] {
			c.found(Finding{Code: CursorAhead, Partition: domain.PartitionID(partition), Position: at,
				Table: store.TableCursors, Row: reactor, Fix: fixStorage,
				Text: fmt.Sprintf("reactor %s has come to %d, and the log ends at %d", reactor, at, ends[partition])})
		}
		return nil
	})
}
