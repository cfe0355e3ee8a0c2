package sim

import (
	"context"
	"log/slog"
	"strings"
)

// alarm is a server's log. What a stream was quarantined for is a violation, whoever notices
// it; everything else is for the reader of a trace.
type alarm struct {
	world  *world
	server *server
}

// Enabled implements slog.Handler.
func (a alarm) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (a alarm) Handle(_ context.Context, r slog.Record) error {
	quarantined := r.Message == "stream quarantined" || r.Message == "followed stream can't be read"
	if !quarantined && !a.world.trace.keep {
		return nil
	}
	var text strings.Builder
	r.Attrs(func(at slog.Attr) bool {
		text.WriteString(" " + at.Key + "=" + at.Value.String())
		return true
	})
	a.world.line(a.server.label(), "log", "%s%s", r.Message, text.String())
	if quarantined {
		a.world.violation(checkRules, "%s: %s%s", a.server.label(), r.Message, text.String())
	}
	return nil
}

// WithAttrs implements slog.Handler. No part of the server uses it.
func (a alarm) WithAttrs([]slog.Attr) slog.Handler { return a }

// WithGroup implements slog.Handler. No part of the server uses it.
func (a alarm) WithGroup(string) slog.Handler { return a }

var _ slog.Handler = alarm{}
