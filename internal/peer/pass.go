package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/protobuf/encoding/protojson"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// passBytesMax bounds an answer that is passed on: a window of lines, a few manifests.
const passBytesMax = 64 << 20

// Client makes calls of the contract at another member, on behalf of the caller that the
// context names (see WithCaller). Refusals come back as they were given there; a member that
// can't be reached is an error that wraps domain.ErrRetry.
func (p *Peers) Client(h Holder) *connect.Client { return p.over(p.web, h) }

// PollClient makes calls of the runner protocol at another member. There are as many under way as
// runners wait at this server, so they share connections where the other member can; a leader of
// many servers' runners has not a descriptor for each.
func (p *Peers) PollClient(h Holder) *connect.Client {
	switch scheme, _, _ := strings.Cut(h.Address, ":"); {
	case scheme == "https", scheme == "http" && h.Shares:
		return p.over(p.shared[scheme], h)
	}
	return p.over(p.web, h)
}

func (p *Peers) over(web *http.Client, h Holder) *connect.Client {
	return connect.NewClient(connecthttp.NewTransport(web, h.Address+pathPass,
		connecthttp.WithReadMaxBytes(passBytesMax)), translate)
}

// Fetch asks another member for a path, on behalf of the caller that the context names. A
// refusal comes back as one.
func (p *Peers) Fetch(ctx context.Context, h Holder, method, path string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, h.Address+pathPass+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask member %s: %w", h.Name, err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	res, err := p.web.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask member %s: %w (%w)", h.Name, err, domain.ErrRetry)
	}
	if res.StatusCode < 400 {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	var answer fairleadv1.ErrorInfo
	if err == nil && protojson.Unmarshal(text, &answer) == nil && answer.GetCode() != "" {
		return nil, rejected(&answer, statusError(res, "ask", h.Name))
	}
	return nil, fmt.Errorf("%w (%w)", statusError(res, "ask", h.Name), domain.ErrRetry)
}

// translate turns errors of another member into what it meant by them.
func translate(next connect.ClientFunc) connect.ClientFunc {
	return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
		stream, err := next(ctx, spec)
		if err != nil {
			return nil, meant(err)
		}
		return translated{stream}, nil
	}
}

type translated struct{ connect.ClientStream }

// Send implements connect.ClientStream.
func (t translated) Send(message any) error { return meant(t.ClientStream.Send(message)) }

// Receive implements connect.ClientStream.
func (t translated) Receive(message any) error { return meant(t.ClientStream.Receive(message)) }

// meant gives the refusal that an error carries. What broke on the way is worth another try.
func meant(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	var rpc *connect.Error
	if !errors.As(err, &rpc) {
		return fmt.Errorf("ask another server: %w (%w)", err, domain.ErrRetry)
	}
	err = foreign{err}
	for _, detail := range rpc.Details() {
		message, problem := connectproto.UnmarshalErrorDetail(detail)
		if answer, ok := message.(*fairleadv1.ErrorInfo); problem == nil && ok {
			return rejected(answer, err)
		}
	}
	return fmt.Errorf("ask another server: %w (%w)", err, domain.ErrRetry)
}

// foreign hides the code that a transport gave an error on the way to another member: this
// server's own caller must not take it for its answer. A runner that reads "unimplemented"
// gives up for good, and a member that can't be spoken with is no reason for that.
type foreign struct{ err error }

// Error implements error.
func (f foreign) Error() string { return f.err.Error() }

// Is finds causes such as an end of the context.
func (f foreign) Is(target error) bool { return errors.Is(f.err, target) }

// rejected is the refusal of an answer. Codes of the transport are no refusals: something
// broke there, and the log there has it.
func rejected(answer *fairleadv1.ErrorInfo, err error) error {
	code := domain.Code(answer.GetCode())
	if !known()[code] {
		return fmt.Errorf("another server answered %q (%s): %w (%w)", answer.GetMessage(), answer.GetRequest(), err,
			domain.ErrRetry)
	}
	return &domain.Rejection{Code: code, Message: answer.GetMessage(), Field: answer.GetField()}
}

// known are the codes of decisions.
var known = sync.OnceValue(func() map[domain.Code]bool {
	out := map[domain.Code]bool{}
	for _, c := range domain.Codes() {
		out[c.Code] = true
	}
	return out
})
