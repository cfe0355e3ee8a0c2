package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/capture"
)

// Exit codes. Scripts rely on them; docs/reference/cli.md explains each.
const (
	ExitSuccess     = 0
	ExitFailed      = 1   // the run did not succeed; lint or doctor found an error
	ExitUsage       = 2   // the command line, or the settings around it, make no sense
	ExitRefused     = 3   // understood and refused, nothing happened
	ExitUnreachable = 4   // no server answered
	ExitFault       = 5   // something broke, here or in the server
	ExitInterrupted = 130 // Ctrl-C or SIGTERM; a run that was started goes on
)

// usageError is a mistake in how the program was called.
type usageError struct{ text string }

// Error implements error.
func (e *usageError) Error() string { return e.text }

// Misuse marks an error of Serve as a setting that makes no sense: exit code 2.
func Misuse(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err.Error()}
}

// Refused is an error that says no, with a stable code: exit code 3.
func Refused(code string, err error) error {
	if err == nil {
		return nil
	}
	return &refusal{code: code, text: err.Error()}
}

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// refusal is a no that this program says by itself, in the form in which the server says
// its own.
type refusal struct {
	code, text string
	choices    []string
}

// Error implements error.
func (e *refusal) Error() string { return e.text }

// ended says that everything was said already and only the exit code is left.
type ended struct{ code int }

// Error implements error.
func (e *ended) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Codes of refusals that never reach a server.
const (
	codeNoRepository = "not_a_repository"
	codeCapture      = "capture_refused"
	codePush         = "push_refused"
	codeNoRun        = "no_run"
	codeNoAttempt    = "no_attempt"
	codeInterrupted  = "interrupted"
	codeFault        = "fault"
	codeUsage        = "usage"
	codeUnreachable  = "server_unreachable"
)

// verdict is an error as it leaves the program: a code to exit with, and the answer in
// the API's form.
type verdict struct {
	exit   int
	label  string // of the class, for people
	answer *fairleadv1.ErrorInfo
}

// judge sorts an error. started says whether the command began its work: before, every
// error is about the command line.
func judge(ctx context.Context, err error, started bool) verdict {
	var (
		usage  *usageError
		no     *refusal
		socket *net.OpError
	)
	text := err.Error()
	switch {
	case errors.As(err, &usage) || !started,
		errors.As(err, &socket) && socket.Op == "listen": // an address of ours, not a server that is away
		return verdict{ExitUsage, "", &fairleadv1.ErrorInfo{Code: codeUsage, Message: text}}
	case errors.As(err, &no):
		return verdict{ExitRefused, "refused", &fairleadv1.ErrorInfo{Code: no.code, Message: text, Choices: no.choices}}
	case client.Refusal(err) != nil:
		return judgeAnswer(client.Refusal(err))
	case errors.Is(err, capture.ErrNoRepository):
		return verdict{ExitRefused, "refused", &fairleadv1.ErrorInfo{Code: codeNoRepository, Message: text}}
	case errors.Is(err, capture.ErrPush):
		return verdict{ExitRefused, "refused", &fairleadv1.ErrorInfo{Code: codePush, Message: text}}
	case errors.Is(err, capture.ErrNoCommit), errors.Is(err, capture.ErrTooLarge),
		errors.Is(err, capture.ErrUnsupported):
		return verdict{ExitRefused, "refused", &fairleadv1.ErrorInfo{Code: codeCapture, Message: text}}
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return verdict{ExitInterrupted, "", &fairleadv1.ErrorInfo{Code: codeInterrupted, Message: "interrupted"}}
	case errors.Is(err, client.ErrNoServer), errors.Is(err, capture.ErrUnreached), client.Unreachable(err):
		return verdict{ExitUnreachable, "server unreachable", &fairleadv1.ErrorInfo{Code: codeUnreachable, Message: text}}
	}
	return verdict{ExitFault, "", &fairleadv1.ErrorInfo{Code: codeFault, Message: text}}
}

// judgeAnswer sorts what a server answered. That it can't now is no refusal: the same
// call, with the same key, may succeed later.
func judgeAnswer(answer *fairleadv1.ErrorInfo) verdict {
	switch answer.GetCode() {
	case "internal":
		return verdict{ExitFault, "the server failed", answer}
	case "unavailable", "not_owner":
		return verdict{ExitUnreachable, "the server can't do it now", answer}
	case "deadline_exceeded", "cancelled": // whatever became of it: no refusal
		return verdict{ExitUnreachable, "the server did not answer in time", answer}
	}
	return verdict{ExitRefused, "refused", answer}
}

// String is the verdict for people, in lines.
func (v verdict) String() string {
	var out strings.Builder
	out.WriteString("fairlead: ")
	if v.label != "" {
		fmt.Fprintf(&out, "%s (%s): ", v.label, v.answer.GetCode())
	}
	out.WriteString(clean(v.answer.GetMessage()))
	if field := v.answer.GetField(); field != "" {
		fmt.Fprintf(&out, " [field %s]", clean(field))
	}
	out.WriteByte('\n')
	for _, choice := range v.answer.GetChoices() {
		fmt.Fprintf(&out, "  %s\n", clean(choice))
	}
	if id := v.answer.GetRequest(); id != "" && v.exit == ExitFault {
		fmt.Fprintf(&out, "  request %s: the server's log has more under that id\n", clean(id))
	}
	return out.String()
}
