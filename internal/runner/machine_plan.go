package runner

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
)

// plan starts the exchanges that are due. It is called after every input; next is when
// to call it again if nothing happens before.
func (m *machine) plan(now instant) (next instant) {
	next = now.Add(time.Hour)
	m.each(func(h *held) {
		if h.resendAt != 0 && now >= h.resendAt {
			h.unsend()
		}
		if h.resendAt != 0 {
			next = min(next, h.resendAt)
		}
		if h.gone || h.result != nil {
			return
		}
		if at := h.deadline(); now < at {
			next = min(next, at)
		} else {
			m.note("the supervisor of an attempt did not end in time", "attempt", h.attempt)
			m.effect(effForce{h.attempt})
			h.forceAt = now.Add(forceAfter)
			h.abandonAt = max(h.abandonAt, h.forceAt)
			next = min(next, h.forceAt)
		}
	})
	due := [kinds]instant{m.pollDue(now), m.uploadDue(now), m.beatDue(now)}
	for _, k := range []kind{beat, upload, poll} {
		c := &m.calls[k]
		at := due[k]
		if c.flying || at == never {
			continue
		}
		at = max(at, c.notYet)
		if at > now {
			next = min(next, at)
			continue
		}
		m.send(k, now)
	}
	return next
}

// never is later than every instant.
const never = instant(1<<63 - 1)

// pollDue: a poll is always in flight once the server has answered the first exchange,
// which is an upload because it is answered at once.
func (m *machine) pollDue(now instant) instant {
	if !m.greeted || m.draining && len(m.held) == 0 {
		return never
	}
	return now
}

func (m *machine) uploadDue(now instant) instant {
	if !m.greeted || !m.offered || len(m.declines) > 0 {
		return now
	}
	at := never
	m.each(func(h *held) {
		if h.dropped {
			return
		}
		if h.result != nil && !h.resultSent {
			at = now
		}
		if len(h.chunks) > h.chunksSent || len(h.progress) > h.progressSent {
			if h.chunkBytes >= batchBytes {
				at = now // a backlog: there is no company worth waiting for
			}
			at = min(at, m.since.Add(uploadDelay))
		}
	})
	return at
}

func (m *machine) beatDue(now instant) instant {
	live := false
	m.each(func(h *held) { live = live || h.renewable() })
	if !live {
		return never
	}
	return m.renewed.Add(m.renewEvery())
}

func (m *machine) renewEvery() time.Duration {
	return time.Duration(cmp.Or(m.timing.GetRenewMs(), renewDefault.Milliseconds())) * time.Millisecond
}

func (h *held) renewable() bool { return !h.dropped && !h.resultDone }

// send builds an exchange. Everything that is held is in every one of them, so that the
// server always sees the whole.
func (m *machine) send(k kind, now instant) {
	c := &m.calls[k]
	c.flying, c.sent = true, now
	m.sequence++
	req := &runnerv1.ExchangeRequest{
		Session: m.session, Resume: m.resume, Sequence: m.sequence, Token: m.token.String(), Draining: m.draining,
		Proof: string(m.token.Proof),
	}
	m.each(func(h *held) {
		if h.renewable() {
			req.Renewals = append(req.Renewals, &runnerv1.Renewal{Attempt: h.attempt, Epoch: h.epoch, Observed: h.observed})
		}
		if h.cancelled && !h.dropped {
			req.KnownCancels = append(req.KnownCancels, h.attempt)
		}
	})
	if k != beat && !m.draining {
		for i, s := range m.slots {
			if !s.taken {
				req.Offers = append(req.Offers, m.tokenOf(i))
			}
		}
	}
	switch k {
	case poll:
		m.paused = false
		req.WaitMs = cmp.Or(m.timing.GetPollMs(), pollDefault.Milliseconds())
		req.TakesBatches = true
		req.KnownKeys = slices.Sorted(maps.Keys(m.keys))
	case upload:
		m.load(req, now)
	case beat, kinds:
	}
	m.effect(effSend{k, req})
}

// load puts reports into an upload, up to its limit. A result goes only with or after
// everything that was logged before it.
func (m *machine) load(req *runnerv1.ExchangeRequest, now instant) {
	req.Declines, m.declines = m.declines, nil
	m.offered = true
	room := uploadBytesMax
	more := false
	m.each(func(h *held) {
		if h.dropped {
			return
		}
		for h.progressSent < len(h.progress) && len(req.GetProgress()) < uploadCountMax {
			req.Progress = append(req.Progress, h.progress[h.progressSent])
			h.progressSent++
		}
		for h.chunksSent < len(h.chunks) && room > 0 && len(req.GetChunks()) < uploadCountMax {
			c := h.chunks[h.chunksSent]
			req.Chunks = append(req.Chunks, c)
			room -= proto.Size(c)
			h.chunksSent++
		}
		if h.chunksSent < len(h.chunks) || h.progressSent < len(h.progress) {
			more = true
		} else if h.result != nil && !h.resultSent {
			req.Results = append(req.Results, h.result)
			h.resultSent = true
		}
		// The time runs from the first of what waits: a job that goes on printing must not
		// put off for ever that something of it was never acknowledged.
		if h.resendAt == 0 && (h.chunksSent+h.progressSent > 0 || h.resultSent && !h.resultDone) {
			h.resendAt = now.Add(resendAfter)
		}
	})
	m.since = 0
	if more {
		m.since = now.Add(-uploadDelay) // what is left goes as soon as this is answered
	}
}
