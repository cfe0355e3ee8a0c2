package sim

import "github.com/fairlead-ci/fairlead/internal/domain"

const checkRules = "no stream breaks a rule of its own kind"

// noRuleBroken asks the core's own checks about what was committed. In half of the worlds
// servers do so themselves after every command, and quarantine a stream before the commit;
// in the others the checks beside this one see it first.
func noRuleBroken(w *world) checker {
	return checker{
		sentence: checkRules,
		held: func(id domain.StreamID, version uint64, state any) {
			if h := w.book.streams[id]; h != nil {
				if err := h.kind.Check(state); err != nil {
					w.violation(checkRules, "%s at version %d: %v", id, version, err)
				}
			}
		},
	}
}
