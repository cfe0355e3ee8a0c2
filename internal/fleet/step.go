package fleet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Inputs of a member's step function.
type (
	// Tick says that time has passed.
	Tick struct{}
	// Renewed: the store accepted the renewal that was sent at Sent, by the local clock.
	Renewed struct {
		Picture store.Picture
		Sent    time.Duration
	}
	// NotRenewed: it did not, or nobody knows.
	NotRenewed struct{ Err error }
	// Done: taking or giving back a partition ended.
	Done struct {
		Partition domain.PartitionID
		Taken     bool // it was a Take, not a Release or a Disown
		Err       error
	}
	// Kicked: another member changed something; look at the fleet now.
	Kicked struct{}
	// Drain: give everything back and take nothing any more.
	Drain struct{}
)

// Effects that a driver carries out.
type (
	// Renew the lease now. Renewed or NotRenewed must follow.
	Renew struct{ Draining bool }
	// Take the partition if its epoch is still that one. Done must follow.
	Take struct {
		Partition domain.PartitionID
		Epoch     uint64
	}
	// Release a partition that is owned here. Done must follow.
	Release struct{ Partition domain.PartitionID }
	// Disown a partition that the store says is this member's and that it does not own: an
	// earlier process of the name had it, or a release did not reach the store. Done must
	// follow.
	Disown struct {
		Partition domain.PartitionID
		Epoch     uint64
	}
	// Fence: another owner has the partition at a later epoch than the one held here.
	Fence struct {
		Partition domain.PartitionID
		Epoch     uint64
	}
	// Yield: the lease ran out; answer for nothing.
	Yield struct{}
	// Resume: there is a lease again.
	Resume struct{}
	// Kick tells members that something changed.
	Kick struct{ Members []store.Member }
)

// Member is the step function of one server. It does no I/O: Step takes an input, what the
// engine owns now and the local monotonic time, and returns effects.
type Member struct {
	name       string
	ttl        time.Duration
	partitions []domain.PartitionID

	picture  store.Picture
	seen     map[string]sight // of the others
	lease    time.Duration    // its end by the local clock
	next     time.Duration    // when to renew
	renewing bool
	again    bool // something changed while a renewal was under way
	yielded  bool
	draining bool
	busy     map[domain.PartitionID]bool
}

// sight is the lease of another member as this one saw it.
type sight struct {
	session string
	until   time.Time     // by the store's clock: another one with every renewal
	lasts   time.Duration // the longest that it was renewed for
	ends    time.Duration // by the local clock
}

// NewMember makes a member without a lease: it answers for nothing, and wants to renew.
func NewMember(name string, ttl time.Duration, partitions []domain.PartitionID) *Member {
	return &Member{name: name, ttl: ttl, partitions: slices.Sorted(slices.Values(partitions)), yielded: true,
		busy: map[domain.PartitionID]bool{}}
}

// Timing of a lease, in parts of its ttl.
const (
	renewEvery = 4 // so that three renewals may get lost
	retryAfter = 8 // after a renewal that failed
	// slower is how much slower another member's clock may run: a 32nd.
	slower = 32
	// expiryMargin is waited beyond the end of another member's lease before looking
	// whether it was renewed.
	expiryMargin = 2 * time.Millisecond
)

// Lease is the end of the lease by the local clock. It was counted from before the renewal
// was sent, so the store's own end of it is never earlier. Without a lease it is 0, also while
// what was held under the one before is given back.
func (m *Member) Lease() time.Duration {
	if m.yielded {
		return 0
	}
	return m.lease
}

// Idle reports whether nothing is being taken or given back.
func (m *Member) Idle() bool { return len(m.busy) == 0 }

// WakeAt is when Tick must come at the latest.
func (m *Member) WakeAt() time.Duration {
	switch {
	case m.yielded && m.renewing:
		// There is nothing to do but wait for the answer, and it may come later than anybody
		// hopes: a time that passes meanwhile would make the driver spin.
		return m.next + time.Hour
	case m.yielded:
		return m.next
	case m.renewing:
		return m.lease
	}
	return min(m.lease, m.next)
}

// Step takes one input. held is what the engine owns now, with the epochs.
func (m *Member) Step(in any, held map[domain.PartitionID]uint64, now time.Duration) (effects []any) {
	switch in := in.(type) {
	case Tick:
	case Renewed:
		effects = m.renewed(in, held, now)
	case NotRenewed:
		m.renewing = false
		m.next = now + m.ttl/retryAfter
		if errors.Is(in.Err, store.ErrNameTaken) || errors.Is(in.Err, store.ErrTooOld) {
			m.lease = min(m.lease, now)
		}
	case Done:
		effects = m.done(in, now)
	case Kicked:
		m.hurry(now)
	case Drain:
		m.draining = true
		m.hurry(now)
	default:
		panic(fmt.Sprintf("member %s got an input of type %T", m.name, in))
	}
	if !m.yielded && now >= m.lease {
		m.yielded = true
		effects = append(effects, Yield{})
	}
	if !m.renewing && now >= m.next {
		m.renewing, m.again = true, false
		effects = append(effects, Renew{Draining: m.draining})
	}
	return effects
}

// hurry asks for a renewal at once, or for another one after that which is under way.
func (m *Member) hurry(now time.Duration) {
	if m.renewing {
		m.again = true
	} else {
		m.next = now
	}
}

