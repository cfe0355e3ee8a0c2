package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Refusal is a rejection with more to say than a sentence. Handlers return it; whoever
// needs less returns a *domain.Rejection.
type Refusal struct {
	Rejection   *domain.Rejection
	Diagnostics []*fairleadv1.Diagnostic
	Choices     []string // what could have been asked for instead
}

// Error implements error.
func (r *Refusal) Error() string { return r.Rejection.Error() }

// Unwrap makes the rejection findable.
func (r *Refusal) Unwrap() error { return r.Rejection }

// Codes of answers that come from the transport, not from a decision.
const (
	codeInternal    = "internal"
	codeUnavailable = "unavailable"
	codeFiles       = "open_files_exhausted"
	codeCancelled   = "cancelled"
	codeDeadline    = "deadline_exceeded"
	codeAbsent      = "unimplemented"
	codeMethod      = "method_not_allowed"
	codeMedia       = "unsupported_media_type"
	codeCrossOrigin = "cross_origin"
	codeRange       = "range_not_satisfiable"
)

// TransportCodes lists the codes that are not domain.Codes, with one sentence each.
func TransportCodes() []struct{ Code, Means string } {
	return []struct{ Code, Means string }{
		{codeInternal, "Something failed inside the server; the request's id finds the line in its log."},
		{codeUnavailable, "The server can't do it now; try again, with the same idempotency key."},
		{codeFiles, "The server has as many files and connections open as it may; try again, and raise ulimit -n."},
		{codeCancelled, "The client went away before the answer."},
		{codeDeadline, "The client's own deadline passed before the answer."},
		{codeAbsent, "This server doesn't have that procedure, or not in this version."},
		{codeMethod, "The path exists, but not with that HTTP method; the header Allow lists those it has."},
		{codeMedia, "The body's Content-Type or Content-Encoding is not one that the path takes."},
		{codeRange, "The range of bytes that was asked for lies behind the end of the log."},
		{codeCrossOrigin, "A browser sent this from another site; nothing was done."},
	}
}

// status is how a code looks in the two protocols. The code itself is the promise; the
// numbers are for programs that know nothing of Fairlead.
type status struct {
	rpc  connect.Code
	http int
}

