package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// SignInPrompt is what the page to sign in at says.
type SignInPrompt struct {
	Action  string // where its form posts the fields token and next
	Next    string // the page to show afterwards; a path of this server
	Message string // why the last try was refused; "" on the first
	Status  int    // HTTP status to answer with
}

// Paths of signing in and out.
const (
	SignInPath  = "/signin"
	SignOutPath = "/signout"
)

// SignInLink is the link that signs in once: base is the server's URL.
func SignInLink(base string, code domain.Secret) string {
	return strings.TrimSuffix(base, "/") + SignInPath + "?code=" + url.QueryEscape(code.Reveal())
}

func (s *Server) mountSignIn() {
	s.handle(route{pattern: "GET " + SignInPath, action: ActionPublic}, s.showSignIn)
	s.handle(route{pattern: "POST " + SignInPath, action: ActionPublic, body: formBytesMax}, s.signIn)
	s.handle(route{pattern: "POST " + SignOutPath, action: ActionPublic, body: formBytesMax}, s.signOut)
}

// showSignIn redeems the code of a sign-in link, or shows the page to sign in at.
func (s *Server) showSignIn(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer") // the address holds the code
	w.Header().Set("Cache-Control", "no-store")
	query := r.URL.Query()
	next := localPath(query.Get("next"))
	signedIn := !anonymous(r.Context())
	if signedIn { // the link opened twice, or the page from the history
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	code := query.Get("code")
	if code == "" || r.Method != http.MethodGet { // HEAD looks, it doesn't redeem
		s.prompt(w, r, SignInPrompt{Next: next, Status: http.StatusOK})
		return
	}
	cookie, ok, err := s.cfg.Gate.Sessions.Redeem(code)
	s.enter(w, r, cookie, ok, err, SignInPrompt{Next: next,
		Message: "This sign-in link was used before or is too old. Make a new one, or use the admin token."})
}

// signIn takes the admin token from the form of the page.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if err := r.ParseForm(); err != nil {
		s.prompt(w, r, SignInPrompt{Next: "/", Status: http.StatusBadRequest, Message: "The form can't be read."})
		return
	}
	again := SignInPrompt{Next: localPath(r.PostFormValue("next")), Message: "That is not the admin token."}
	principal, ok := s.cfg.Gate.Token(r.Context(), strings.TrimSpace(r.PostFormValue("token")))
	if !ok || principal.Kind != credential.KindAdmin {
		s.enter(w, r, domain.Secret{}, false, nil, again)
		return
	}
	cookie, err := s.cfg.Gate.Sessions.Begin()
	s.enter(w, r, cookie, err == nil, err, again)
}

// enter sets the session's cookie and leads on, or asks again.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, cookie domain.Secret, ok bool, err error,
	again SignInPrompt) {
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if !ok {
		again.Status = http.StatusUnauthorized
		callOf(r.Context()).code = string(domain.CodeUnauthenticated)
		s.prompt(w, r, again)
		return
	}
	http.SetCookie(w, s.cookie(r, cookie.Reveal(), int(credential.SessionLife.Seconds())))
	http.Redirect(w, r, again.Next, http.StatusSeeOther)
}

func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(s.cfg.Gate.Sessions.CookieName()); err == nil {
		if err := s.cfg.Gate.Sessions.End(cookie.Value); err != nil {
			s.refuse(w, r, err)
			return
		}
	}
	http.SetCookie(w, s.cookie(r, "", -1))
	http.Redirect(w, r, SignInPath, http.StatusSeeOther)
}

func (s *Server) cookie(r *http.Request, value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: s.cfg.Gate.Sessions.CookieName(), Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil,
	}
}

func (s *Server) prompt(w http.ResponseWriter, r *http.Request, prompt SignInPrompt) {
	prompt.Action = SignInPath
	if s.cfg.SignInPage != nil {
		s.cfg.SignInPage(w, r, prompt)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(prompt.Status)
	text := "Open the sign-in link that the server printed, or POST the admin token as token to " + SignInPath + ".\n"
	if prompt.Message != "" {
		text = prompt.Message + "\n" + text
	}
	_, _ = w.Write([]byte(text))
}

// localPath accepts only a path of this server: anything else would make the sign-in page
// a way to send people elsewhere.
//
// Trust: text comes from anybody.
func localPath(text string) string {
	if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || len(text) > 2048 ||
		strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == '\\' || c == 0x7f }) {
		return "/"
	}
	return text
}
