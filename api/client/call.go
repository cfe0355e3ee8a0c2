package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"github.com/google/uuid"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

type keyKey struct{}

// WithKey sets the idempotency key of the writes that are made with the context. Without
// one, every call of a write makes its own.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyKey{}, key)
}

// NewKey makes an idempotency key that nobody used before.
func NewKey() string { return uuid.NewString() }

// intercept adds the headers of every call, and tries again what can be tried again.
func (c *Client) intercept(next connect.ClientFunc) connect.ClientFunc {
	return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
		info, ok := connect.CallInfoForClientContext(ctx)
		if !ok {
			return nil, errors.New("call without call info")
		}
		head := info.RequestHeader()
		head.Set("User-Agent", c.agent)
		if token := c.token.Reveal(); token != "" {
			head.Set("Authorization", "Bearer "+token)
		}
		if spec.IdempotencyLevel != connect.IdempotencyNoSideEffects && !head.Has("Idempotency-Key") {
			key, _ := ctx.Value(keyKey{}).(string)
			if key == "" {
				key = NewKey()
			}
			head.Set("Idempotency-Key", key) // the same for every try of this call
		}
		open := func(ctx context.Context) (connect.ClientStream, []domain.Token, error) {
			tokens := c.tokens()
			for name, value := range headersOf(tokens) {
				head.Delete(name) // of an earlier try
				if value != "" {
					head.Set(name, value)
				}
			}
			stream, err := next(ctx, spec)
			return stream, tokens, err
		}
		if spec.StreamType == connect.StreamTypeUnary {
			return &unary{ctx: ctx, client: c, open: open}, nil
		}
		stream, tokens, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return &remembering{ClientStream: stream, client: c, presented: tokens}, nil
	}
}

// unary sends when the answer is asked for, as often as it takes. Every procedure may be
// tried again: reads change nothing, and writes carry their key.
type unary struct {
	ctx       context.Context
	client    *Client
	open      func(context.Context) (connect.ClientStream, []domain.Token, error)
	request   any
	presented []domain.Token // with the last try
}

// SendHeaders implements connect.ClientStream.
func (u *unary) SendHeaders() error { return nil }

// Send implements connect.ClientStream.
func (u *unary) Send(message any) error { u.request = message; return nil }

// CloseSend implements connect.ClientStream.
func (u *unary) CloseSend() error { return nil }

// Close implements connect.ClientStream.
func (u *unary) Close() error { return nil }

// Receive implements connect.ClientStream.
func (u *unary) Receive(response any) error {
	wait := u.client.newWait()
	for {
		err := u.once(wait.dialing(u.ctx), response)
		if err == nil {
			u.client.note(response)
			return nil
		}
		if !Retryable(err) || !wait.again(u.ctx, err) {
			u.client.disown(err, u.presented)
			return err
		}
	}
}

func (u *unary) once(ctx context.Context, response any) (err error) {
	stream, presented, err := u.open(ctx)
	u.presented = presented
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if err := stream.Send(u.request); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.Receive(response)
}

// remembering notes tokens that come in a stream.
type remembering struct {
	connect.ClientStream
	client    *Client
	presented []domain.Token
}

// Receive implements connect.ClientStream.
func (r *remembering) Receive(message any) error {
	err := r.ClientStream.Receive(message)
	if err == nil {
		r.client.note(message)
	} else {
		r.client.disown(err, r.presented)
	}
	return err
}

// note remembers that the server lives, and the token that it acknowledged.
func (c *Client) note(message any) {
	c.reached.Store(true)
	carrier, ok := message.(interface{ GetToken() string })
	if !ok {
		return
	}
	var proof string
	if proven, ok := message.(interface{ GetProof() string }); ok {
		proof = proven.GetProof()
	}
	token, ok := domain.ParseProvenToken(carrier.GetToken(), proof)
	if !ok || token == (domain.Token{}) {
		return // a registration token, say: not an acknowledgement
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.seen[token.Partition]
	if token.Epoch > last.Epoch || (token.Epoch == last.Epoch && token.Position > last.Position) {
		c.seen[token.Partition] = token
	}
}

// partitionsMax is how many tokens a request may present; a client that saw more
// partitions presents some of them.
const partitionsMax = 16

// tokens are what this client was told, as far as a request presents them.
func (c *Client) tokens() []domain.Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]domain.Token, 0, min(len(c.seen), partitionsMax))
	for _, token := range c.seen {
		if len(out) == partitionsMax {
			break
		}
		out = append(out, token)
	}
	return out
}

// headersOf are the headers that present tokens; the value of one may be empty.
func headersOf(tokens []domain.Token) map[string]string {
	var out, proven []string
	for _, token := range tokens {
		out = append(out, token.String())
		if token.Proof != "" {
			proven = append(proven, string(token.Partition)+"="+string(token.Proof))
		}
	}
	return map[string]string{"Fairlead-Token": strings.Join(out, ","), "Fairlead-Proof": strings.Join(proven, ",")}
}

// disown forgets a token that the server does not hold and that nothing proves: it would
// refuse every further call for it. Whoever asked has the refusal. What came since in place of
// the presented one, or was not presented by this client, is kept.
func (c *Client) disown(err error, presented []domain.Token) {
	answer := Refusal(err)
	if answer.GetCode() != string(domain.CodeTokenUnproved) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, token := range presented {
		if answer.GetField() == fmt.Sprintf("Fairlead-Token[%s]", token.Partition) && c.seen[token.Partition] == token {
			delete(c.seen, token.Partition)
		}
	}
}

