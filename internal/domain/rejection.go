package domain

import "errors"

// Rejection says that a command was understood and refused: nothing happened.
// It is an answer, not a fault, and is not logged as an error.
type Rejection struct {
	Code    Code
	Message string // one sentence for a person: what is wrong and what to do
	Field   string // the offending field of the request, when there is one
}

// Error implements error.
func (r *Rejection) Error() string { return string(r.Code) + ": " + r.Message }

// Reject makes a rejection.
func Reject(code Code, message string) *Rejection { return &Rejection{Code: code, Message: message} }

// AsRejection finds a rejection in err's chain.
func AsRejection(err error) (*Rejection, bool) {
	var r *Rejection
	ok := errors.As(err, &r)
	return r, ok
}

// ErrRetry marks a fault that retrying can mend (a store that was away, a lost owner).
var ErrRetry = errors.New("retry can help")
