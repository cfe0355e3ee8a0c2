package peer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Caller is on whose behalf a request is passed on: who that is was found out by the server
// that the caller came to, and peers believe each other.
type Caller struct {
	Kind    string          `json:"kind,omitempty"`
	ID      string          `json:"id,omitempty"`
	Via     string          `json:"via,omitempty"`
	Tenant  domain.TenantID `json:"tenant,omitempty"`
	Request string          `json:"request,omitempty"` // its id, so that both logs name the same
}

type callerKey struct{}

// WithCaller returns a context in which requests to peers name the caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

func (c Caller) header() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // strings only: it can't fail
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseCaller(header string) (Caller, error) {
	var c Caller
	text, err := base64.RawURLEncoding.DecodeString(header)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return Caller{}, fmt.Errorf("read caller: %w", err)
	}
	return c, nil
}
