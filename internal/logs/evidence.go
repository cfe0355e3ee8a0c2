package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Evidence is a chunk that was refused, kept because it may matter what it said.
type Evidence struct {
	Attempt  domain.AttemptID `json:"attempt"`
	Epoch    uint64           `json:"epoch"`
	Sequence uint64           `json:"sequence"`
	Step     uint32           `json:"step"`
	Stream   uint8            `json:"stream"`
	At       time.Time        `json:"at"`       // by the runner's clock
	Received time.Time        `json:"received"` // by ours
	Checksum string           `json:"checksum"`
	Mark     string           `json:"mark,omitempty"`
	// Reason is "conflict" (contradicts a durable chunk), "sealed" (came after the end) or
	// "late" (had been declared missing).
	Reason string `json:"reason"`
	Bytes  int    `json:"bytes"`
	Data   []byte `json:"data"` // the first 64 KiB
}

const evidenceBytesMax = 64 << 10

// folder spreads attempts over folders by the last two characters of their run, which are
// random: no folder then gets too many entries.
func folder(attempt domain.AttemptID) string {
	parts := strings.Split(string(attempt), "_")
	if len(parts) < 2 || len(parts[1]) < 2 {
		return "00"
	}
	return parts[1][len(parts[1])-2:]
}

func evidencePrefix(tenant domain.TenantID, attempt domain.AttemptID) string {
	return string(tenant) + "/log-evidence/" + folder(attempt) + "/" + string(attempt) + "/"
}

// keep stores a refused chunk, unless the attempt has enough of them. The same chunk again
// is kept once.
func (g *Gateway) keep(ctx context.Context, r refusal) error {
	prefix := evidencePrefix(r.tenant, r.attempt)
	kept, err := g.store.List(ctx, prefix, "", EvidenceMax)
	if err == nil && len(kept) < EvidenceMax {
		s := &r.item.span
		var text []byte
		text, err = json.Marshal(Evidence{
			Attempt: r.attempt, Epoch: s.epoch, Sequence: s.sequence, Step: s.step, Stream: s.stream,
			At: time.UnixMicro(s.at).UTC(), Received: g.config.Now().UTC(), Checksum: fmt.Sprintf("%016x", s.checksum),
			Mark: s.mark, Reason: r.reason, Bytes: len(r.item.content),
			Data: r.item.content[:min(len(r.item.content), evidenceBytesMax)],
		})
		if err == nil {
			key := fmt.Sprintf("%s%016x-%016x-%s", prefix, s.sequence, s.checksum, r.reason)
			err = g.store.Put(ctx, key, bytes.NewReader(text), int64(len(text)))
		}
	}
	if err != nil && !errors.Is(err, blob.ErrExists) {
		return retryable(fmt.Errorf("keep refused chunk %d of %s: %w", r.item.sequence, r.attempt, err))
	}
	return nil
}

// refuseSealed keeps and counts what came for logs that are closed.
func (g *Gateway) refuseSealed(ctx context.Context, parts []*part) error {
	for _, p := range parts {
		for _, it := range append(p.items, p.conflicts...) {
			if err := g.keep(ctx, refusal{p.ack.Tenant, p.ack.Attempt, it, "sealed"}); err != nil {
				return err
			}
			g.mu.Lock()
			g.counters.Refused++
			g.mu.Unlock()
		}
	}
	return nil
}

// Evidence gives the refused chunks of an attempt that were kept, in order of sequence.
func (g *Gateway) Evidence(
	ctx context.Context, tenant domain.TenantID, attempt domain.AttemptID,
) ([]Evidence, error) {
	entries, err := g.store.List(ctx, evidencePrefix(tenant, attempt), "", EvidenceMax+sealsMax)
	if err != nil {
		return nil, fmt.Errorf("list evidence of %s: %w", attempt, err)
	}
	var all []Evidence
	for _, e := range entries {
		text, err := readRange(ctx, g.store, e.Key, 0, e.Size)
		if err != nil {
			return nil, err
		}
		var one Evidence
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, &Damage{Object: e.Key, Why: err.Error()}
		}
		all = append(all, one)
	}
	return all, nil
}
