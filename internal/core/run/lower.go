package run

// Servers of neighbouring formats share one history. What the lower one does not know is
// left out of events, and of commands on their way to it, while it is there. The functions
// here change copies: the caller's value stays as it was.

// formatRunnerVersion is the format that brought the runner's version to leases.
const formatRunnerVersion = 2

// Lower gives an event as readers of a format understand it. All events have such a form so
// far; an error would say that there is none, and the command that led to it is refused.
func Lower(e Event, format uint32) (Event, error) {
	if e, ok := e.(*LeaseGranted); ok && format < formatRunnerVersion {
		lowered := *e
		lowered.RunnerVersion = ""
		return &lowered, nil
	}
	return e, nil
}

// LowerCommand is Lower for a command that another server is to decide.
func LowerCommand(c Command, format uint32) (Command, error) {
	if c, ok := c.(GrantLease); ok && format < formatRunnerVersion {
		c.RunnerVersion = ""
		return c, nil
	}
	return c, nil
}
