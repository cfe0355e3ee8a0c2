package httpapi

import (
	"context"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// call is what is known of a request while it is served. It belongs to the request's
// goroutine; handlers read it through the functions below.
type call struct {
	request   string
	principal credential.Principal
	stale     bool // a credential came and was refused
	key       string
	digest    domain.Digest
	tokens    []domain.Token
	route     string
	quiet     bool   // logged at debug: probes and polls
	code      string // of the refusal or fault that was answered
}

type callKey struct{}

// callOf is never nil, so code behind a test's bare context needs no checks.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// RequestID names the request in logs and answers ("req_…"); "" outside a request.
func RequestID(ctx context.Context) string { return callOf(ctx).request }

// PrincipalFrom is who asks. Outside a request it is the anonymous principal.
func PrincipalFrom(ctx context.Context) credential.Principal { return callOf(ctx).principal }

// KeyFrom is the idempotency key of a write; never empty in the handler of a write.
func KeyFrom(ctx context.Context) string { return callOf(ctx).key }

// BodyDigest is the digest of what the client asked for, made from the request's message
// and independent of its encoding: the same request over REST, Connect JSON and protobuf
// has the same digest.
func BodyDigest(ctx context.Context) domain.Digest { return callOf(ctx).digest }

// WithKey returns a context in which handlers find key and the digest of request, as if
// both had come in an API call. Pages use it: their forms carry a key in a field.
func WithKey(ctx context.Context, key string, request proto.Message) context.Context {
	c := *callOf(ctx)
	c.key, c.digest = key, digestOf(request)
	return withCall(ctx, &c)
}

// TokensFrom are the acknowledgement tokens that the client has seen, one per partition.
func TokensFrom(ctx context.Context) []domain.Token { return callOf(ctx).tokens }

// CauseFrom is the cause to put on a command; its time is filled in by the owner.
func CauseFrom(ctx context.Context) domain.Cause {
	c := callOf(ctx)
	return domain.Cause{Actor: c.principal.Actor(), Request: c.request}
}

// newRequestID mints an id. It is not taken from the client, who could forge log lines.
func newRequestID() string {
	id, err := uuid.NewV7()
	if err != nil {
		return domain.EncodeID(domain.PrefixRequest, [16]byte{})
	}
	return domain.EncodeID(domain.PrefixRequest, id)
}
