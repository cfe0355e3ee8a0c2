package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/capture"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// source is what a run is asked for: the repository, and the commit that stands for its
// working tree.
type source struct {
	tree    *capture.Tree
	capture *capture.Capture // nil when the server resolves a ref
	name    string           // of the repository, on the server
	created bool             // this call registered it
	pushed  bool
}

// open looks at the repository of the working folder and takes its commit, while a
// first word with the server shows whether it is there and warms the connection.
func (a *app) open(ctx context.Context, c *client.Client, o *runOptions) (*source, error) {
	greeted := make(chan error, 1)
	go func() {
		_, err := c.Server.GetServer(ctx, &fairleadv1.GetServerRequest{})
		greeted <- err
	}()
	s, err := a.take(ctx, o)
	if hello := <-greeted; hello != nil && err == nil {
		err = errors.Join(hello, s.close())
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (a *app) take(ctx context.Context, o *runOptions) (*source, error) {
	folder, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find working folder: %w", err)
	}
	look := capture.OpenForTake
	if o.ref != "" || o.committed {
		look = capture.Open
	}
	tree, err := look(ctx, folder)
	if errors.Is(err, capture.ErrNoRepository) && o.ref != "" && o.repository != "" {
		return &source{name: o.repository}, nil // the server knows both
	}
	if err != nil {
		return nil, err
	}
	s := &source{tree: tree, name: o.repository}
	if s.name == "" {
		s.name = tree.Name()
	}
	if o.ref != "" {
		return s, nil
	}
	if s.capture, err = tree.Take(ctx, o.committed); err != nil {
		return nil, err
	}
	for _, text := range s.capture.Notes {
		a.note("note: %s", clean(text))
	}
	return s, nil
}

func (s *source) close() error {
	if s == nil || s.capture == nil {
		return nil
	}
	return s.capture.Close()
}

// create asks for the run. Usually the server has repository and commit already, so that
// is tried first and costs one call; what is missing is brought and asked again. A refused
// call stores no reply, so the key stays good.
func (s *source) create(ctx context.Context, c *client.Client, key string,
	request *fairleadv1.CreateRunRequest) (*fairleadv1.CreateRunResponse, error) {
	ask := func() (*fairleadv1.CreateRunResponse, error) {
		return c.Runs.CreateRun(client.WithKey(ctx, key), request)
	}
	response, err := ask()
	if s.capture == nil {
		return response, err
	}
	var repository *fairleadv1.Repository
	switch code := client.Refusal(err).GetCode(); domain.Code(code) {
	case domain.CodeNotFound:
		repository, err = s.register(ctx, c)
	case domain.CodeCommitNotFound:
		var found *fairleadv1.GetRepositoryResponse
		found, err = c.Repositories.GetRepository(ctx, &fairleadv1.GetRepositoryRequest{Repository: s.name})
		repository = found.GetRepository()
	default:
		return response, err
	}
	if err != nil {
		return nil, err
	}
	if err := s.push(ctx, c, repository); err != nil {
		return nil, err
	}
	return ask()
}

// register makes the repository known. It has no address, so the server opens no path and
// fetches nothing: this program sends the commits.
func (s *source) register(ctx context.Context, c *client.Client) (*fairleadv1.Repository, error) {
	response, err := c.Repositories.AddRepository(ctx, &fairleadv1.AddRepositoryRequest{
		Name: s.name, DefaultBranch: strings.TrimPrefix(s.tree.Branch, "refs/heads/")})
	if err != nil {
		return nil, err
	}
	s.created = !response.GetExisted()
	return response.GetRepository(), nil
}

// pushesMax bounds how often a push is begun anew; then the server counts as unreachable.
const pushesMax = 5

// push sends the commit. A server that went away in the middle is waited for.
func (s *source) push(ctx context.Context, c *client.Client, repository *fairleadv1.Repository) error {
	address := repository.GetGitPath()
	if strings.HasPrefix(address, "/") {
		address = c.Base() + address
	}
	header := http.Header{"Authorization": {c.Authorization().Reveal()}}
	err := s.capture.Push(ctx, address, header)
	for n := 1; n < pushesMax && errors.Is(err, capture.ErrUnreached); n++ {
		if _, away := c.Server.GetServer(ctx, &fairleadv1.GetServerRequest{}); away != nil {
			return away
		}
		err = s.capture.Push(ctx, address, header)
	}
	s.pushed = err == nil
	return err
}

// sources finds the text that diagnostics of a server belong to.
type sources struct {
	root string // folder whose files are what the server compiled; "" when none are
}

// render writes diagnostics with their source line where that is known.
func (s sources) render(found []*fairleadv1.Diagnostic) string {
	var out strings.Builder
	for begin := 0; begin < len(found); {
		path, end := found[begin].GetPath(), begin
		var of []workflow.Diagnostic
		for ; end < len(found) && found[end].GetPath() == path; end++ {
			of = append(of, diagnosticOf(found[end]))
		}
		out.WriteString(workflow.Render(of, s.text(path)))
		begin = end
	}
	return out.String()
}

func (s sources) text(path string) []byte {
	if s.root == "" || !filepath.IsLocal(filepath.FromSlash(path)) {
		return nil
	}
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return nil
	}
	defer root.Close()
	text, err := root.ReadFile(filepath.FromSlash(path))
	if err != nil {
		return nil // the place is said all the same, only without its line
	}
	return text
}

func diagnosticOf(d *fairleadv1.Diagnostic) workflow.Diagnostic {
	out := workflow.Diagnostic{Severity: workflow.Severity(d.GetSeverity()), Path: clean(d.GetPath()),
		Message: clean(d.GetMessage()), Hint: clean(d.GetHint()),
		Pos: workflow.Pos{Line: int(d.GetLine()), Column: int(d.GetColumn())}}
	out.Code = syntax.Code(clean(d.GetCode()))
	return out
}
