package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// mountGit passes /git/ on: to fetch needs another right than to push.
func (s *Server) mountGit() {
	if s.cfg.Git == nil {
		return
	}
	s.handle(route{
		pattern: "/git/", action: ActionSourceFetch, decide: gitAction, patience: long, body: -1,
		refuse: s.refuseGit,
	}, s.cfg.Git.ServeHTTP)
}

// gitAction reads what a smart HTTP request is for.
func gitAction(r *http.Request) (Action, Resource) {
	rest := strings.TrimPrefix(r.URL.Path, "/git/")
	repository, _, _ := strings.Cut(rest, ".git/")
	resource := Resource{Kind: "repository", ID: repository[strings.LastIndexByte(repository, '/')+1:]}
	if strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack" {
		return ActionSourcePush, resource
	}
	return ActionSourceFetch, resource
}

// refuseGit answers in plain text, which git shows, and asks for a password, which git
// sends only when it was asked.
func (s *Server) refuseGit(w http.ResponseWriter, r *http.Request, err error) {
	answer := s.explain(r.Context(), err)
	if answer.GetCode() == string(domain.CodeUnauthenticated) {
		w.Header().Set("WWW-Authenticate", `Basic realm="fairlead"`)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(statusOf(answer.GetCode()).http)
	_, _ = w.Write([]byte(answer.GetMessage() + " (" + answer.GetRequest() + ")\n"))
}

// mountPages passes everything else to the pages, and answers for paths of the API that
// don't exist.
func (s *Server) mountPages() {
	if s.cfg.Pages != nil {
		// What the page to sign in at needs. It holds nothing of a tenant.
		s.handle(route{pattern: "GET /static/", action: ActionPublic, quiet: true}, s.cfg.Pages.ServeHTTP)
		s.handle(route{pattern: "GET /favicon.ico", action: ActionPublic, quiet: true}, s.cfg.Pages.ServeHTTP)
	}
	s.handle(route{
		pattern: "/", action: ActionPageRead, decide: s.pageAction, body: formBytesMax, refuse: s.refusePage,
	}, func(w http.ResponseWriter, r *http.Request) {
		if isAPI(r.URL.Path) || s.cfg.Pages == nil {
			s.missingAPI(w, r)
			return
		}
		s.cfg.Pages.ServeHTTP(w, r)
	})
}

// pageAction gives the form of a page the action of the procedure that the form stands
// for: its address is that of the REST path without the prefix. So a page can do nothing
// that the API would refuse.
func (s *Server) pageAction(r *http.Request) (Action, Resource) {
	if isAPI(r.URL.Path) {
		return ActionPublic, Resource{} // the answer is the same to everybody
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return ActionPageRead, Resource{}
	}
	probe := &http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Path: "/api/v1" + r.URL.Path}}
	_, pattern := s.mux.Handler(probe)
	for _, route := range s.routes {
		if route.Pattern == pattern && route.Procedure != "" {
			return route.Action, Resource{Kind: operations[route.Procedure].kind, ID: pathID(pattern, probe.URL.Path)}
		}
	}
	return ActionPageRead, Resource{}
}

// pathID is the part of path where pattern has its first variable.
func pathID(pattern, path string) string {
	_, pattern, _ = strings.Cut(pattern, " ")
	parts := strings.Split(path, "/")
	for i, part := range strings.Split(pattern, "/") {
		if strings.HasPrefix(part, "{") && i < len(parts) {
			return parts[i]
		}
	}
	return ""
}

// refusePage leads browsers to sign in, and answers programs.
func (s *Server) refusePage(w http.ResponseWriter, r *http.Request, err error) {
	rejection, ok := domain.AsRejection(err)
	browser := strings.Contains(r.Header.Get("Accept"), "text/html")
	if !ok || rejection.Code != domain.CodeUnauthenticated || !browser {
		s.refuse(w, r, err)
		return
	}
	callOf(r.Context()).code = string(rejection.Code)
	next := "/"
	if r.Method == http.MethodGet {
		next = r.URL.RequestURI()
	}
	http.Redirect(w, r, SignInPath+"?next="+url.QueryEscape(next), http.StatusSeeOther)
}
