package sim

import (
	"bytes"
	"context"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [HIST-5].
const checkReplay = "the state rebuilt from events equals the state held in memory"

func replayEqualsMemory(w *world) checker {
	type encoded struct {
		version uint64
		text    []byte
	}
	again := map[domain.StreamID]encoded{}
	return checker{
		sentence: checkReplay,
		held: func(id domain.StreamID, version uint64, state any) {
			h := w.book.streams[id]
			switch {
			case h == nil:
				w.violation(checkReplay, "an owner shows %s, which was never committed", id)
				return
			case version > h.version:
				w.violation(checkReplay, "an owner shows version %d of %s, and %d is committed", version, id, h.version)
				return
			case version < h.version:
				return // an owner that does not know yet that it is none
			}
			live, err1 := h.kind.EncodeState(state)
			replayed, err2 := again[id].text, error(nil)
			if again[id].version != version { // several servers show the same
				replayed, err2 = h.kind.EncodeState(h.state)
				again[id] = encoded{version, replayed}
			}
			if err1 != nil || err2 != nil || !bytes.Equal(live, replayed) {
				w.violation(checkReplay, "%s at version %d is in memory\n%s\nand replayed\n%s", id, version, live, replayed)
			}
		},
		end: func() {
			for _, id := range w.book.order {
				h := w.book.streams[id]
				stored, err := w.whole().Load(context.Background(), h.tenant, id, true, h.kind.Encoding)
				if err != nil || stored.Head.Version != h.version || stored.Head.Live != h.kind.Live(h.state) {
					w.violation(checkReplay, "%s: the head says %+v, replay says version %d, live %t (%v)",
						id, stored.Head, h.version, h.kind.Live(h.state), err)
				}
			}
		},
	}
}
