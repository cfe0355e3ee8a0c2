package repository

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Command asks for something. Decide knows the types below, passed by value, and panics
// on any other.
type Command interface {
	// Name is the command's type name.
	Name() string
}

// Register makes the repository known. The same again is acknowledged.
type Register struct {
	Cause         domain.Cause
	Tenant        domain.TenantID
	Repository    domain.RepositoryID
	RepoName      string
	URL           string // empty: clients push to the server
	DefaultBranch string // short: "main"
	Poll          bool
	ProtectedRefs []string
}

// Sources of an observation.
const (
	SourcePoll = "poll" // the server looked
	SourcePush = "push" // somebody pushed, or a hook said that somebody did
)

// ObserveRefs says where refs are. Refs are sorted by name; an empty Commit says that the
// ref is gone. Complete says that there are no others. Reply: ObserveReply.
//
// Trust: names and commits come from the source; both are checked in full.
type ObserveRefs struct {
	Cause    domain.Cause
	Source   string
	Complete bool
	Refs     []Ref
}

// SetPolling turns polling on or off.
type SetPolling struct {
	Cause domain.Cause
	Poll  bool
}

// SetComponents says which references to other repositories its workflows may have: a policy of
// workflow.Pins.
type SetComponents struct {
	Cause  domain.Cause
	Policy string
}

// Forget ends the registration. Runs that there were stay.
type Forget struct{ Cause domain.Cause }

// DefineSchedules says which schedules the tip of the default branch has, sorted, each with
// its first occurrence from now on. A schedule that there is already keeps the occurrence
// that it awaits. Nothing happens when Commit is the tip no longer: another word is on its way.
//
// Trust: comes from this server, the texts in it from whoever may push to the branch.
type DefineSchedules struct {
	Cause     domain.Cause
	Commit    string // empty: there is no such branch
	Schedules []Schedule
}

// SettleOccurrence says what came of the occurrence NextID of a schedule, and which one is
// next. Nothing happens when it was settled before.
type SettleOccurrence struct {
	Cause    domain.Cause
	Schedule Schedule // Workflow, Cron, Zone and NextID say which; the rest counts for nothing
	Settled  Settled  // but At
	NextID   string
	NextAt   time.Time
}

// Withdraw disables a workflow or a component, or restores a workflow to its text at a commit.
// Who does the same again for the same reason changes nothing.
//
// Trust: comes from an administrator; that Commit has Text at the path is the shell's to know.
type Withdraw struct {
	Cause     domain.Cause
	Workflow  string
	Component string
	Commit    string
	Text      domain.Digest
	Reason    string
}

// Reinstate ends a withdrawal. Where there is none it changes nothing.
type Reinstate struct {
	Cause     domain.Cause
	Workflow  string
	Component string
	Reason    string
}

// Wake says that time has passed; nothing follows.
type Wake struct{ Cause domain.Cause }

// ObserveReply answers ObserveRefs.
type ObserveReply struct {
	Moved   int `json:"moved"`
	Removed int `json:"removed"`
}

// Name implements Command.
func (Register) Name() string { return "Register" }

// Name implements Command.
func (ObserveRefs) Name() string { return "ObserveRefs" }

// Name implements Command.
func (SetPolling) Name() string { return "SetPolling" }

// Name implements Command.
func (SetComponents) Name() string { return "SetComponents" }

// Name implements Command.
func (Forget) Name() string { return "Forget" }

// Name implements Command.
func (DefineSchedules) Name() string { return "DefineSchedules" }

// Name implements Command.
func (SettleOccurrence) Name() string { return "SettleOccurrence" }

// Name implements Command.
func (Withdraw) Name() string { return "Withdraw" }

// Name implements Command.
func (Reinstate) Name() string { return "Reinstate" }

// Name implements Command.
func (Wake) Name() string { return "Wake" }

// Event is a fact of a repository's history. The set is closed; events are pointers.
type Event interface {
	// Name is the event's type name, as stored.
	Name() string
	// Time is when it was decided.
	Time() time.Time
}

// Base is part of every event.
type Base struct {
	At time.Time `json:"at"`
}

// Time implements Event.
func (b Base) Time() time.Time { return b.At }

// RepositoryRegistered is the first event of every repository.
type RepositoryRegistered struct {
	Base
	Actor         domain.Actor        `json:"actor"`
	Tenant        domain.TenantID     `json:"tenant"`
	Repository    domain.RepositoryID `json:"repository"`
	RepoName      string              `json:"name"`
	URL           string              `json:"url,omitempty"`
	DefaultBranch string              `json:"default_branch"`
	Poll          bool                `json:"poll,omitempty"`
	ProtectedRefs []string            `json:"protected_refs,omitempty"`
}

// RefsRecorded is the baseline: where all refs were when they were first looked at. It
// starts nothing.
type RefsRecorded struct {
	Base
	Refs []Ref `json:"refs"`
}

