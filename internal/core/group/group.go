package group

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Limits, and what happens at each.
const (
	// NameBytesMax: the name of a group; a longer one is no name, and the job or run is invalid.
	NameBytesMax = 1024
	// PendingMax: members that wait in a group with queue: max; the next one is turned away.
	PendingMax = 100
	// membersMax: members that have not left, those that were replaced included. More than a
	// few of these are there only while their runs don't answer.
	membersMax = 1000
	// goneMax: keys that are remembered after they left. A Join that is later than so many others have
	// left joins once more, and leaves when its run does not want the place.
	goneMax = 64
)

// Whole is the job of a member that is a run as a whole.
const Whole = -1

// Key is what a member is known by. A run joins anew in each of its rounds.
type Key struct {
	Run   domain.RunID `json:"run"`
	Job   int          `json:"job"` // index, or Whole
	Round int          `json:"round"`
}

// Successor is who took somebody's place, for people to find.
type Successor struct {
	Run    domain.RunID `json:"run"`
	Number uint64       `json:"number"`
	Job    string       `json:"job,omitempty"` // its key; empty: the run as a whole
}

// Text names the successor in a sentence.
func (s Successor) Text() string {
	text := fmt.Sprintf("run #%d (%s)", s.Number, s.Run)
	if s.Job != "" {
		text = "job " + s.Job + " of " + text
	}
	return text
}

// Member is somebody who joined and has not left.
type Member struct {
	Key
	Who    Successor `json:"who"`              // itself, as others are told
	Cancel bool      `json:"cancel,omitempty"` // it asked whoever runs to stop
	Max    bool      `json:"max,omitempty"`    // it replaces nobody
	// Generation is the fence of its place: what is said of another one is not about this.
	Generation uint64     `json:"generation"`
	JoinedAt   time.Time  `json:"joined_at"`
	Admitted   bool       `json:"admitted,omitempty"`
	Superseded bool       `json:"superseded,omitempty"` // it was replaced while it waited
	By         *Successor `json:"by,omitempty"`         // who superseded it, or wants it to stop
}

// State is a group as its events tell it. Only Evolve writes it.
type State struct {
	Version    uint64              `json:"version"`
	Repository domain.RepositoryID `json:"repository"` // empty until somebody joined
	GroupName  string              `json:"name"`       // as it was first written
	Generation uint64              `json:"generation"` // of the member that came last
	Members    []Member            `json:"members,omitempty"`
	LastAt     time.Time           `json:"last_at"`
	Gone       []Key               `json:"gone,omitempty"` // who left or was turned away last; they never come again
}

// New is the state of a group that nobody has joined.
func New() *State { return new(State) }

// Stream names the stream of a group. Names count without case, within their repository.
func Stream(repository domain.RepositoryID, name string) domain.StreamID {
	sum := sha256.Sum256([]byte(string(repository) + "\x00" + strings.ToLower(name)))
	return domain.StreamID("group/" + domain.EncodeID(domain.PrefixGroup, [16]byte(sum[:16])))
}

// Same reports whether two names are of one group.
func Same(a, b string) bool { return Stream("", a) == Stream("", b) }

// Holder is the admitted member; nil when the group is empty. The result is for reading only.
func (s *State) Holder() *Member {
	if i := slices.IndexFunc(s.Members, func(m Member) bool { return m.Admitted }); i >= 0 {
		return &s.Members[i]
	}
	return nil
}

// Pending lists the members that wait to be admitted, first come first.
func (s *State) Pending() []Member {
	return slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return m.Admitted || m.Superseded })
}

// Find gives the member of that key; nil when it has left or never came.
func (s *State) Find(k Key) *Member {
	if i := slices.IndexFunc(s.Members, func(m Member) bool { return m.Key == k }); i >= 0 {
		return &s.Members[i]
	}
	return nil
}

// Ahead lists the runs of all members that go before that of a generation, each once.
func (s *State) Ahead(generation uint64) []domain.RunID {
	var out []domain.RunID
	for _, m := range s.Members {
		if m.Generation < generation && !m.Superseded && !slices.Contains(out, m.Run) {
			out = append(out, m.Run)
		}
	}
	return out
}