// wait paces tries: exponentially, with full jitter, until patience ends.
type wait struct {
	client *Client
	since  time.Time // of the last sign of life
	step   time.Duration
	opened bool // the stream that is followed brought something
}

const (
	waitLeast = 50 * time.Millisecond
	waitMost  = 2 * time.Second
	// tellAfter is how long a first contact may take before somebody hears that it does.
	tellAfter = 2 * time.Second
	// A connection is waited for at most dialMost, and not beyond the end of patience; one that
	// is tried at its very end gets dialLeast.
	dialMost  = 10 * time.Second
	dialLeast = time.Second
)

func (c *Client) newWait() *wait { return &wait{client: c, since: time.Now(), step: waitLeast} }

// alive says that something came: patience starts anew.
func (w *wait) alive() { w.since, w.step = time.Now(), waitLeast }

type dialKey struct{}

// dialing tells dial when patience ends.
func (w *wait) dialing(ctx context.Context) context.Context {
	if w.client.patience <= 0 {
		return ctx
	}
	return context.WithValue(ctx, dialKey{}, w.since.Add(w.client.patience))
}

// dial connects. The context is not the caller's own: the connection outlives the call, so
// what bounds it comes as a value.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialWithin(ctx), KeepAlive: 15 * time.Second}).DialContext(ctx, network, address)
}

func dialWithin(ctx context.Context) time.Duration {
	end, ok := ctx.Value(dialKey{}).(time.Time)
	if !ok {
		return dialMost
	}
	return min(dialMost, max(time.Until(end), dialLeast))
}

// again sleeps before the next try; false when there shall be none.
func (w *wait) again(ctx context.Context, err error) bool {
	first := Unreachable(err) && !w.client.reached.Load()
	if first && (!w.client.await || lasting(err)) {
		return false // it is not there at all: say so at once
	}
	pause := time.Duration(rand.Int64N(int64(w.step))) + time.Millisecond
	w.step = min(2*w.step, waitMost)
	left := w.client.patience - time.Since(w.since)
	if left <= 0 {
		return false
	}
	if after := RetryAfter(err); after > 0 {
		if after > left {
			return false // the server itself says that trying for as long as there is patience is in vain
		}
		pause += after // not all that were refused come at the same moment
		if w.client.waiting != nil && !w.client.told.Swap(true) {
			w.client.waiting(err, w.since.Add(w.client.patience))
		}
	}
	pause = min(pause, left) // the last try is at the end of patience, wherever chance puts the others
	if first && time.Since(w.since)+pause > tellAfter && w.client.waiting != nil && !w.client.told.Swap(true) {
		w.client.waiting(err, w.since.Add(w.client.patience))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// lasting reports whether no answer came for a reason that trying again does not mend.
func lasting(err error) bool {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var speech tls.RecordHeaderError // something that speaks no TLS
	var alert tls.AlertError         // something that wants to speak it otherwise
	return errors.As(err, &certificate) || errors.As(err, &speech) || errors.As(err, &alert) ||
		errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &name) && name.IsNotFound
}

// Refusal is the server's answer of no in an error of this client; nil when err is not
// one. Its Code is for scripts, its Message for people.
func Refusal(err error) *fairleadv1.ErrorInfo {
	var rpc *connect.Error
	if !errors.As(err, &rpc) {
		return nil
	}
	for _, detail := range rpc.Details() {
		if message, problem := connectproto.UnmarshalErrorDetail(detail); problem == nil {
			if answer, ok := message.(*fairleadv1.ErrorInfo); ok {
				return answer
			}
		}
	}
	return nil
}

// unconnected reports whether no connection came about, with a proxy neither. A dial that
// took too long calls itself a context's deadline, which is not the caller's.
func unconnected(err error) bool {
	var op *net.OpError
	for errors.As(err, &op) {
		if op.Op == "dial" {
			return true
		}
		err = op.Err
	}
	return false
}

// Unreachable reports whether no answer of a Fairlead server came.
func Unreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if unconnected(err) {
		return true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var network net.Error
	return Refusal(err) == nil && (connect.CodeOf(err) == connect.CodeUnavailable || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET))
}

// Retryable reports whether the same call may succeed later.
func Retryable(err error) bool {
	return Unreachable(err) || (Refusal(err) != nil && connect.CodeOf(err) == connect.CodeUnavailable) ||
		RetryAfter(err) > 0
}

// RetryAfter is when the server says that the same call may succeed; 0 when it says nothing.
func RetryAfter(err error) time.Duration {
	return time.Duration(Refusal(err).GetRetryAfterSeconds()) * time.Second
}

// Explain is an error in one sentence for a person.
func Explain(err error) string {
	if answer := Refusal(err); answer != nil {
		if answer.GetField() != "" {
			return fmt.Sprintf("%s (%s, field %s)", answer.GetMessage(), answer.GetCode(), answer.GetField())
		}
		return fmt.Sprintf("%s (%s)", answer.GetMessage(), answer.GetCode())
	}
	if Unreachable(err) {
		return "The server can't be reached: " + err.Error()
	}
	return err.Error()
}