// RefMoved says that a ref has another tip than before. Triggers follow from it.
type RefMoved struct {
	Base
	Ref       string       `json:"ref"`
	Before    string       `json:"before,omitempty"` // empty: it is new
	After     string       `json:"after"`
	Protected bool         `json:"protected,omitempty"` // by the policy of this moment
	Source    string       `json:"source"`
	Actor     domain.Actor `json:"actor"`
}

// RefRemoved says that a ref is gone.
type RefRemoved struct {
	Base
	Ref    string       `json:"ref"`
	Before string       `json:"before"`
	Source string       `json:"source"`
	Actor  domain.Actor `json:"actor"`
}

// PollingSet turns polling on or off.
type PollingSet struct {
	Base
	Actor domain.Actor `json:"actor"`
	Poll  bool         `json:"poll"`
}

// ComponentsSet says which references to other repositories workflows may have from now on.
type ComponentsSet struct {
	Base
	Actor  domain.Actor `json:"actor"`
	Policy string       `json:"policy"`
}

// RepositoryForgotten ends the registration.
type RepositoryForgotten struct {
	Base
	Actor domain.Actor `json:"actor"`
}

// SchedulesDefined replaces the schedules of a repository.
type SchedulesDefined struct {
	Base
	Commit    string     `json:"commit,omitempty"`
	Schedules []Schedule `json:"schedules"`
}

// OccurrenceSettled says what came of an occurrence.
type OccurrenceSettled struct {
	Base
	Workflow string       `json:"workflow"`
	Cron     string       `json:"cron"`
	Zone     string       `json:"zone,omitempty"`
	ID       string       `json:"id"`
	Outcome  string       `json:"outcome"`
	Run      domain.RunID `json:"run,omitempty"`
	Message  string       `json:"message,omitempty"`
	Missed   int          `json:"missed,omitempty"`
	NextID   string       `json:"next_id"`
	NextAt   time.Time    `json:"next_at"`
}

// Withdrew says that a workflow or a component was disabled, or a workflow restored. Since format 5.
type Withdrew struct {
	Base
	Withdrawal Withdrawal `json:"withdrawal"` // its At is the event's
}

// Reinstated says that a withdrawal ended. Since format 5.
type Reinstated struct {
	Base
	Workflow  string       `json:"workflow,omitempty"`
	Component string       `json:"component,omitempty"`
	Reason    string       `json:"reason"`
	Actor     domain.Actor `json:"actor"`
	Request   string       `json:"request,omitempty"`
}

// Name implements Event.
func (*RepositoryRegistered) Name() string { return "RepositoryRegistered" }

// Name implements Event.
func (*RefsRecorded) Name() string { return "RefsRecorded" }

// Name implements Event.
func (*RefMoved) Name() string { return "RefMoved" }

// Name implements Event.
func (*RefRemoved) Name() string { return "RefRemoved" }

// Name implements Event.
func (*PollingSet) Name() string { return "PollingSet" }

// Name implements Event.
func (*ComponentsSet) Name() string { return "ComponentsSet" }

// Name implements Event.
func (*RepositoryForgotten) Name() string { return "RepositoryForgotten" }

// Name implements Event.
func (*SchedulesDefined) Name() string { return "SchedulesDefined" }

// Name implements Event.
func (*OccurrenceSettled) Name() string { return "OccurrenceSettled" }

// Name implements Event.
func (*Withdrew) Name() string { return "Withdrew" }

// Name implements Event.
func (*Reinstated) Name() string { return "Reinstated" }

// StateEncoding is the version of EncodeState's form.
const StateEncoding uint32 = 4

// form has every event type that ever was.
var form = codec.FormOf[Event](
	new(RepositoryRegistered),
	new(RefsRecorded),
	new(RefMoved),
	new(RefRemoved),
	new(PollingSet),
	new(RepositoryForgotten),
	new(SchedulesDefined),
	new(OccurrenceSettled),
	new(Withdrew),
	new(Reinstated),
	new(ComponentsSet),
)

var stateForm = codec.RecordOf[State]()

// EncodeEvents writes events in their stored form, for readers of an event format.
func EncodeEvents(events []Event, format uint32) ([]byte, error) { return form.Encode(events, format) }

// DecodeEvents reads the stored form of any format; an unknown type or field is an error.
func DecodeEvents(data []byte) ([]Event, error) { return form.Decode(data) }

// EncodeState writes a checkpoint. Equal states give equal bytes.
func EncodeState(s *State) []byte {
	data, err := stateForm.Encode(s)
	if err != nil {
		panic("encode state of repository " + string(s.Repository) + ": " + err.Error()) // times are bounded by Decide
	}
	return data
}

// DecodeState reads a checkpoint of the current StateEncoding.
func DecodeState(data []byte) (*State, error) {
	s := New()
	return s, stateForm.Decode(data, s)
}
