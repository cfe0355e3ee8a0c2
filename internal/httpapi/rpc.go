package httpapi

import (
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectgzip"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// publicPackage prefixes the procedures whose writes need an idempotency key. The runner
// protocol repeats itself safely by epochs and sequences instead.
const publicPackage = "/fairlead.v1."

func (s *Server) registerProcedures() {
	if s.cfg.Runs != nil {
		fairleadv1connect.RegisterRunServiceHandler(s.rpc, s.cfg.Runs)
	}
	if s.cfg.Logs != nil {
		fairleadv1connect.RegisterLogServiceHandler(s.rpc, s.cfg.Logs)
	}
	if s.cfg.Repositories != nil {
		fairleadv1connect.RegisterRepositoryServiceHandler(s.rpc, s.cfg.Repositories)
	}
	if s.cfg.Pools != nil {
		fairleadv1connect.RegisterPoolServiceHandler(s.rpc, s.cfg.Pools)
	}
	if s.cfg.Workflows != nil {
		fairleadv1connect.RegisterWorkflowServiceHandler(s.rpc, s.cfg.Workflows)
	}
	if s.cfg.Server != nil {
		fairleadv1connect.RegisterServerServiceHandler(s.rpc, s.cfg.Server)
	}
	fairleadv1connect.RegisterSignInServiceHandler(s.rpc, signInLinks{s})
	if s.cfg.Runner != nil {
		runnerv1connect.RegisterRunnerServiceHandler(s.rpc, s.cfg.Runner)
	}
}

// mountRPC serves Connect, gRPC and gRPC-Web under /fairlead.….
func (s *Server) mountRPC() {
	inner := http.NewServeMux()
	connecthttp.Mount(inner, s.rpc,
		connecthttp.WithCodecs(connectproto.NewBinaryCodec(), jsonCodec()),
		connecthttp.WithCompressors(connectgzip.New(connectgzip.WithLevel(gzip.BestSpeed))),
		connecthttp.WithCompressMinBytes(4<<10),
		connecthttp.WithReadMaxBytes(bodyBytesMax),
		connecthttp.WithConditionalOptions(func(spec connect.Spec) []connecthttp.Option {
			if spec.Procedure == runnerv1connect.RunnerServiceExchangeProcedure {
				return []connecthttp.Option{connecthttp.WithReadMaxBytes(exchangeBytesMax)}
			}
			return nil
		}))
	for spec := range s.rpc.Specs() {
		rt := route{
			pattern: spec.Procedure, procedure: spec.Procedure, action: operations[spec.Procedure].action,
			admitted: true,
		}
		switch {
		case spec.Procedure == runnerv1connect.RunnerServiceExchangeProcedure:
			rt.patience, rt.quiet, rt.body = long, true, exchangeBytesMax+framingBytes
		case spec.StreamType != connect.StreamTypeUnary:
			rt.patience = long
		}
		s.handle(rt, func(w http.ResponseWriter, r *http.Request) {
			if code, message := s.screen(w, r, spec); code != "" {
				s.turnAway(w, r, code, message)
				return
			}
			inner.ServeHTTP(w, r)
		})
	}
}

// contentTypes are the media types of the protocols. What is not one of them is turned
// away before connecthttp sees it, because that answers without a word.
var contentTypes = []string{
	"application/json", "application/proto",
	"application/connect+json", "application/connect+proto",
	"application/grpc", "application/grpc+json", "application/grpc+proto",
	"application/grpc-web", "application/grpc-web+json", "application/grpc-web+proto",
}

func (s *Server) screen(w http.ResponseWriter, r *http.Request, spec connect.Spec) (code, message string) {
	unary := spec.StreamType == connect.StreamTypeUnary
	readable := unary && spec.IdempotencyLevel == connect.IdempotencyNoSideEffects
	if r.Method != http.MethodPost && (r.Method != http.MethodGet || !readable) {
		allow := http.MethodPost
		if readable {
			allow += ", " + http.MethodGet
		}
		w.Header().Set("Allow", allow)
		return codeMethod, "This procedure takes " + allow + "."
	}
	for _, name := range []string{"Content-Encoding", "Connect-Content-Encoding", "Grpc-Encoding"} {
		if encoding := r.Header.Get(name); encoding != "" && encoding != "identity" && encoding != "gzip" {
			return codeMedia, "The header " + name + " names an encoding that is not known here; send gzip or none."
		}
	}
	if r.Method == http.MethodGet {
		query := r.URL.Query()
		if encoding := query.Get("encoding"); encoding != "json" && encoding != "proto" {
			return codeMedia, "A GET of a procedure needs the query parameters encoding=json and message."
		}
		if compression := query.Get("compression"); compression != "" && compression != "identity" &&
			compression != "gzip" {
			return codeMedia, "The query parameter compression names an encoding that is not known here."
		}
		return "", ""
	}
	media, _, _ := strings.Cut(strings.ToLower(r.Header.Get("Content-Type")), ";")
	media = strings.TrimSpace(media)
	streaming := strings.HasPrefix(media, "application/connect+")
	fits := strings.HasPrefix(media, "application/grpc") || streaming != unary
	if !slices.Contains(contentTypes, media) || !fits {
		want := "application/json or application/proto"
		if !unary {
			want = "application/connect+json or application/connect+proto"
		}
		return codeMedia, "The Content-Type is not one that this procedure takes; send " + want + "."
	}
	return "", ""
}

// answerErrors is the outermost interceptor: what leaves it is an answer or a fault's id.
func (s *Server) answerErrors(next connect.ServerFunc) connect.ServerFunc {
	return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) (err error) {
		defer func() {
			if problem := recover(); problem != nil {
				err = asRPC(s.explain(ctx, fmt.Errorf("panic in %s: %v\n%s", spec.Procedure, problem, debug.Stack())))
			}
		}()
		if err := next(ctx, spec, stream); err != nil {
			answer := s.explain(ctx, err)
			info, ok := connect.CallInfoForServerContext(ctx)
			if after := answer.GetRetryAfterSeconds(); ok && after > 0 {
				info.ResponseHeader().Set("Retry-After", strconv.Itoa(int(after)))
			}
			return asRPC(answer)
		}
		return nil
	}
}

