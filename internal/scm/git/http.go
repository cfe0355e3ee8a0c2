package git

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
)

// HeaderHave is the request header in which a pushing client names commits it has, at
// most havesMax, separated by commas. Those that the server has as well are advertised,
// so that a push sends only what is new. It tells a client nothing but yes or no to a
// commit that it can name already.
const HeaderHave = "Fairlead-Have"

// Target is what a request's path asks for.
type Target struct {
	Repo scm.Repo
	Push bool // a push, or the advertisement that precedes one
}

// Access is what a caller may do. The zero Access may do nothing.
type Access struct {
	Repo      scm.Repo
	Commit    string   // may be fetched, with what leads to it, and nothing else; "" for none
	Also      []string // other commits of which the same holds; only beside Commit
	Push      bool     // may push captures
	Principal string   // for the log
}

// Authorizer decides about a request. An error that holds a rejection with the code
// unauthenticated is answered with 401, any other rejection with 404 (missing and
// forbidden are one answer), and a fault with 503.
//
// Trust: r comes from anybody; its path has been parsed into target already.
type Authorizer func(ctx context.Context, r *http.Request, target Target) (Access, error)

// Handler serves git's smart HTTP below "/git/".
type Handler struct {
	mirrors   *Mirrors
	authorize Authorizer
	log       *slog.Logger
	pushMax   int64
	places    chan struct{}
	active    atomic.Int64
}

// HandlerOptions are the adjustable limits of a Handler; zero fields mean the defaults.
type HandlerOptions struct {
	PushBytesMax int64
	TransfersMax int
	Log          *slog.Logger
}

