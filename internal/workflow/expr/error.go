package expr

import "fmt"

// Span is a range of bytes in the text that was parsed: [Start, End).
type Span struct{ Start, End int }

// Code names a kind of problem of an expression. Codes are stable.
type Code string

// Codes of problems.
const (
	CodeSyntax             Code = "expression_syntax"
	CodeNotClosed          Code = "expression_not_closed"
	CodeTooLong            Code = "expression_too_long"
	CodeTooDeep            Code = "expression_too_deep"
	CodeUnknownFunction    Code = "unknown_function"
	CodeArgumentCount      Code = "wrong_argument_count"
	CodeFailed             Code = "expression_failed"
	CodeBudget             Code = "expression_budget_exceeded"
	CodeUnknownContext     Code = "unknown_context"
	CodeContextNotAllowed  Code = "context_not_allowed"
	CodeFunctionNotAllowed Code = "function_not_allowed"
)

// Phase is when a problem shows: while the text is cut into symbols, while they are put
// together, or while the value is computed.
type Phase string

// Phases of an expression. What depends on contexts and functions being there is found
// while parsing, as in GitHub's parser, which is told of them beforehand.
const (
	PhaseLexing     Phase = "lexing"
	PhaseParsing    Phase = "parsing"
	PhaseEvaluation Phase = "evaluation"
)

// Error is a problem of an expression with the place where it is.
type Error struct {
	Code    Code
	Phase   Phase
	Span    Span // in the text given to Parse, ParseTemplate or ParseCondition
	Message string
	Hint    string // what to do instead, when it is known
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (at %d): %s", e.Code, e.Span.Start, e.Message)
}

func fail(code Code, at Span, format string, args ...any) *Error {
	return &Error{Code: code, Span: at, Message: fmt.Sprintf(format, args...)}
}

// in sets the phase of an error that has none yet.
func (e *Error) in(phase Phase) *Error {
	if e != nil && e.Phase == "" {
		e.Phase = phase
	}
	return e
}

// shifted moves the place of an error that was found in a part of a larger text.
func (e *Error) shifted(by int) *Error {
	moved := *e
	moved.Span = Span{e.Span.Start + by, e.Span.End + by}
	return &moved
}

// short cuts text for a message, so that a hostile expression can't fill a screen.
func short(text string) string {
	const charactersMax = 60
	count := 0
	for i := range text {
		if count++; count > charactersMax {
			return text[:i] + "…"
		}
	}
	return text
}