func (m *Member) renewed(in Renewed, held map[domain.PartitionID]uint64, now time.Duration) (effects []any) {
	if !m.yielded && now >= m.lease { // the answer comes before anybody noticed
		m.yielded = true
		effects = append(effects, Yield{})
	}
	m.renewing, m.picture = false, m.look(in, now)
	m.lease = in.Sent + m.ttl
	m.next = max(now, min(in.Sent+m.ttl/renewEvery, now+m.expiry(in.Sent, now)))
	if m.again {
		m.next = now
	}
	if now >= m.lease {
		return effects // the answer took too long: it gives no lease, and shows the past
	}
	if m.yielded {
		if len(held) > 0 || !m.Idle() {
			return append(effects, m.giveBack(held)...)
		}
		m.yielded = false
		effects = append(effects, Resume{})
	}
	want := Assign(m.picture, m.partitions)
	for _, p := range m.partitions {
		h, _ := m.picture.Holding(p)
		if eff := m.move(p, h, want[p] == m.name, held, in.Sent); eff != nil {
			effects = append(effects, eff)
		}
	}
	return effects
}

// giveBack lets go of what was held under a lease that ran out. Whoever saw this member
// without one may take a partition at any moment, also after the member has another lease, and
// then two servers would answer for it: only the next write would tell the old one. So a new
// lease begins when nothing is left of the old one.
func (m *Member) giveBack(held map[domain.PartitionID]uint64) (effects []any) {
	for _, p := range m.partitions {
		h, _ := m.picture.Holding(p)
		switch epoch, here := held[p]; {
		case !here || m.busy[p]:
		case epoch < h.Epoch:
			effects = append(effects, Fence{p, h.Epoch})
		default:
			m.busy[p] = true
			effects = append(effects, Release{p})
		}
	}
	return effects
}

// look takes a picture in and notes until when others may answer for what they own: nobody takes
// it from them before. A lease is over when it was not renewed for as long as it lasts, by the
// clock of whoever waits for that. The store's clock proves nothing: set forward it ends leases
// by which their holders still answer, set back it keeps the dead alive. A picture may be under way
// for long, so a lease counts from when it was shown, and is over when a picture that was asked for
// after its end does not show another one.
func (m *Member) look(in Renewed, now time.Duration) store.Picture {
	p, first := in.Picture, m.seen == nil
	seen := make(map[string]sight, len(p.Members))
	p.Members = slices.Clone(p.Members)
	for i := range p.Members {
		other := &p.Members[i]
		if other.Name == m.name {
			continue
		}
		s, known := m.seen[other.Name]
		if !known || s.session != other.Session || !s.until.Equal(other.Until) {
			if !known || s.session != other.Session {
				s.lasts = m.ttl
			}
			lasts := min(max(s.lasts, other.Until.Sub(p.Now)), TTLMax)
			s = sight{other.Session, other.Until, lasts, now + lasts + lasts/slower}
		}
		seen[other.Name], other.Live = s, other.Live && in.Sent < s.ends
	}
	for name, s := range m.seen { // who is not listed has left, unless the clock has gone too far for it
		if _, listed := seen[name]; !listed && in.Sent < s.ends && p.Now.After(s.until.Add(store.MemberKept)) {
			seen[name] = s
		}
	}
	for _, h := range p.Partitions { // the same of somebody who was never seen
		if _, listed := seen[h.Owner]; first && !listed && h.Owner != "" && h.Owner != m.name {
			seen[h.Owner] = sight{ends: now + m.ttl + m.ttl/slower}
		}
	}
	m.seen = seen
	return p
}

// expiry is how long until a member's lease ends that is late with renewing: then it is
// worth looking. Members renew a few times a ttl, so most of the time nobody is late.
func (m *Member) expiry(sent, now time.Duration) time.Duration {
	soonest := m.ttl
	for _, s := range m.seen {
		if s.ends > sent {
			soonest = min(soonest, max(s.ends-now, 0)+expiryMargin)
		}
	}
	return soonest
}

// move decides what to do about one partition that was shown at that time at the earliest, nil for
// nothing.
func (m *Member) move(
	p domain.PartitionID, h store.Holding, mine bool, held map[domain.PartitionID]uint64, shown time.Duration,
) any {
	epoch, here := held[p]
	switch {
	case m.busy[p]:
		return nil
	case here && epoch < h.Epoch:
		return Fence{p, h.Epoch}
	case here && (m.draining || !mine):
		m.busy[p] = true
		return Release{p}
	case here:
		return nil
	case mine && !m.draining && (h.Owner == "" || h.Owner == m.name || shown >= m.seen[h.Owner].ends):
		m.busy[p] = true
		return Take{p, h.Epoch}
	case h.Owner == m.name:
		m.busy[p] = true
		return Disown{p, h.Epoch}
	}
	return nil
}

func (m *Member) done(in Done, now time.Duration) (effects []any) {
	delete(m.busy, in.Partition)
	if in.Err != nil {
		if errors.Is(in.Err, store.ErrFenced) {
			m.hurry(now)
		}
		return nil // the next renewal shows what is true
	}
	if in.Taken && len(m.busy) > 0 {
		return nil // others are told once, of all
	}
	var others []store.Member
	for _, other := range m.picture.Members {
		if other.Live && other.Name != m.name {
			others = append(others, other)
		}
	}
	if m.hurry(now); len(others) > 0 {
		effects = append(effects, Kick{others})
	}
	return effects
}