// Handler makes the smart HTTP door to the mirrors.
func (m *Mirrors) Handler(authorize Authorizer, o HandlerOptions) *Handler {
	if o.PushBytesMax <= 0 {
		o.PushBytesMax = PushBytesMax
	}
	if o.TransfersMax <= 0 {
		o.TransfersMax = TransfersMax
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Handler{mirrors: m, authorize: authorize, log: o.Log, pushMax: o.PushBytesMax,
		places: make(chan struct{}, o.TransfersMax)}
}

// Active is the number of transfers under way.
func (h *Handler) Active() int { return int(h.active.Load()) }

// Services of git.
const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

var gitPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^/git/(tnt_[a-z0-9]{1,40})/(rep_[0-9a-z]{26})\.git/(info/refs|git-upload-pack|git-receive-pack)$`)
})

// Path is the path of a mirror below the server's address, as clients and runners use it.
func Path(repo scm.Repo) string {
	return "/git/" + string(repo.Tenant) + "/" + string(repo.Repository) + ".git"
}

// parsePath takes a path apart: exactly the forms that git asks for, nothing else.
//
// Trust: path comes from anybody.
func parsePath(path string) (repo scm.Repo, action string, ok bool) {
	part := gitPath().FindStringSubmatch(path)
	if part == nil || !domain.ValidID(domain.PrefixRepository, part[2]) {
		return scm.Repo{}, "", false
	}
	return scm.Repo{Tenant: domain.TenantID(part[1]), Repository: domain.RepositoryID(part[2])}, part[3], true
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	repo, action, ok := parsePath(r.URL.EscapedPath())
	if !ok {
		notFound(w)
		return
	}
	service := action
	advertise := action == "info/refs"
	if advertise {
		service = r.URL.Query().Get("service")
	}
	if service != uploadPack && service != receivePack {
		notFound(w)
		return
	}
	method := http.MethodPost
	if advertise {
		method = http.MethodGet
	}
	if r.Method != method {
		w.Header().Set("Allow", method)
		plain(w, http.StatusMethodNotAllowed, "use "+method)
		return
	}
	target := Target{Repo: repo, Push: service == receivePack}
	access, err := h.authorize(r.Context(), r, target)
	if err != nil {
		h.refuse(w, target, err)
		return
	}
	dir, err := h.mirrors.existing(repo)
	allowed := access.Repo == repo &&
		(target.Push && access.Push || !target.Push && scm.ValidCommit(access.Commit))
	if err != nil || !allowed {
		notFound(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), transferTimeout)
	defer cancel()
	if !h.enter(ctx, w) {
		return
	}
	defer h.leave()
	t := &transfer{handler: h, w: w, r: r, control: http.NewResponseController(w), dir: dir,
		access: access, service: service}
	defer t.release()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if advertise {
		t.advertise(ctx)
		return
	}
	t.exchange(ctx)
}

// enter waits for a free place.
func (h *Handler) enter(ctx context.Context, w http.ResponseWriter) bool {
	timer := time.NewTimer(queueTimeout)
	defer timer.Stop()
	select {
	case h.places <- struct{}{}:
		h.active.Add(1)
		return true
	case <-ctx.Done():
	case <-timer.C:
		w.Header().Set("Retry-After", "5")
		plain(w, http.StatusServiceUnavailable, "too many transfers at once; try again")
	}
	return false
}

func (h *Handler) leave() {
	h.active.Add(-1)
	<-h.places
}

// refuse answers an authoriser's no.
func (h *Handler) refuse(w http.ResponseWriter, target Target, err error) {
	rejection, ok := domain.AsRejection(err)
	switch {
	case !ok:
		h.log.Error("authorise git request", "repository", target.Repo.Repository, "error", err)
		w.Header().Set("Retry-After", "5")
		plain(w, http.StatusServiceUnavailable, "the server can't check access now; try again")
	case rejection.Code == domain.CodeUnauthenticated:
		w.Header().Set("WWW-Authenticate", `Bearer realm="fairlead"`)
		plain(w, http.StatusUnauthorized, "a valid token is needed")
	default:
		notFound(w)
	}
}

// notFound is the one answer for missing and forbidden.
func notFound(w http.ResponseWriter) {
	plain(w, http.StatusNotFound, "there is no such repository, or you may not use it")
}

// plain answers with one line; git shows it to its user as a remote message.
func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a client that is gone needs no answer
}

// transfer is one authorised request.
type transfer struct {
	handler *Handler
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	dir     string
	access  Access
	service string
	patient *patient // reads the body; nil when there is none
}

// release takes the deadlines back, so that the connection can serve its next request.
func (t *transfer) release() {
	_ = t.control.SetReadDeadline(time.Time{}) // not every server has deadlines
	_ = t.control.SetWriteDeadline(time.Time{})
}

// view hides every ref but those that the caller may know of. HEAD is named on its own
// since it is not below refs/.
func view(shown ...string) []string {
	settings := []string{"transfer.hideRefs=HEAD", "transfer.hideRefs=refs/"}
	for _, ref := range shown {
		settings = append(settings, "transfer.hideRefs=!"+ref)
	}
	return settings
}

// commits are all that may be fetched.
func (a Access) commits() []string { return append([]string{a.Commit}, a.Also...) }

// fetchView serves the commits that may be fetched. None of the settings that let a client ask for objects by
// id is on: the pin itself is advertised, so the commit may be wanted as an advertised
// tip. (allowTipSHA1InWant would open the tips of all hidden refs as well.)
func (t *transfer) fetchView() []string {
	var pins []string
	for _, commit := range t.access.commits() {
		pins = append(pins, PinPrefix+commit)
	}
	return append(view(pins...),
		"uploadpack.allowTipSHA1InWant=false", "uploadpack.allowReachableSHA1InWant=false",
		"uploadpack.allowAnySHA1InWant=false", "uploadpack.allowFilter=false", "uploadpack.keepAlive=5")
}

func (t *transfer) pushView(shown ...string) []string {
	return append(view(shown...),
		"receive.maxInputSize="+strconv.FormatInt(t.handler.pushMax, 10),
		"receive.advertisePushOptions=false", "receive.denyDeletes=true",
		"receive.denyNonFastForwards=true", "receive.updateServerInfo=false",
		"receive.shallowUpdate=false", "receive.keepAlive=5")
}

// advertise answers info/refs.
func (t *transfer) advertise(ctx context.Context) {
	c := call{args: []string{"upload-pack", "--strict", "--stateless-rpc", "--http-backend-info-refs", t.dir}}
	if t.service == uploadPack {
		c.config = t.fetchView()
	} else {
		c.args = []string{"receive-pack", "--stateless-rpc", "--http-backend-info-refs", t.dir}
		c.config = t.pushView(t.haves()...)
	}
	t.w.Header().Set("Content-Type", "application/x-"+t.service+"-advertisement")
	prefix := packet("# service="+t.service+"\n") + "0000"
	t.stream(ctx, c, strings.NewReader(""), prefix)
}

// haves are refs that a pushing client may know of since it named their commits.
func (t *transfer) haves() []string {
	var shown []string
	for id := range strings.SplitSeq(t.r.Header.Get(HeaderHave), ",") {
		if id = strings.TrimSpace(id); scm.ValidCommit(id) && len(shown) < havesMax {
			shown = append(shown, CapturePrefix+id)
		}
	}
	return shown
}

// exchange answers a fetch or a push.
func (t *transfer) exchange(ctx context.Context) {
	if t.r.Header.Get("Content-Type") != "application/x-"+t.service+"-request" {
		plain(t.w, http.StatusUnsupportedMediaType, "this is not a git request")
		return
	}
	limit := int64(negotiationBytesMax)
	if t.service == receivePack {
		limit = t.handler.pushMax + commandBytesMax
	}
	body, err := t.body(limit)
	if err != nil {
		plain(t.w, http.StatusBadRequest, err.Error())
		return
	}
	t.w.Header().Set("Content-Type", "application/x-"+t.service+"-result")
	if t.service == uploadPack {
		err = t.fetch(ctx, body)
	} else {
		err = t.push(ctx, body)
	}
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
	case errors.Is(err, errWireSize) || errors.As(err, &tooLarge):
		plain(t.w, http.StatusRequestEntityTooLarge, "the request is over the server's limit")
	case errors.Is(err, errWire):
		plain(t.w, http.StatusBadRequest, err.Error())
	case ctx.Err() != nil || t.r.Context().Err() != nil:
	default:
		t.handler.log.Error("serve git request", "repository", t.access.Repo.Repository, "error", err)
		plain(t.w, http.StatusInternalServerError, "the server could not serve this request")
	}
}

// body is the request's body, decompressed, with a limit on what comes out and a time
// limit on silence.
func (t *transfer) body(limit int64) (*bufio.Reader, error) {
	t.patient = &patient{from: t.r.Body, control: t.control}
	var source io.Reader = t.patient
	switch encoding := t.r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		unzipped, err := gzip.NewReader(source)
		if err != nil {
			return nil, errors.New("the body is not gzip")
		}
		source = unzipped
	default:
		return nil, fmt.Errorf("content encoding %.20q is not known", encoding)
	}
	return bufio.NewReaderSize(http.MaxBytesReader(nil, io.NopCloser(source), limit), 32<<10), nil
}

// fetch answers a fetch of the one commit.
func (t *transfer) fetch(ctx context.Context, body *bufio.Reader) error {
	lines, raw, err := section(body, wantBytesMax)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return nil // git's question whether it may ask at all
	}
	refusal, err := checkWants(lines, t.access.commits()...)
	if err != nil {
		return err
	}
	if refusal != "" {
		_, err := io.WriteString(t.w, packet("ERR "+refusal+"\n"))
		return err
	}
	c := call{config: t.fetchView(), args: []string{"upload-pack", "--strict", "--stateless-rpc", t.dir}}
	t.stream(ctx, c, io.MultiReader(strings.NewReader(string(raw)), body), "")
	return nil
}

// push answers a push of captures.
func (t *transfer) push(ctx context.Context, body *bufio.Reader) error {
	lines, _, err := section(body, commandBytesMax)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return nil // git's question whether it may push at all
	}
	p, err := parsePush(lines)
	if err != nil {
		return err
	}
	if p.refusal != "" {
		return t.refusePush(p, body)
	}
	if len(p.commands) == 0 {
		return fmt.Errorf("%w: a push without commands", errWire)
	}
	// Two pushes of one commit are queued: git's ref lock would fail the second one.
	refs := make([]string, len(p.commands))
	for i, c := range p.commands {
		refs[i] = c.ref
	}
	unlock, err := t.handler.mirrors.locks.lockPush(ctx, t.dir, refs)
	if err != nil {
		return err
	}
	defer unlock()
	found, err := t.handler.mirrors.list(ctx, t.dir, refs...)
	if err != nil {
		return err
	}
	present := make(map[string]bool, len(found))
	for _, ref := range found {
		present[ref.Name] = true
	}
	c := call{config: t.pushView(refs...), args: []string{"receive-pack", "--stateless-rpc", t.dir}}
	// Git removes what it has half received when its input ends, but not when it is
	// told to stop. So a push that lost its client is not cancelled but runs dry.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transferTimeout)
	defer cancel()
	t.stream(ctx, c, io.MultiReader(strings.NewReader(p.encode(present)), body), "")
	return nil
}

// refusePush reads on for a while before it answers: git reads the report only after it
// has sent its objects.
func (t *transfer) refusePush(p push, body io.Reader) error {
	_, _ = io.CopyN(io.Discard, body, refusedBytesMax) // what matters is the report
	text, ok := p.report()
	if !ok {
		plain(t.w, http.StatusForbidden, p.refusal)
		return nil
	}
	_, err := io.WriteString(t.w, text)
	return err
}
