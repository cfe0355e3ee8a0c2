package isolate

import (
	"context"
	"fmt"
	"slices"
)

// Warmer is a Driver that can do most of Prepare before it is known for which attempt,
// so that a job need not wait for it.
type Warmer interface {
	Driver
	// Warm starts a sandbox that is nobody's yet. The spec's ID and Dir are its own; an ID
	// shorter than the one it gets later can't be replaced, so give it a long one.
	Warm(ctx context.Context, spec Spec) (Warm, error)
}

// Warm is a sandbox that waits for its attempt. It has run nothing of anybody, and its
// folders either do not exist yet or can't be reached by what runs in other sandboxes.
type Warm interface {
	// Take turns it into what Prepare(spec) makes, and uses it up. The spec must be Alike
	// the one it was started with, and name it in Warm. The folder it was started with is
	// not needed any more; whether it is still there depends on the driver. After an error
	// the warm one is gone, and Prepare with a spec that names none is the way out.
	Take(ctx context.Context, spec Spec) (Sandbox, error)
	// Gone is closed when it has ended by itself.
	Gone() <-chan struct{}
	// Discard ends it and erases all of it.
	Discard(ctx context.Context) error
}

// Alike reports whether two sandboxes differ in nothing but whose they are and where.
func Alike(a, b Spec) bool {
	return a.Choice == b.Choice && a.Network == b.Network && a.Limits == b.Limits && slices.Equal(a.Mask, b.Mask)
}

// CheckTake is what every driver asks before a warm sandbox becomes an attempt's.
func CheckTake(warm, spec Spec) error {
	switch {
	case spec.Warm != warm.ID:
		return fmt.Errorf("take warm sandbox %s for %s: it was asked for %q", warm.ID, spec.ID, spec.Warm)
	case !Alike(warm, spec):
		return fmt.Errorf(
			"take warm sandbox %s for %s: %w: it was started for another kind",
			warm.ID,
			spec.ID,
			ErrUnsupported,
		)
	}
	return nil
}
