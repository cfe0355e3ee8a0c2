package control

import (
	"context"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/recall"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// Server answers ServerService.
type Server struct {
	Engine  *engine.Engine
	Version string
	Store   string // "sqlite" or "postgres"
	Started time.Time
	// Name is this server's among the members of a fleet.
	Name string
	// Fleet, when set, shows all members and all partitions, whoever owns them.
	Fleet func(ctx context.Context) (*fairleadv1.GetServerResponse, error)
}

var _ fairleadv1connect.ServerServiceHandler = (*Server)(nil)

// GetServer implements the contract.
func (s *Server) GetServer(ctx context.Context, _ *fairleadv1.GetServerRequest) (*fairleadv1.GetServerResponse, error) {
	res := &fairleadv1.GetServerResponse{}
	if s.Fleet != nil {
		var err error
		if res, err = s.Fleet(ctx); err != nil {
			return nil, err
		}
	} else {
		for _, p := range s.Engine.Status() {
			res.Partitions = append(res.Partitions, Partition(&p))
		}
	}
	res.Version, res.Store, res.Started, res.Name = s.Version, s.Store, projection.Stamp(s.Started), s.Name
	return res, nil
}

// Partition is an owned partition in the API's form.
func Partition(p *engine.PartitionStatus) *fairleadv1.Partition {
	out := &fairleadv1.Partition{
		Partition: string(p.Partition),
		State:     "owned",
		Epoch:     p.Epoch,
		Position:  uint64(p.Position),
		Owner:     p.Owner,
	}
	if p.Stopped != nil {
		out.State, out.Problem = "stopped", p.Stopped.Message
	} else if len(p.Problems) > 0 {
		out.Problem = strings.Join(p.Problems, "; ")
	}
	if p.Claim != nil {
		out.Notice = projection.Stamp(p.Claim.At) + ": " + p.Claim.Sentence()
	}
	return out
}

// Workflows answers WorkflowService.
type Workflows struct {
	answers recall.Of[question, *fairleadv1.LintResponse]
}

var _ fairleadv1connect.WorkflowServiceHandler = (*Workflows)(nil)

// question is everything that an answer of Lint follows from.
type question struct {
	path, event string
	text        domain.Digest
}

// Lint implements the contract. It compiles and creates nothing.
func (w *Workflows) Lint(_ context.Context, req *fairleadv1.LintRequest) (*fairleadv1.LintResponse, error) {
	path := req.GetPath()
	if path == "" {
		path = "workflow.yml"
	}
	asked := question{path, req.GetEvent(), domain.DigestOf([]byte(req.GetText()))}
	if known, ok := w.answers.Get(asked); ok {
		return known, nil // nobody changes an answer
	}
	src := workflow.Source{Path: path, Text: []byte(req.GetText())}
	p, found := workflow.Compile(src, workflow.Inputs{Event: req.GetEvent()}, workflow.DefaultLimits())
	res := &fairleadv1.LintResponse{Diagnostics: Diagnostics(found)}
	if p != nil {
		res.PlanJson = string(p.Encode())
	}
	w.answers.Put(asked, res, len(res.GetPlanJson())+diagnosticBytes*len(res.GetDiagnostics())+len(path))
	return res, nil
}

// diagnosticBytes is about what one takes in memory.
const diagnosticBytes = 512

// Diagnostics are findings of the compiler in the API's form.
func Diagnostics(found []workflow.Diagnostic) []*fairleadv1.Diagnostic {
	out := make([]*fairleadv1.Diagnostic, 0, len(found))
	for _, d := range found {
		out = append(out, &fairleadv1.Diagnostic{Code: string(d.Code), Severity: string(d.Severity), Path: d.Path,
			Line: int32(d.Pos.Line), Column: int32(d.Pos.Column), Message: d.Message, Hint: d.Hint})
	}
	return out
}
