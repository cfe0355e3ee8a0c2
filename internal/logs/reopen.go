package logs

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Reopen gives the segments that hold the chunks of a sealed log again. It is for a copy of
// history that was taken before the log was sealed, of a store that was copied afterwards:
// there the segments are gone, and whoever goes on from that copy still has the log to seal.
// What was missing when it was sealed is missing again, with its mark.
func Reopen(
	ctx context.Context, store blob.Store, tenant domain.TenantID, attempt domain.AttemptID, ref Ref,
	each func(segment []byte) error,
) error {
	x, err := readIndex(ctx, store, &ref)
	if err != nil {
		return err
	}
	if x.tenant != tenant || x.attempt != attempt {
		return &Damage{Object: ref.Object, Offset: ref.Offset, Why: "is the log of another attempt"}
	}
	s := reopened{contents: contents{tenant: tenant, attempts: []domain.AttemptID{attempt}}}
	codec := newCodec()
	for i := range x.blocks {
		b := &x.blocks[i]
		stored, err := readRange(ctx, store, ref.Object, ref.Offset+b.place, int64(b.detail)+int64(b.packed))
		if err != nil {
			return err
		}
		block, err := codec.decodeBlock(b, stored)
		if err != nil {
			return &Damage{Object: ref.Object, Offset: ref.Offset + b.place, Why: err.Error()}
		}
		for j := range block.spans {
			if s.bytes >= segmentBytes && !s.goesOn(&block.spans[j]) {
				if err := each(s.take()); err != nil {
					return err
				}
			}
			s.add(block.spans[j], block.pieces[j])
		}
	}
	if len(s.pieces) == 0 {
		return nil
	}
	return each(s.take())
}

// reopened collects the chunks of one segment.
type reopened struct {
	contents contents
	pieces   [][]byte
	bytes    int
}

// goesOn is true of the second part of a chunk that was cut where a block was full.
func (s *reopened) goesOn(next *span) bool {
	n := len(s.contents.records)
	return n > 0 && s.contents.records[n-1].sequence == next.sequence
}

func (s *reopened) add(next span, text []byte) {
	s.bytes += len(text)
	if !s.goesOn(&next) {
		next.checksum = domain.Checksum(text)
		s.contents.records = append(s.contents.records, record{span: next})
		s.pieces = append(s.pieces, text)
		return
	}
	last := len(s.pieces) - 1
	whole := bytes.Join([][]byte{s.pieces[last], text}, nil)
	s.pieces[last] = whole
	at := &s.contents.records[last].span
	at.measure(whole)
	at.checksum = domain.Checksum(whole)
	if next.mark != "" {
		at.mark, at.dropped = next.mark, next.dropped
	}
}

func (s *reopened) take() []byte {
	segment := bytes.Join(encodeSegment(&s.contents, s.pieces), nil)
	s.contents.records, s.pieces, s.bytes = nil, nil, 0
	return segment
}

// ReopenedKey names the n-th reopened segment of a tenant, counted from 0, beside segments of
// an era. No holder of the logs uses these names: it would have to write four thousand million
// segments in its era.
func ReopenedKey(tenant domain.TenantID, era uint64, n uint32) string {
	return segmentKey(tenant, era<<eraShift|uint64(^n))
}

// EraOf reads the number of an era from the name of its record; false for any other object.
func EraOf(key string) (uint64, bool) {
	text, ok := strings.CutPrefix(key, eraPrefix)
	if !ok {
		return 0, false
	}
	era, err := strconv.ParseUint(text, 16, 64)
	return era, err == nil && eraKey(era) == key
}