// Evolve applies a committed event. It decides nothing.
func Evolve(s *State, e Event) {
	s.Version++
	s.LastAt = e.Time()
	if e, ok := e.(*GroupOpened); ok {
		s.Repository, s.GroupName = e.Repository, e.GroupName
		return
	}
	if e, ok := e.(*MemberJoined); ok {
		s.Generation = e.Member.Generation
		s.Members = append(slices.Clip(s.Members), e.Member)
		return
	}
	s.Members = slices.Clone(s.Members)
	switch e := e.(type) {
	case *MemberAdmitted:
		if m := s.Find(e.Member); m != nil {
			m.Admitted = true
		}
	case *MemberSuperseded:
		if m := s.Find(e.Member); m != nil {
			by := e.By
			m.Superseded, m.By = true, &by
		}
	case *CancelWanted:
		if m := s.Find(e.Member); m != nil {
			by := e.By
			m.By = &by
		}
	case *MemberLeft:
		s.Members = slices.DeleteFunc(s.Members, func(m Member) bool { return m.Key == e.Member })
		if len(s.Members) == 0 {
			s.Members = nil
		}
		s.gone(e.Member)
	case *MemberRefused:
		s.gone(e.Member)
	}
}

func (s *State) gone(k Key) {
	s.Gone = append(slices.Clone(s.Gone[max(0, len(s.Gone)+1-goneMax):]), k)
}

// Live reports whether the group has to be in memory: as long as somebody is in it.
func Live(s *State) bool { return len(s.Members) > 0 }

// NextWake is never: nothing of a group changes by time alone.
func NextWake(*State) (time.Time, bool) { return time.Time{}, false }

// Check finds a broken invariant in a state as it is between decisions.
func Check(s *State) error {
	admitted, last := 0, uint64(0)
	for _, m := range s.Members {
		switch {
		case m.Generation <= last || m.Generation > s.Generation:
			return fmt.Errorf("check group %s: generation %d after %d, of %d", s.GroupName, m.Generation, last, s.Generation)
		case m.Admitted && m.Superseded:
			return fmt.Errorf("check group %s: generation %d is admitted and superseded", s.GroupName, m.Generation)
		case m.Superseded && m.By == nil:
			return fmt.Errorf("check group %s: generation %d is superseded by nobody", s.GroupName, m.Generation)
		case slices.Contains(s.Gone, m.Key):
			return fmt.Errorf("check group %s: generation %d came again", s.GroupName, m.Generation)
		case m.Admitted:
			admitted++
		}
		last = m.Generation
	}
	if pending := len(s.Pending()); admitted > 1 || admitted == 0 && pending > 0 {
		return fmt.Errorf("check group %s: %d admitted, %d wait", s.GroupName, admitted, pending)
	}
	return nil
}

// StateEncoding is the version of EncodeState's form.
const StateEncoding uint32 = 1

// form has every event type that ever was.
var form = codec.FormOf[Event](new(GroupOpened), new(MemberJoined), new(MemberAdmitted), new(MemberSuperseded),
	new(CancelWanted), new(MemberLeft), new(MemberRefused))

var stateForm = codec.RecordOf[State]()

// EncodeEvents writes events in their stored form, for readers of an event format.
func EncodeEvents(events []Event, format uint32) ([]byte, error) { return form.Encode(events, format) }

// DecodeEvents reads the stored form of any format; an unknown type or field is an error.
func DecodeEvents(data []byte) ([]Event, error) { return form.Decode(data) }

// EncodeState writes a checkpoint. Equal states give equal bytes.
func EncodeState(s *State) []byte {
	data, err := stateForm.Encode(s)
	if err != nil {
		panic("encode state of group " + s.GroupName + ": " + err.Error()) // times are bounded by Decide
	}
	return data
}

// DecodeState reads a checkpoint of the current StateEncoding.
func DecodeState(data []byte) (*State, error) {
	s := New()
	return s, stateForm.Decode(data, s)
}

// formatGroups is the event format that brought groups.
const formatGroups = 5

// Lower gives an event as readers of a format understand it: older ones know no groups.
func Lower(e Event, format uint32) (Event, error) {
	if format < formatGroups {
		return nil, codec.ErrFormat
	}
	return e, nil
}

// LowerCommand is Lower for a command that another server is to decide.
func LowerCommand(c Command, format uint32) (Command, error) {
	if format < formatGroups {
		return nil, codec.ErrFormat
	}
	return c, nil
}