var statuses = map[string]status{
	string(domain.CodeNotFound):            {connect.CodeNotFound, http.StatusNotFound},
	string(domain.CodeAttemptNotFound):     {connect.CodeNotFound, http.StatusNotFound},
	string(domain.CodeInvalidArgument):     {connect.CodeInvalidArgument, http.StatusBadRequest},
	string(domain.CodeUnauthenticated):     {connect.CodeUnauthenticated, http.StatusUnauthorized},
	string(domain.CodeRegistrationInvalid): {connect.CodeUnauthenticated, http.StatusUnauthorized},
	string(domain.CodeTierNotAccepted):     {connect.CodePermissionDenied, http.StatusForbidden},
	string(domain.CodeAlreadyExists):       {connect.CodeAlreadyExists, http.StatusConflict},
	string(domain.CodeWorkflowInvalid):     {connect.CodeFailedPrecondition, http.StatusUnprocessableEntity},
	string(domain.CodeWorkflowNotFound):    {connect.CodeFailedPrecondition, http.StatusUnprocessableEntity},
	string(domain.CodeWorkflowDisabled):    {connect.CodeFailedPrecondition, http.StatusConflict},
	string(domain.CodeWorkflowAmbiguous):   {connect.CodeFailedPrecondition, http.StatusUnprocessableEntity},
	string(domain.CodeEventNotDeclared):    {connect.CodeFailedPrecondition, http.StatusUnprocessableEntity},
	string(domain.CodeCommitNotFound):      {connect.CodeFailedPrecondition, http.StatusUnprocessableEntity},
	string(domain.CodeProtocolUnsupported): {connect.CodeFailedPrecondition, http.StatusUnprocessableEntity},
	string(domain.CodeHistoryLost):         {connect.CodeDataLoss, http.StatusServiceUnavailable},
	string(domain.CodeTokenUnproved):       {connect.CodeOutOfRange, http.StatusConflict},
	string(domain.CodeStreamQuarantined):   {connect.CodeDataLoss, http.StatusServiceUnavailable},
	string(domain.CodeObjectDamaged):       {connect.CodeDataLoss, http.StatusServiceUnavailable},
	string(domain.CodeLogExpired):          {connect.CodeNotFound, http.StatusGone},
	string(domain.CodeNotOwner):            {connect.CodeUnavailable, http.StatusServiceUnavailable},
	string(domain.CodeUpgradeUnfinished):   {connect.CodeUnavailable, http.StatusServiceUnavailable},
	string(domain.CodeTooLarge):            {connect.CodeResourceExhausted, http.StatusRequestEntityTooLarge},
	string(domain.CodeStorageFull):         {connect.CodeResourceExhausted, http.StatusInsufficientStorage},
	string(domain.CodeTooManyOpenJobs):     {connect.CodeResourceExhausted, http.StatusTooManyRequests},
	string(domain.CodeOverloaded):          {connect.CodeUnavailable, http.StatusServiceUnavailable},
	codeInternal:                           {connect.CodeInternal, http.StatusInternalServerError},
	codeFiles:                              {connect.CodeUnavailable, http.StatusServiceUnavailable},
	codeUnavailable:                        {connect.CodeUnavailable, http.StatusServiceUnavailable},
	codeCancelled:                          {connect.CodeCanceled, 499},
	codeDeadline:                           {connect.CodeDeadlineExceeded, http.StatusGatewayTimeout},
	codeAbsent:                             {connect.CodeUnimplemented, http.StatusNotImplemented},
	codeMethod:                             {connect.CodeInvalidArgument, http.StatusMethodNotAllowed},
	codeMedia:                              {connect.CodeInvalidArgument, http.StatusUnsupportedMediaType},
	codeRange:                              {connect.CodeOutOfRange, http.StatusRequestedRangeNotSatisfiable},
	codeCrossOrigin:                        {connect.CodePermissionDenied, http.StatusForbidden},
}

// statusOf falls back to what most refusals are: the state doesn't allow it.
func statusOf(code string) status {
	if s, ok := statuses[code]; ok {
		return s
	}
	return status{connect.CodeFailedPrecondition, http.StatusConflict}
}

// codeOfRPC names what the transport itself refused, or a handler said without a rejection.
func codeOfRPC(code connect.Code) string {
	switch code {
	case connect.CodeCanceled:
		return codeCancelled
	case connect.CodeDeadlineExceeded:
		return codeDeadline
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return string(domain.CodeInvalidArgument)
	case connect.CodeNotFound:
		return string(domain.CodeNotFound)
	case connect.CodeUnauthenticated:
		return string(domain.CodeUnauthenticated)
	case connect.CodeResourceExhausted:
		return string(domain.CodeTooLarge)
	case connect.CodeUnimplemented:
		return codeAbsent
	case connect.CodeUnavailable:
		return codeUnavailable
	}
	return codeInternal
}

