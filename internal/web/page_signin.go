package web

import "net/http"

// SignIn is what the page to sign in at says and where its form goes.
type SignIn struct {
	// Action is where the form posts its field "token" to (and "next", when given).
	Action string
	// Next is the page to show afterwards; the transport must accept only paths of its own.
	Next string
	// Message is a sentence about why the last try was refused; "" on the first one.
	Message string
	// Status is the HTTP status to answer with; 0 means 200.
	Status int
}

// SignIn shows the page to sign in at. It is the one page for people who are not
// admitted yet, so it shows nothing of the server but its name.
func (p *Pages) SignIn(w http.ResponseWriter, r *http.Request, s SignIn) {
	status := s.Status
	if status == 0 {
		status = http.StatusOK
	}
	pg := p.frame(r.Context(), page{Title: "Sign in", Source: "internal/web/page_signin.templ", Focused: true})
	pg.version, pg.signOut = "", ""
	p.render(w, r, status, signInPage(pg, s))
}
