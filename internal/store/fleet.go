package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Faults of a fleet, told apart with errors.Is.
var (
	// ErrNameTaken: another live server has the name. It is free when that one leaves, or
	// when its lease runs out.
	ErrNameTaken = errors.New("another live server has this name")
	// ErrTooOld: the store may hold events of a format that the server does not read.
	ErrTooOld = errors.New("the server is older than what is stored")
)

// Member is one server process of a fleet.
type Member struct {
	Name    string // unique among live members
	Session string // of this process: tells it from an earlier one of the same name
	Address string // where other members reach it; empty: nowhere
	Version string // of the program, for people
	// Format is the highest event format that the server reads.
	Format uint32
	// Draining: it gives its partitions away and takes none.
	Draining bool
	// Instead, if set, is another session of the name that may be replaced although its lease has not
	// run out by the store's clock, as long as it ends at InsteadUntil: whoever asks has watched it for
	// as long as it lasts, and it was not renewed.
	Instead      string
	InsteadUntil time.Time
	Until        time.Time // end of its lease, by the store's clock; Renew sets it
	Live         bool      // the lease has not run out, by the store's clock; Renew sets it
}

// Holding is a partition and the member that owns it.
type Holding struct {
	Ownership
	Owner string // a member's name; empty: it was released, or nobody ever had it
}

// Picture is a fleet as its store sees it at one moment.
type Picture struct {
	Now time.Time // of the store's clock
	// Took is how long the picture was under way at most, by the clock of whoever asked for it;
	// Now was at some time of that.
	Took       time.Duration
	Members    []Member  // by name; members that died are listed for MemberKept
	Partitions []Holding // by id
	// Format is what may be written: every server that is, or was lately, a member reads
	// it. It only grows. 0: no member yet.
	Format uint32
}

// MemberKept is how long a member that died without leaving is listed, and holds the event
// format back: somebody may be about to start it again.
const MemberKept = 10 * time.Minute

// Member finds a member by name.
func (p Picture) Member(name string) (Member, bool) {
	for _, m := range p.Members {
		if m.Name == name {
			return m, true
		}
	}
	return Member{}, false
}

// Holding finds a partition.
func (p Picture) Holding(id domain.PartitionID) (Holding, bool) {
	for _, h := range p.Partitions {
		if h.Partition == id {
			return h, true
		}
	}
	return Holding{}, false
}

// How new repositories spread over the partitions of a fleet.
const (
	SpreadTenant     = "tenant"     // a tenant's repositories share one partition
	SpreadRepository = "repository" // each repository by itself
)

// Shape is what is fixed when a store is first used by servers.
type Shape struct {
	Partitions int    // of repositories and runs, from 1; pools have their own
	Spread     string // SpreadTenant or SpreadRepository
}

// PartitionsMax bounds Shape.Partitions: every server follows all of them.
const PartitionsMax = 256

// Check refuses a shape that can't be.
func (s Shape) Check() error {
	if s.Partitions < 1 || s.Partitions > PartitionsMax {
		return fmt.Errorf("%d partitions: from 1 to %d are possible", s.Partitions, PartitionsMax)
	}
	if s.Spread != SpreadTenant && s.Spread != SpreadRepository {
		return fmt.Errorf("spread %q: it is %s or %s", s.Spread, SpreadTenant, SpreadRepository)
	}
	return nil
}

// Check refuses a member that no database could hold.
func (m *Member) Check() error {
	if m.Name == "" || m.Session == "" || m.Format == 0 || !ValidText(m.Name) || !ValidText(m.Session) {
		return fmt.Errorf("member %q: name, session and format are needed", m.Name)
	}
	return nil
}

// Fleet is the side of the port that several servers on one database share. What it says of
// leases it says by the store's clock and by no other; that may be set, so members judge each
// other by their own.
type Fleet interface {
	// Renew makes the member live until ttl from now and shows the fleet. The name of a
	// live member of another session is refused with ErrNameTaken (but see Member.Instead), a member that can't
	// read what may be stored with ErrTooOld; then nothing was changed.
	Renew(ctx context.Context, m Member, ttl time.Duration) (Picture, error)
	// Leave ends the membership of that name and session. It releases nothing.
	Leave(ctx context.Context, m Member) error
	// Picture shows the fleet and changes nothing.
	Picture(ctx context.Context) (Picture, error)
	// Take is Acquire on condition that the epoch is still the one given (0: nobody ever
	// had it); otherwise ErrFenced, and nothing was changed. It waits, as Acquire does.
	Take(ctx context.Context, partition domain.PartitionID, owner string, epoch uint64) (Ownership, error)
	// Release says that nobody owns the partition, on condition that the epoch is still
	// the one given; otherwise ErrFenced. The epoch stays, so the next owner fences.
	Release(ctx context.Context, partition domain.PartitionID, epoch uint64) error
	// Shape records the shape if none is recorded yet, and gives the recorded one. The
	// zero Shape records nothing; without a recorded one the answer is the zero Shape.
	Shape(ctx context.Context, want Shape) (Shape, error)
}