// explain turns whatever a handler returned into what the caller may see, and logs faults:
// the one line of a fault, with the id that the caller sees.
func (s *Server) explain(ctx context.Context, err error) *fairleadv1.ErrorInfo {
	c := callOf(ctx)
	answer := &fairleadv1.ErrorInfo{Request: c.request}
	var refusal *Refusal
	var rpc *connect.Error
	if errors.As(err, &refusal) {
		answer.Diagnostics, answer.Choices = refusal.Diagnostics, refusal.Choices
	}
	var tooLarge *http.MaxBytesError
	var transport *transportError
	rejection, rejected := domain.AsRejection(err)
	switch {
	case rejected:
		answer.Code, answer.Message, answer.Field = string(rejection.Code), rejection.Message, rejection.Field
		answer.RetryAfterSeconds = int32(math.Ceil(rejection.RetryAfter.Seconds()))
		if rejection.Code == domain.CodeNotFound && c.principal.Kind != credential.KindAdmin {
			// Not even the wording may tell missing from forbidden.
			answer.Message, answer.Field = errHidden().Message, ""
		}
	case errors.As(err, &transport):
		answer.Code, answer.Message = transport.code, transport.message
	case errors.As(err, &tooLarge):
		answer.Code, answer.Message = string(domain.CodeTooLarge), "The body is larger than this path takes."
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		answer.Code, answer.Message = codeCancelled, "The request ended before its answer."
	case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		answer.Code, answer.Message = codeDeadline, "The request's deadline passed."
	case errors.As(err, &rpc) && !rpc.IsRemote() && strings.Contains(rpc.Message(), "protocol error: "):
		// The library blames itself for what the caller sent: an envelope that is cut, say.
		answer.Code = string(domain.CodeInvalidArgument)
		answer.Message = "The request is not formed as its protocol says: " + rpc.Message() + "."
	case errors.Is(err, domain.ErrRetry), errors.Is(err, context.DeadlineExceeded):
		// Also a time limit of the server's own: nobody may take it for a refusal.
		answer.Code = codeUnavailable
		answer.Message = "The server can't do this now; try again. Its log has more under " + c.request + "."
		s.log.WarnContext(ctx, "request refused for now", fault(c, err)...)
	case errors.As(err, &rpc) && !rpc.IsRemote() && codeOfRPC(rpc.Code()) != codeInternal:
		answer.Code, answer.Message = codeOfRPC(rpc.Code()), rpc.Message()
	case outOfFiles(err):
		answer.Code, answer.RetryAfterSeconds = codeFiles, 1
		answer.Message = "The server has as many files and connections open as it may, and this needs one more; try " +
			"again. Its operator can raise the limit (ulimit -n)."
		s.log.ErrorContext(ctx, "no more files can be opened: raise ulimit -n (LimitNOFILE= of a unit)", fault(c, err)...)
	default:
		answer.Code = codeInternal
		answer.Message = "Something failed inside the server. Its log has more under " + c.request + "."
		s.log.ErrorContext(ctx, "request broke", fault(c, err)...)
	}
	c.code = answer.Code
	return answer
}

func fault(c *call, err error) []any {
	return []any{slog.String("request", c.request), slog.String("route", c.route), slog.Any("error", err)}
}

// asRPC wraps an answer for the RPC protocols.
func asRPC(answer *fairleadv1.ErrorInfo) *connect.Error {
	err := connect.NewError(statusOf(answer.Code).rpc, answer.Message)
	if detail, problem := connectproto.NewErrorDetail(answer); problem == nil {
		err = err.WithDetail(detail)
	}
	return err
}

// answerOf finds the answer in an error that asRPC made.
func answerOf(err error) (*fairleadv1.ErrorInfo, bool) {
	var rpc *connect.Error
	if !errors.As(err, &rpc) {
		return nil, false
	}
	for _, detail := range rpc.Details() {
		if message, err := connectproto.UnmarshalErrorDetail(detail); err == nil {
			if answer, ok := message.(*fairleadv1.ErrorInfo); ok {
				return answer, true
			}
		}
	}
	return nil, false
}

// refuse answers a request that no protocol of its own took charge of: JSON, always.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	answer, ok := answerOf(err)
	if !ok {
		answer = s.explain(r.Context(), err)
	}
	s.writeAnswer(w, answer)
}

// turnAway answers with a code of the transport.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, code, message string) {
	c := callOf(r.Context())
	c.code = code
	s.writeAnswer(w, &fairleadv1.ErrorInfo{Code: code, Message: message, Request: c.request})
}

func (s *Server) writeAnswer(w http.ResponseWriter, answer *fairleadv1.ErrorInfo) {
	head := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Disposition", "Etag",
		"Last-Modified"} {
		head.Del(name)
	}
	head.Set("Cache-Control", "no-store")
	if after := answer.GetRetryAfterSeconds(); after > 0 {
		head.Set("Retry-After", strconv.Itoa(int(after)))
	}
	if answer.Code == string(domain.CodeUnauthenticated) {
		head.Set("WWW-Authenticate", `Bearer realm="fairlead"`)
	}
	writeJSON(w, statusOf(answer.Code).http, answer)
}