// admit asks the authorisation point, and reads the idempotency key of a write.
func (s *Server) admit(next connect.ServerFunc) connect.ServerFunc {
	return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
		op, known := operations[spec.Procedure]
		if !known {
			s.log.ErrorContext(ctx, "procedure has no action", slog.String("procedure", spec.Procedure))
			return errHidden()
		}
		c := callOf(ctx)
		// A runner says who it is in its message; everybody else is asked before a byte of
		// theirs is parsed.
		if op.action != ActionRunnerExchange {
			if err := s.authorize(ctx, op.action, Resource{Kind: op.kind}); err != nil {
				return err
			}
		}
		write := spec.IdempotencyLevel != connect.IdempotencyNoSideEffects &&
			strings.HasPrefix(spec.Procedure, publicPackage)
		if write {
			key, err := idempotencyKey(ctx)
			if err != nil {
				return err
			}
			c.key = key
		}
		return next(ctx, spec, &admitted{ServerStream: stream, read: func(message proto.Message) error {
			if exchange, ok := message.(*runnerv1.ExchangeRequest); ok {
				c.principal = credential.Runner(domain.SessionID(exchange.GetSession()))
			}
			c.digest = digestIf(write, message)
			if err := s.authorize(ctx, op.action, Resource{Kind: op.kind, ID: fieldOf(message, op.field)}); err != nil {
				return err
			}
			if second, named := seconds[spec.Procedure]; named {
				if err := s.authorize(ctx, op.action, Resource{Kind: op.kind, ID: fieldOf(message, second)}); err != nil {
					return err
				}
			}
			return s.present(ctx, op.action)
		}})
	}
}

// present compares what the client has seen acknowledged with what the server holds, once
// the client is known: nobody else makes the server look at its store, or is shown to an
// operator as a presenter. Who only asks how the server does is answered all the same. A
// runner is not known here: what it was told is in its message, and is compared behind the
// check of its session; headers of its calls are nobody's word.
func (s *Server) present(ctx context.Context, a Action) error {
	if s.cfg.Present == nil || a == ActionServerRead || a == ActionRunnerExchange || a == ActionRunnerRegister {
		return nil
	}
	for _, token := range TokensFrom(ctx) {
		if err := s.cfg.Present(ctx, token); err != nil {
			return err
		}
	}
	return nil
}

// digestIf spares reads, and the bulk of log chunks, a digest that nobody asks for.
func digestIf(write bool, message proto.Message) domain.Digest {
	if !write {
		return ""
	}
	return digestOf(message)
}

// admitted checks every message before the handler sees it.
type admitted struct {
	connect.ServerStream
	read func(proto.Message) error
}

// Receive implements connect.ServerStream.
func (a *admitted) Receive(message any) error {
	if err := a.ServerStream.Receive(message); err != nil {
		return err
	}
	request, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("receive message: %T is no protobuf message", message)
	}
	return a.read(request)
}

func fieldOf(message proto.Message, name string) string {
	if name == "" {
		return ""
	}
	m := message.ProtoReflect()
	field := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if field == nil {
		return ""
	}
	return m.Get(field).String()
}

// idempotencyKey reads the header Idempotency-Key.
func idempotencyKey(ctx context.Context) (string, error) {
	info, ok := connect.CallInfoForServerContext(ctx)
	if !ok {
		return "", errKey("A write needs the header Idempotency-Key.")
	}
	values := info.RequestHeader().Values("Idempotency-Key")
	if len(values) != 1 || values[0] == "" {
		return "", errKey("A write needs one header Idempotency-Key: any text that is new for every new wish, " +
			"and the same when the wish is sent again.")
	}
	key := values[0]
	if len(key) > keyBytesMax {
		return "", errKey(fmt.Sprintf("The idempotency key has %d bytes; %d are allowed.", len(key), keyBytesMax))
	}
	for _, c := range []byte(key) {
		if c < 0x20 || c > 0x7e {
			return "", errKey("The idempotency key holds a byte that is not printable ASCII.")
		}
	}
	return key, nil
}

func errKey(message string) error {
	return &domain.Rejection{Code: domain.CodeInvalidArgument, Field: "Idempotency-Key", Message: message}
}
