package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"github.com/a-h/templ"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// policy is the content-security policy of every page. No page needs an exception:
// geometry is in SVG attributes, and scripts set styles only through the object model.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// page is what the frame around every page needs to know.
type page struct {
	Title   string
	Section string // of the navigation: "runs", "repositories", "runners", "expressions"
	Source  string // the template that made it, shown in development mode
	Live    string // address of the event stream that says the page is out of date
	Poll    bool   // look again from time to time: there is no stream for lists
	Icon    string // status word of the tab's icon
	Focused bool   // a page without navigation: signing in
	Wide    bool   // the log takes the whole width

	assets      *assets
	now         string // when the page was made, for its clocks
	version     string
	development bool
	signOut     string
	request     string
	notice      *problem // a refusal of the action that led here
}

// frame fills in what is the same for every page.
func (p *Pages) frame(ctx context.Context, pg page) page {
	pg.assets, pg.version = p.assets, p.cfg.Version
	pg.development, pg.signOut = p.cfg.Development, p.cfg.SignOutPath
	pg.request = p.cfg.RequestID(ctx)
	pg.now = p.cfg.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	return pg
}

// render sends a page. It renders into memory first, so that a fault in the middle
// becomes an error page and not half a page.
func (p *Pages) render(w http.ResponseWriter, r *http.Request, status int, body templ.Component) {
	var out bytes.Buffer
	err := body.Render(r.Context(), &out)
	if r.Context().Err() != nil {
		return // the reader left; nobody waits for an answer
	}
	if err != nil {
		p.cfg.Log.ErrorContext(r.Context(), "render page", "path", r.URL.Path, "error", err,
			"request", p.cfg.RequestID(r.Context()))
		http.Error(w, "The page can't be shown. Request "+p.cfg.RequestID(r.Context()), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache, private")
	send(w, r, status, out.Bytes())
}

// send compresses what is worth compressing. Pages hold no secret that a length could
// give away: credentials are in cookies, and idempotency keys are not secret.
func send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Add("Vary", "Accept-Encoding")
	if len(body) > 1<<10 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		_, _ = zip.Write(body) // a buffer takes everything
		_ = zip.Close()
		body = out.Bytes()
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the reader may be gone; there is nobody left to tell
}

// sendJSON answers a request of the page's own scripts.
func (p *Pages) sendJSON(w http.ResponseWriter, r *http.Request, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		p.failJSON(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache, private")
	send(w, r, http.StatusOK, body)
}

// failJSON answers a script with the same words a page would have shown.
func (p *Pages) failJSON(w http.ResponseWriter, r *http.Request, err error) {
	what := p.explain(r.Context(), err)
	body, _ := json.Marshal(map[string]string{"code": what.Code, "message": what.Message}) // two strings: can't fail
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(what.Status)
	_, _ = w.Write(body)
}

// problem is an answer of no, or a fault, in words for a person.
type problem struct {
	Status      int
	Code        string
	Message     string
	Field       string
	Request     string
	Diagnostics []*fairleadv1.Diagnostic
	Choices     []string
}

// explain turns an error of a handler into words. A refusal is shown as it is; of a
// fault the person sees only the request id, and the log has the rest.
func (p *Pages) explain(ctx context.Context, err error) problem {
	if refused, ok := domain.AsRejection(err); ok {
		return problem{Status: statusOfCode(refused.Code), Code: string(refused.Code),
			Message: refused.Message, Field: refused.Field, Request: p.cfg.RequestID(ctx)}
	}
	var failed *connect.Error
	if errors.As(err, &failed) && spoken(failed.Code()) {
		out := problem{Status: statusOfConnect(failed.Code()), Code: failed.Code().String(),
			Message: failed.Message(), Request: p.cfg.RequestID(ctx)}
		for _, detail := range failed.Details() {
			message, unreadable := connectproto.UnmarshalErrorDetail(detail)
			more, ok := message.(*fairleadv1.ErrorInfo)
			if unreadable != nil || !ok || more.GetCode() == "" {
				continue // a detail of another kind
			}
			out.Code, out.Field = more.GetCode(), more.GetField()
			out.Status = statusOfCode(domain.Code(more.GetCode()))
			out.Diagnostics, out.Choices = more.GetDiagnostics(), more.GetChoices()
		}
		return out
	}
	if errors.Is(err, context.Canceled) {
		return problem{Status: 499, Code: "cancelled", Message: "The request was given up.",
			Request: p.cfg.RequestID(ctx)}
	}
	p.cfg.Log.ErrorContext(ctx, "serve page", "error", err, "request", p.cfg.RequestID(ctx))
	if errors.Is(err, domain.ErrRetry) {
		return problem{Status: http.StatusServiceUnavailable, Code: "unavailable", Request: p.cfg.RequestID(ctx),
			Message: "The server can't answer this right now; try again in a moment."}
	}
	return problem{Status: http.StatusInternalServerError, Code: "internal", Request: p.cfg.RequestID(ctx),
		Message: "Something went wrong on the server. Its log has the reason under the request id below."}
}

// spoken reports whether the message of that code is meant for people.
func spoken(code connect.Code) bool {
	return code != connect.CodeInternal && code != connect.CodeUnknown && code != connect.CodeCanceled
}

func statusOfConnect(code connect.Code) int {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return http.StatusUnprocessableEntity
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeAlreadyExists, connect.CodeFailedPrecondition, connect.CodeAborted:
		return http.StatusConflict
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeUnauthenticated:
		return http.StatusUnauthorized
	case connect.CodeResourceExhausted:
		return http.StatusTooManyRequests
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		return http.StatusServiceUnavailable
	case connect.CodeUnimplemented:
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}

func statusOfCode(code domain.Code) int {
	switch code {
	case domain.CodeNotFound, domain.CodeAttemptNotFound, domain.CodeWorkflowNotFound, domain.CodeCommitNotFound:
		return http.StatusNotFound
	case domain.CodeLogExpired:
		return http.StatusGone
	case domain.CodeInvalidArgument, domain.CodeWorkflowInvalid, domain.CodeWorkflowAmbiguous,
		domain.CodeEventNotDeclared, domain.CodeIdempotencyMismatch, domain.CodeRegistrationInvalid:
		return http.StatusUnprocessableEntity
	case domain.CodeUnauthenticated:
		return http.StatusUnauthorized
	case domain.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case domain.CodeStorageFull:
		return http.StatusInsufficientStorage
	case domain.CodeTooManyOpenJobs:
		return http.StatusTooManyRequests
	case domain.CodeNotOwner, domain.CodeUpgradeUnfinished, domain.CodeHistoryLost, domain.CodeStreamQuarantined,
		domain.CodeObjectDamaged, domain.CodeOverloaded:
		return http.StatusServiceUnavailable
	}
	return http.StatusConflict
}
