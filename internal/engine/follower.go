package engine

import (
	"container/list"
	"errors"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Phases of following a partition.
const (
	phasePlace   = iota // asking where the log stands and what is live
	phaseLoad           // loading what is live
	phaseCatchUp        // applying rows up to the goal, and showing nothing
	phaseShow           // showing rows as they come
)

// followRows is how many rows are read at once.
const followRows = 256

// Inputs of a follower, beside inLoaded and inSweep.
type (
	inBegin struct{}
	inPlace struct {
		position store.Position
		heads    []store.Head
		err      error
	}
	inGoal struct {
		position store.Position
		err      error
	}
	inRows struct {
		rows []store.Row
		err  error
	}
	inNews     struct{ position store.Position }
	inContinue struct{}
)

// Effects of a follower, beside effLoad, effLoaded, effCommitted, effReady and effProblem.
type (
	effPlace struct{} // the log's end first, then the heads of live streams
	effGoal  struct{} // the log's end now
	effRead  struct {
		after store.Position
		limit int
	}
	effLoadAt struct {
		key     streamKey
		version uint64
	}
	// effBroken: what was read does not go on from what was read before. Following must
	// begin anew.
	effBroken struct{ text string }
)

// follower is the step function of a partition that is owned elsewhere. It shows observers
// exactly what the owner commits: first every live stream as of one position, then every
// row after it, in order, once.
//
// The start can't be read in one snapshot: streams are loaded while the owner goes on. So
// the log's end is read before (where rows begin to be applied), and again when everything
// is loaded (up to where they are applied in silence): a stream that was loaded ahead of
// the log skips the rows that it contains already, and at the goal all stand at one point.
type follower struct {
	partition domain.PartitionID
	kinds     map[string]*Kind
	paranoid  bool

	phase    int
	position store.Position // of the last row applied
	goal     store.Position // catching up ends here
	end      store.Position // of the log, as far as it is known
	streams  map[streamKey]*stream
	round    *list.List // the same, in the order in which sweeps show them
	loading  map[streamKey]bool
	sick     map[streamKey]string
	rows     []store.Row // read, and not applied yet
	reading  bool
	wanted   *streamKey // the next row needs this stream, and it is being loaded
	more     bool       // there is more to do once the effects are carried out
}

func newFollower(p domain.PartitionID, kinds map[string]*Kind, paranoid bool) *follower {
	return &follower{partition: p, kinds: kinds, paranoid: paranoid, streams: map[streamKey]*stream{}, round: list.New(),
		loading: map[streamKey]bool{}, sick: map[streamKey]string{}}
}

// step takes one input; the same inputs give the same effects. While more is set, the
// caller carries the effects out and then brings inContinue.
func (f *follower) step(in any) []any {
	f.more = false
	switch in := in.(type) {
	case inBegin:
		return []any{effPlace{}}
	case inPlace:
		return f.placed(in)
	case inLoaded:
		return f.loaded(in)
	case inGoal:
		if in.err != nil {
			return []any{effGoal{}}
		}
		f.goal, f.end = max(in.position, f.position), max(f.end, in.position)
		f.phase = phaseCatchUp
		return f.advance()
	case inRows:
		f.reading = false
		if in.err != nil {
			f.reading = true
			return []any{effRead{f.position, followRows}}
		}
		if len(in.rows) == 0 {
			f.end = min(f.end, f.position) // news of rows that are not there
		}
		f.rows = append(f.rows, in.rows...)
		return f.advance()
	case inNews:
		f.end = max(f.end, in.position)
		return f.advance()
	case inContinue:
		return f.advance()
	case inSweep:
		return f.sweep(in.limit)
	}
	panic(fmt.Sprintf("follower of %s got an input of type %T", f.partition, in))
}

func (f *follower) placed(in inPlace) (effects []any) {
	if in.err != nil {
		return []any{effPlace{}}
	}
	f.position, f.end, f.phase = in.position, max(f.end, in.position), phaseLoad
	for _, h := range in.heads {
		key := streamKey{h.Tenant, h.Stream}
		f.loading[key] = true
		effects = append(effects, effLoad{key})
	}
	if len(effects) == 0 {
		return []any{effGoal{}}
	}
	return effects
}

// loaded takes a stream in: one of the live ones, or the one that the next row needs.
func (f *follower) loaded(in inLoaded) (effects []any) {
	if f.wanted != nil && *f.wanted == in.key {
		return f.found(in)
	}
	if !f.loading[in.key] {
		return nil
	}
	switch {
	case in.err == nil:
		f.take(in.stream)
	case errors.Is(in.err, errUnreadable):
		effects = append(effects, f.ail(in.key, in.err.Error()))
	default:
		return []any{effLoad{in.key}}
	}
	delete(f.loading, in.key)
	if len(f.loading) == 0 {
		effects = append(effects, effGoal{})
	}
	return effects
}

func (f *follower) found(in inLoaded) (effects []any) {
	before := f.rows[0].Version - uint64(f.rows[0].Count)
	if in.err != nil && !errors.Is(in.err, errUnreadable) {
		return []any{effLoadAt{in.key, before}}
	}
	f.wanted = nil
	switch {
	case in.err != nil:
		effects = append(effects, f.ail(in.key, in.err.Error()))
	case in.stream.version != before:
		effects = append(effects, f.ail(in.key, fmt.Sprintf(
			"its history ends at version %d and goes on after %d", in.stream.version, before)))
	default:
		f.take(in.stream)
	}
	return append(effects, f.advance()...)
}

// ail isolates a stream that can't be read; the others go on.
func (f *follower) ail(key streamKey, text string) any {
	f.sick[key] = text
	f.forget(key)
	return effProblem{key.id, text}
}

// advance applies rows as far as it can, and asks for what it lacks.
func (f *follower) advance() (effects []any) {
	if f.phase < phaseCatchUp || f.wanted != nil {
		return nil
	}
	var shown []Committed
	for len(f.rows) > 0 {
		row := &f.rows[0]
		if contains(shown, row) {
			f.more = true // its state must be shown as of the earlier row first
			break
		}
		applied, out, committed := f.apply(row)
		effects = append(effects, out...)
		if !applied {
			break
		}
		if committed != nil {
			shown = append(shown, *committed)
		}
		f.position = row.Position
		f.rows = f.rows[1:]
		if f.phase == phaseCatchUp && f.position >= f.goal {
			break
		}
	}
	if len(shown) > 0 {
		effects = append([]any{effCommitted{shown}}, effects...)
	}
	return append(effects, f.next()...)
}

func contains(shown []Committed, row *store.Row) bool {
	for i := range shown {
		if shown[i].Stream == row.Stream && shown[i].Tenant == row.Tenant {
			return true
		}
	}
	return false
}

// next begins to show when the goal is reached, and asks for further rows.
func (f *follower) next() (effects []any) {
	if f.wanted != nil || f.more || f.phase < phaseCatchUp {
		return nil
	}
	if f.phase == phaseCatchUp && f.position >= f.goal {
		f.phase = phaseShow
		for _, key := range sortedStreams(f.streams) {
			if s := f.streams[key]; s.kind.Live(s.state) {
				effects = append(effects, effLoaded{f.live(s)})
			}
		}
		effects = append(effects, effReady{})
		f.more = len(f.rows) > 0
	}
	if len(f.rows) == 0 && f.position < f.end && !f.reading {
		f.reading = true
		effects = append(effects, effRead{f.position, followRows})
	}
	return effects
}

// apply moves one stream on by one row. ok is false when it has to wait.
func (f *follower) apply(row *store.Row) (ok bool, effects []any, committed *Committed) {
	if row.Position != f.position+1 {
		return false, f.broken("row %d follows %d", row.Position, f.position), nil
	}
	key := streamKey{row.Tenant, row.Stream}
	if _, sick := f.sick[key]; sick {
		return true, nil, nil
	}
	before := row.Version - uint64(row.Count)
	s := f.streams[key]
	if s == nil {
		kind := f.kinds[key.id.Kind()]
		switch {
		case kind == nil:
			return true, []any{f.ail(key, "there is no such kind of stream")}, nil
		case before > 0:
			f.wanted = &key
			return false, []any{effLoadAt{key, before}}, nil
		}
		s = &stream{key: key, kind: kind, state: kind.New()}
		f.take(s)
	}
	if f.phase == phaseCatchUp && row.Version <= s.version {
		return true, nil, nil // it was loaded with this row
	}
	if s.version != before {
		return false, f.broken("%s is at version %d, and row %d goes on after %d",
			key.id, s.version, row.Position, before), nil
	}
	events, err := s.kind.DecodeEvents(row.Events)
	if err != nil || len(events) != int(row.Count) {
		text := fmt.Sprintf("row %d has %d of %d events: %v", row.Position, len(events), row.Count, err)
		return true, []any{f.ail(key, text)}, nil
	}
	return f.evolve(s, row, events)
}

// evolve applies events that were decoded. An event that breaks a rule of its kind ails
// the stream, as it would at its owner.
func (f *follower) evolve(s *stream, row *store.Row, events []any) (ok bool, effects []any, committed *Committed) {
	defer func() {
		if r := recover(); r != nil {
			ok, effects, committed = true, []any{f.ail(s.key, fmt.Sprintf("row %d: %v", row.Position, r))}, nil
		}
	}()
	for _, e := range events {
		s.kind.Evolve(s.state, e)
	}
	if s.version == 0 && s.kind.Intern != nil {
		s.kind.Intern(s.state)
	}
	s.version, s.stored = row.Version, true
	if f.paranoid {
		if err := s.kind.Check(s.state); err != nil {
			return true, []any{f.ail(s.key, err.Error())}, nil
		}
	}
	if !s.kind.Live(s.state) {
		f.forget(s.key)
	}
	if f.phase < phaseShow {
		return true, nil, nil
	}
	return true, nil, &Committed{Partition: f.partition, Position: row.Position, Tenant: row.Tenant, Stream: row.Stream,
		First: row.Version - uint64(row.Count) + 1, Version: row.Version, At: row.At, Events: events, State: s.state}
}

func (f *follower) broken(form string, args ...any) []any {
	f.rows, f.phase = nil, phasePlace
	return []any{effBroken{fmt.Sprintf(form, args...)}}
}

func (f *follower) live(s *stream) Live {
	return Live{Partition: f.partition, Tenant: s.key.tenant, Stream: s.key.id, Version: s.version, State: s.state}
}

// take keeps a stream; it is swept after all others.
func (f *follower) take(s *stream) {
	f.forget(s.key)
	f.streams[s.key] = s
	s.turn = f.round.PushBack(s)
}

func (f *follower) forget(key streamKey) {
	if s := f.streams[key]; s != nil {
		delete(f.streams, key)
		f.round.Remove(s.turn)
		s.turn = nil
	}
}

// sweep shows up to limit live streams again, as an owner does.
func (f *follower) sweep(limit int) (effects []any) {
	if f.phase < phaseShow {
		return nil
	}
	for range min(limit, f.round.Len()) {
		turn := f.round.Front()
		f.round.MoveToBack(turn)
		effects = append(effects, effLoaded{f.live(turn.Value.(*stream))})
	}
	return effects
}
