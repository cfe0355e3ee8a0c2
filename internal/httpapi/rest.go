package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"connectrpc.com/connect/v2"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// binding is one REST path of the contract: an annotation google.api.http.
type binding struct {
	method    string
	path      string // as net/http writes patterns, which is the same for our paths
	variables []protoreflect.Name
	body      bool // the whole body is the message
	spec      connect.Spec
	input     protoreflect.MessageType
}

var pathVariable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{([a-z_]+)\}`)
})

// bindings reads the annotations. It panics on a form that this server doesn't speak:
// that is a mistake in the contract, and every test would show it.
func (s *Server) bindings() []binding {
	var out []binding
	for spec := range s.rpc.Specs() {
		method, ok := spec.Schema.(protoreflect.MethodDescriptor)
		if !ok || !proto.HasExtension(method.Options(), annotations.E_Http) {
			continue
		}
		rule := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
		b := binding{spec: spec, body: rule.GetBody() == "*"}
		switch pattern := rule.GetPattern().(type) {
		case *annotations.HttpRule_Get:
			b.method, b.path = http.MethodGet, pattern.Get
		case *annotations.HttpRule_Post:
			b.method, b.path = http.MethodPost, pattern.Post
		case *annotations.HttpRule_Delete:
			b.method, b.path = http.MethodDelete, pattern.Delete
		default:
			panic(fmt.Sprintf("rest path of %s: pattern %T", spec.Procedure, pattern))
		}
		input, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
		if err != nil {
			panic(fmt.Sprintf("rest path of %s: %v", spec.Procedure, err))
		}
		b.input = input
		for _, match := range pathVariable().FindAllStringSubmatch(b.path, -1) {
			field := method.Input().Fields().ByName(protoreflect.Name(match[1]))
			if field == nil || field.Kind() != protoreflect.StringKind {
				panic(fmt.Sprintf("rest path of %s: variable %s is no string field", spec.Procedure, match[1]))
			}
			b.variables = append(b.variables, field.Name())
		}
		out = append(out, b)
	}
	return out
}

// mountREST serves the annotated procedures as JSON over REST paths. It dispatches to the
// same procedures with the same interceptors as the RPC protocols, so nothing can be
// forbidden on one and allowed on the other.
func (s *Server) mountREST() {
	for _, b := range s.bindings() {
		s.handle(route{
			pattern: b.method + " " + b.path, procedure: b.spec.Procedure,
			action: operations[b.spec.Procedure].action, admitted: true,
		}, func(w http.ResponseWriter, r *http.Request) { s.serveREST(w, r, b) })
	}
}

func (s *Server) serveREST(w http.ResponseWriter, r *http.Request, b binding) {
	// Read when the procedure receives, which is after it was admitted: whoever may not do
	// it at all learns nothing about the form of the request.
	stream := &oneShot{read: func() (proto.Message, error) { return b.read(r) }}
	info := &connect.CallInfo{Protocol: "rest", Codec: "json", PeerAddr: r.RemoteAddr}
	for name, values := range r.Header {
		info.RequestHeader().SetValues(name, values)
	}
	if err := s.rpc.Call(r.Context(), b.spec.Procedure, info, stream); err != nil {
		s.refuse(w, r, err)
		return
	}
	for name, values := range info.ResponseHeader().All() {
		w.Header()[name] = values
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, stream.response)
}

// read makes the message from path, query and body.
//
// Trust: everything in r comes from anybody.
func (b *binding) read(r *http.Request) (proto.Message, error) {
	message := b.input.New()
	if b.body {
		if err := readBody(r, message.Interface()); err != nil {
			return nil, err
		}
		if r.URL.RawQuery != "" {
			return nil, errArgument("", "This path takes its fields in the body, not in the query.")
		}
	} else if err := readQuery(r.URL.RawQuery, message, b.variables); err != nil {
		return nil, err
	}
	for _, name := range b.variables {
		field := message.Descriptor().Fields().ByName(name)
		value := r.PathValue(string(name))
		if sent := message.Get(field).String(); sent != "" && sent != value {
			return nil, errArgument(string(name), "The body names another "+string(name)+" than the path.")
		}
		if !validText(value) {
			return nil, errArgument(string(name), "The path holds text that is not UTF-8.")
		}
		message.Set(field, protoreflect.ValueOfString(value))
	}
	return message.Interface(), nil
}

func readBody(r *http.Request, message proto.Message) error {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return &transportError{codeMedia, "This path takes no Content-Encoding; send the body as it is."}
	}
	content, err := io.ReadAll(r.Body) // bounded by the route
	if err != nil {
		return bodyError(err)
	}
	if len(content) == 0 {
		return nil
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return &transportError{codeMedia, "This path takes a body of Content-Type application/json."}
	}
	if err := jsonIn.Unmarshal(content, message); err != nil {
		return errArgument("", "The body is no JSON of this request: "+cleanText(err.Error()))
	}
	return nil
}

// bodyError tells a body that is too large from one that never came.
func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return domain.Reject(domain.CodeTooLarge,
			fmt.Sprintf("The body is larger than the %d bytes that this path takes.", tooLarge.Limit))
	}
	return errArgument("", "The body ended before it was complete.")
}

// transportError is a refusal with a code of the transport.
type transportError struct{ code, message string }

// Error implements error.
func (e *transportError) Error() string { return e.code + ": " + e.message }

func errArgument(field, message string) error {
	return &domain.Rejection{Code: domain.CodeInvalidArgument, Field: field, Message: message}
}

// cleanText makes a parser's words fit for an answer: they may quote hostile bytes.
func cleanText(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\u00a0", " "), "?")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// oneShot is the stream of a unary call that came by other ways than a protocol.
type oneShot struct {
	read     func() (proto.Message, error)
	received bool
	response proto.Message
}

// Receive implements connect.ServerStream.
func (o *oneShot) Receive(message any) error {
	target, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("receive message: %T is no protobuf message", message)
	}
	if o.received {
		return io.EOF
	}
	o.received = true
	request, err := o.read()
	if err == nil {
		proto.Merge(target, request)
	}
	return err
}

// SendHeaders implements connect.ServerStream.
func (o *oneShot) SendHeaders() error { return nil }

// Send implements connect.ServerStream.
func (o *oneShot) Send(message any) error {
	response, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("send message: %T is no protobuf message", message)
	}
	o.response = response
	return nil
}

// missingAPI answers for paths of the API that have no route.
func (s *Server) missingAPI(w http.ResponseWriter, r *http.Request) {
	if allowed := s.methodsOf(r); len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		s.turnAway(w, r, codeMethod, "This path takes "+strings.Join(allowed, ", ")+".")
		return
	}
	s.refuse(w, r, errHidden())
}

// methodsOf lists the methods for which the request's path has a route of its own.
func (s *Server) methodsOf(r *http.Request) []string {
	var out []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		probe := r.Clone(context.WithoutCancel(r.Context()))
		probe.Method = method
		if _, pattern := s.mux.Handler(probe); strings.HasPrefix(pattern, method+" ") {
			out = append(out, method)
		}
	}
	return out
}
