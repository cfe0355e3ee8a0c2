package group

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Decision is an accepted command: what happened.
type Decision struct{ Events []Event }

// Decide says what follows from a command and changes nothing.
func Decide(s *State, c Command, now time.Time) (Decision, *domain.Rejection) {
	d := &draft{s: s, now: domain.Later(domain.PlainTime(now), s.LastAt)}
	switch c := c.(type) {
	case Join:
		if r := d.join(c); r != nil {
			return Decision{}, r
		}
	case Leave:
		d.leave(c.Member)
	case Wake:
	default:
		panic(fmt.Sprintf("decide group %s: unknown command %T", s.GroupName, c))
	}
	return Decision{Events: d.events}, nil
}

// draft evolves a copy, so that each further event is decided on what the ones before led to.
type draft struct {
	s      *State
	now    time.Time
	events []Event
}

func (d *draft) base() Base      { return Base{At: d.now} }
func (d *draft) of(m *Member) Of { return Of{Base: d.base(), Member: m.Key, Generation: m.Generation} }
func (d *draft) waiting() int    { return len(d.s.Pending()) }
func (d *draft) crowded(max bool) bool {
	return max && d.waiting() >= PendingMax || len(d.s.Members) >= membersMax
}

func (d *draft) emit(e Event) {
	if len(d.events) == 0 {
		copied := *d.s
		d.s = &copied
	}
	d.events = append(d.events, e)
	Evolve(d.s, e)
}

func (d *draft) join(c Join) *domain.Rejection {
	if why := Wrong(c.GroupName); why != "" || c.Member.Run == "" || c.Repository == "" || c.Member.Job < Whole ||
		c.Member.Round < 1 {
		return &domain.Rejection{Code: domain.CodeInvalidArgument, Field: "group", Message: "The member can't join: " + why}
	}
	if d.s.Find(c.Member) != nil || slices.Contains(d.s.Gone, c.Member) {
		return nil
	}
	if d.s.Repository == "" {
		d.emit(&GroupOpened{Base: d.base(), Repository: c.Repository, GroupName: c.GroupName})
	}
	if d.crowded(c.Max) {
		d.emit(&MemberRefused{Base: d.base(), Member: c.Member, Waiting: d.waiting()})
		return nil
	}
	m := Member{Key: c.Member, Who: c.Who, Cancel: c.Cancel, Max: c.Max, Generation: d.s.Generation + 1, JoinedAt: d.now}
	replaced := d.s.Pending()
	if c.Max {
		replaced = nil
	}
	for i := range replaced {
		d.emit(&MemberSuperseded{Of: d.of(&replaced[i]), By: c.Who})
	}
	d.emit(&MemberJoined{Base: d.base(), Member: m, Ahead: d.s.Ahead(m.Generation)})
	if holder := d.s.Holder(); holder != nil && holder.By == nil && c.Cancel {
		d.emit(&CancelWanted{Of: d.of(holder), By: c.Who})
	}
	d.next()
	return nil
}

func (d *draft) leave(k Key) {
	if m := d.s.Find(k); m != nil {
		d.emit(&MemberLeft{Of: d.of(m)})
		d.next()
	}
}

// next admits whoever waits longest, once nobody is admitted.
func (d *draft) next() {
	if pending := d.s.Pending(); len(pending) > 0 && d.s.Holder() == nil {
		d.emit(&MemberAdmitted{Of: d.of(&pending[0])})
	}
}

// Wrong says why a text can't be the name of a group; it is empty when it can.
func Wrong(name string) string {
	switch {
	case name == "":
		return "the name of the concurrency group is empty"
	case len(name) > NameBytesMax:
		return fmt.Sprintf("the name of the concurrency group is over %d bytes", NameBytesMax)
	case !utf8.ValidString(name):
		return "the name of the concurrency group is not UTF-8"
	}
	return ""
}
