package domain

import (
	"errors"
	"time"
)

// Rejection says that a command was understood and refused: nothing happened.
// It is an answer, not a fault, and is not logged as an error.
type Rejection struct {
	Code    Code
	Message string // one sentence for a person: what is wrong and what to do
	Field   string // the offending field of the request, when there is one
	// RetryAfter is when the same may succeed, as far as is known; 0: nothing is known.
	RetryAfter time.Duration `json:",omitempty"`
}

// Error implements error.
func (r *Rejection) Error() string { return string(r.Code) + ": " + r.Message }

// Reject makes a rejection.
func Reject(code Code, message string) *Rejection { return &Rejection{Code: code, Message: message} }

// Shed makes a rejection of new work that may succeed later.
func Shed(code Code, after time.Duration, message string) *Rejection {
	return &Rejection{Code: code, Message: message, RetryAfter: after}
}

// AsRejection finds a rejection in err's chain.
func AsRejection(err error) (*Rejection, bool) {
	var r *Rejection
	ok := errors.As(err, &r)
	return r, ok
}

// ErrRetry marks a fault that retrying can mend (a store that was away, a lost owner).
var ErrRetry = errors.New("retry can help")
