package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// BatchDigest chains a batch to the one before: it covers the previous digest and
// everything of every row, with lengths, so no two different batches share bytes.
func BatchDigest(prev domain.Digest, rows []Row) domain.Digest {
	h := sha256.New()
	var num [8]byte
	number := func(n uint64) {
		binary.BigEndian.PutUint64(num[:], n)
		h.Write(num[:])
	}
	text := func(s string) {
		number(uint64(len(s)))
		h.Write([]byte(s))
	}
	text(string(prev))
	for i := range rows {
		r := &rows[i]
		number(uint64(r.Position))
		text(string(r.Tenant))
		text(string(r.Stream))
		number(r.Version)
		number(uint64(r.Count))
		number(uint64(r.At.UTC().UnixMicro()))
		number(uint64(len(r.Events)))
		h.Write(r.Events)
	}
	return domain.Digest("sha256:" + hex.EncodeToString(h.Sum(nil)))
}
