// Package console is the live web console: pages below /ui/ of the remote API, made on the server.
//
// It is an edge, not an actor. It owns the templates, the assets, the open streams of browsers, and caches of answers and sessions that
// are seconds old. A page becomes calls to the LUXI gateway in the same process, which a node that is not the master forwards to the
// master, so that each node serves the console. One connection (hub) receives changes for all streams of this node.
//
// Nothing of it survives a crash. Sessions belong to the sessions actor; browsers connect again and load the page again.
package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/access"
	"lockstep/core/budget"
	"lockstep/edge/admission"
	"lockstep/edge/login"
	"lockstep/edge/luxiclient"
	"lockstep/edge/rapi"
	"lockstep/edge/ratelog"
	"lockstep/edge/tlsserver"
)

// Bounds of the console.
const (
	streamsMax  = 500     // open streams at a time
	formMax     = 1 << 20 // bytes of a form
	loggedMax   = 100     // characters of a value of a form in the log
	pageTimeout = 20 * time.Second
)

//go:embed templates
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// Config has what the console takes from the daemon: its calls, logins, limits and links.
type Config struct {
	Log    *logrus.Logger
	Queue  *rapi.Pool
	Output rapi.OpenOutput // nil: the log of a job is all of its output
	Logins *login.Logins
	// Commands are those that logins with a password may submit.
	Commands login.Commands
	Version  string // of the daemon, for people
	Port     int    // of the listener: the name of the cookie has it, because cookies do not tell ports apart
	// Table is the budget that all listeners of the daemon share.
	Table *admission.Table
}

// Console is the HTTP handler of lockstep's web pages. It is made by New and ended by Stop.
type Console struct {
	config    Config
	mux       *http.ServeMux
	templates *template.Template
	assets    map[string]asset // by the name in a URL
	names     map[string]string
	queue     rapi.Luxi
	reads     *reads
	sessions  *sessionCache
	hub       *hub
	daemon    access.Submitter // to whom jobs without a submitter belong
	streams   *admission.Slots
	stopping  chan struct{}
	stopOnce  sync.Once

	failures, unrendered *ratelog.Log
}

// asset is one file that browsers may keep for ever: its name changes with its content.
type asset struct {
	kind string
	data []byte
}

// New returns a Console that serves pages at once. An error is about the pages that are built into the program.
func New(c Config) (*Console, error) {
	x := &Console{config: c, daemon: daemonUser(), mux: http.NewServeMux(), assets: map[string]asset{}, names: map[string]string{},
		streams: admission.NewSlots(streamsMax), stopping: make(chan struct{}),
		failures:   ratelog.New(c.Log, logrus.WarnLevel, "console: request failed", "count"),
		unrendered: ratelog.New(c.Log, logrus.ErrorLevel, "console: page cannot be rendered", "count")}
	if err := x.loadAssets(); err != nil {
		return nil, err
	}
	var err error
	if x.templates, err = template.New("").Funcs(x.functions()).ParseFS(templateFiles, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("parse the templates of the console: %w", err)
	}
	x.hub = newHub(c.Queue, x.stopping)
	x.setQueue(c.Queue)
	for _, r := range x.routes() {
		x.mux.HandleFunc(r.pattern, r.serve)
	}
	return x, nil
}

// setQueue makes a queue the one that pages show and change.
func (x *Console) setQueue(queue rapi.Luxi) {
	x.queue, x.reads, x.sessions = queue, newReads(queue), newSessionCache(queue, x.config.Logins)
}

// Stop ends the streams of events, so that the server can end. It may be called more than once.
func (x *Console) Stop() { x.stopOnce.Do(func() { close(x.stopping) }) }

// loadAssets reads the assets, and gives each a public name with a part of its hash.
func (x *Console) loadAssets() error {
	return fs.WalkDir(assetFiles, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := assetFiles.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		base := path.Base(name)
		ext := path.Ext(base)
		kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
		public := strings.TrimSuffix(base, ext) + "-" + hex.EncodeToString(sum[:6]) + ext
		x.assets[public] = asset{kinds[ext], data}
		x.names[base] = public
		return nil
	})
}

// securityPolicy lets a page load scripts, styles and data from this server only. There is no inline script or style.
const securityPolicy = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP serves one request below /ui. The caller has checked Host and origin.
func (x *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", securityPolicy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	q := tlsserver.RequestOf(r.Context())
	if q == nil {
		q, r = tlsserver.Begin(w, r, x.config.Table)
		defer q.End()
		w = q
	}
	if tlsserver.HasBody(r) && r.Method != http.MethodPost {
		h.Set("Connection", "close")
		http.Error(w, "This request has no body.", http.StatusBadRequest)
		return
	}
	r = x.countForUser(r)
	if err := q.Admit(); err != nil {
		h.Set("Connection", "close") // a body is not read
		refuse(w, err)
		return
	}
	body, err := q.ReadBody(r, formMax)
	if err != nil {
		h.Set("Connection", "close") // the rest of the body is not read
		refuse(w, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	q.Work()
	x.mux.ServeHTTP(w, r)
}

// refuse answers a request whose body cannot be read, or for which there is no room.
func refuse(w http.ResponseWriter, err error) {
	code, text := http.StatusBadRequest, "The form cannot be read."
	switch {
	case errors.Is(err, admission.ErrBusy):
		w.Header().Set("Retry-After", "5")
		code, text = http.StatusServiceUnavailable, "Too many requests at a time; try again later"
	case errors.Is(err, tlsserver.ErrBodyTooLarge):
		code, text = http.StatusRequestEntityTooLarge, "The form is too large."
	case errors.Is(err, tlsserver.ErrBodyTooSlow):
		code, text = http.StatusRequestTimeout, "The form was not sent in time."
	}
	http.Error(w, text, code)
}

// route is a pattern of paths, and what serves them.
type route struct {
	pattern string
	serve   http.HandlerFunc
}

// routes are all paths. A pattern without a method takes no other than the mux says: 405 with Allow.
func (x *Console) routes() []route {
	return []route{
		{"GET /ui", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, rapi.ConsolePath, http.StatusFound) }},
		{"GET /ui/assets/{name}", x.serveAsset},
		{"GET /ui/login", x.open(x.loginPage)},
		{"POST /ui/login", x.open(x.login)},
		{"GET /ui/open", x.open(x.linkPage)},
		{"POST /ui/open", x.open(x.redeem)},
		{"POST /ui/logout", x.page(x.logout)},
		{"GET /ui/events", x.events},
		{"GET /ui/consoles", x.page(x.consoles)},
		{"GET /ui/{$}", x.page(x.overview)},
		{"GET /ui/jobs", x.page(x.jobs)},
		{"POST /ui/jobs/confirm", x.page(x.confirmJobs)},
		{"POST /ui/jobs/apply", x.change(x.applyJobs)},
		{"GET /ui/jobs/{id}", x.page(x.job)},
		{"GET /ui/jobs/{id}/log", x.download(x.downloadLog)},
		{"GET /ui/jobs/{id}/job.json", x.page(x.jobFile)},
		{"GET /ui/jobs/{id}/graph", x.page(x.graph)},
		{"POST /ui/jobs/{id}/{action}", x.change(x.jobAction)},
		{"GET /ui/timeline", x.page(x.timeline)},
		{"GET /ui/locks", x.page(x.locks)},
		{"GET /ui/filters", x.page(x.filters)},
		{"POST /ui/filters/preview", x.page(x.previewFilter)},
		{"POST /ui/filters/save", x.change(x.saveFilter)},
		{"POST /ui/filters/delete", x.change(x.deleteFilter)},
		{"GET /ui/order", x.page(x.order)},
		{"GET /ui/schedules", x.page(x.schedules)},
		{"POST /ui/schedules/confirm", x.page(x.confirmRemoval)},
		{"GET /ui/schedules/{name}", x.page(x.schedule)},
		{"POST /ui/schedules/{name}/{action}", x.change(x.orderSchedule)},
		{"GET /ui/audit", x.page(x.auditLog)},
		{"GET /ui/nodes", x.page(x.nodes)},
		{"POST /ui/nodes/confirm", x.page(x.confirmPromotion)},
		{"POST /ui/nodes/promote", x.change(x.promote)},
		{"GET /ui/settings", x.page(x.settings)},
		{"POST /ui/settings", x.change(x.saveSettings)},
		{"POST /ui/drain", x.change(x.drain)},
		{"GET /ui/opcodes", x.page(x.opcodes)},
		{"GET /ui/opcodes/{name}", x.page(x.opcode)},
		{"POST /ui/opcodes/{name}", x.change(x.submit)},
		{"GET /ui/help", x.page(x.help)},
		{"GET /ui/", x.page(func(*request) error { return errNotFound })},
	}
}

// Routes are the method and path of all routes, such as "GET /ui/jobs/{id}".
func Routes() []string {
	var all []string
	for _, r := range (&Console{}).routes() {
		all = append(all, strings.TrimSuffix(r.pattern, "{$}"))
	}
	return all
}

func (x *Console) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, known := x.assets[r.PathValue("name")]
	if !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Length", strconv.Itoa(len(a.data)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.data)
	}
}

// request is one request for a page, with its user.
type request struct {
	*http.Request
	w       http.ResponseWriter
	console *Console
	user    user
	id      string        // hash of the session
	about   logrus.Fields // what a change is about, for the log
	done    bool          // the change was made
}

// noCommands says why the login does not permit opcodes that run arbitrary commands; "": it does. Those of a login by a link run as its
// account.
func (q *request) noCommands() string {
	if q.user.isByLink() {
		return ""
	}
	problem := q.console.config.Commands.Problem(q.user.login)
	if problem == "" {
		return ""
	}
	return problem + ". The link of “lockstep open” permits them."
}

// refusal says why the role of the user does not permit the form or page with this method and path; "": it does.
func (q *request) refusal(route string) string { return q.refusalOf(access.ConsoleRoute(route)) }

func (q *request) refusalOf(route access.Route) string {
	if err := route.Refuse(q.user.From.String(), q.user.Role); err != nil {
		return capital(err.Error()) + "."
	}
	return ""
}

// pageError is an error with a code and a sentence for people.
type pageError struct {
	code int
	text string
}

func (e *pageError) Error() string { return e.text }

var errNotFound = &pageError{http.StatusNotFound, "There is no such page."}

// pageErrorOf is an error for people, with the code of the answer.
func pageErrorOf(err error) *pageError {
	var known *pageError
	if errors.As(err, &known) {
		return known
	}
	f := rapi.AsFailure(err)
	if f.Code == http.StatusForbidden {
		return &pageError{f.Code, capital(strings.TrimSuffix(f.Error(), ".")) + "."}
	}
	return &pageError{f.Code, f.Error()}
}

func badRequest(format string, args ...any) error {
	return &pageError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// open serves a page that needs no login. An error is shown as a page.
func (x *Console) open(serve func(*request) error) http.HandlerFunc {
	return x.limited(func(w http.ResponseWriter, r *http.Request) {
		q := &request{w: w, Request: r, console: x}
		if err := serve(q); err != nil {
			q.fail(err)
		}
	})
}

// page serves a page for users who have logged in and have the role for it. Those without a login are sent to it, and back after it.
func (x *Console) page(serve func(*request) error) http.HandlerFunc {
	return x.limited(x.download(serve))
}

// download is page for an answer that may take long.
func (x *Console) download(serve func(*request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := &request{w: w, Request: r, console: x}
		who, id, err := x.sessions.user(r, x.cookieName())
		switch {
		case errors.Is(err, errNoSession) && r.Header.Get(liveHeader) != "":
			w.WriteHeader(http.StatusUnauthorized) // to the script, not to the browser: no WWW-Authenticate
			return
		case errors.Is(err, errNoSession):
			http.Redirect(w, r, "/ui/login?next="+template.URLQueryEscaper(localPath(r)), http.StatusSeeOther)
			return
		case err != nil:
			q.fail(err)
			return
		}
		q.user, q.id = who, id
		if refusal := q.refusal(r.Pattern); refusal != "" {
			q.fail(&pageError{http.StatusForbidden, refusal})
			return
		}
		if err := serve(q); err != nil {
			q.fail(err)
		}
	}
}

// countForUser makes a request with a session count for its user, no longer for the address, in the limits of connections, turns and
// memory. A request without one stays as it is: a page that needs a session says what is wrong.
func (x *Console) countForUser(r *http.Request) *http.Request {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	who, _, err := x.sessions.owner(r.WithContext(ctx), x.cookieName())
	if err != nil {
		return r
	}
	name, _, _ := strings.Cut(who.Who, "(") // uid=1000(alice)
	return tlsserver.RequestOf(r.Context()).Login(budget.Client{Name: name}, r)
}

// limited ends the context of a request whose page takes longer than pageTimeout.
func (x *Console) limited(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		serve(w, r.WithContext(ctx))
	}
}

// localPath is the path and query of a GET; of other requests the overview.
func localPath(r *http.Request) string {
	if r.Method != http.MethodGet {
		return rapi.ConsolePath
	}
	return r.URL.RequestURI()
}

// liveHeader marks a request of the script, which wants only the part of the page that changes.
const liveHeader = "X-Lockstep-Live"

// view is what each template gets.
type view struct {
	Title   string
	Section string // entry of the navigation
	User    user
	Live    string // what the page shows: events of this concern it; empty: none
	Path    string
	Notice  string // what the last action has done
	Version string
	Now     time.Time
	Data    any
	request *request
}

// Refused is request.refusal, for the buttons of a page.
func (v view) Refused(route string) string { return v.request.refusal(route) }

// show renders a page. For a request of the script it renders the main part only.
func (q *request) show(name, title, section, live string, data any) error { //nolint:unparam // the error is for the callers' form
	q.render(http.StatusOK, name, view{Title: title, Section: section, Live: live, Data: data})
	return nil
}

func (q *request) render(code int, name string, v view) {
	v.User, v.Path, v.Version, v.Now = q.user, q.URL.RequestURI(), q.console.config.Version, time.Now()
	v.request = q
	if v.Notice == "" {
		v.Notice = takeNotice(q)
	}
	if q.Header.Get(liveHeader) == "" {
		q.writePage(code, "layout", pageView{v, name, q.console})
		return
	}
	q.writePage(code, "live", pageView{v, name, q.console})
}

// pageView is a view with the template of its main part.
type pageView struct {
	view
	Main    string
	console *Console
}

// Body renders the main part of a page.
func (p pageView) Body() (template.HTML, error) {
	var b bytes.Buffer
	err := p.console.templates.ExecuteTemplate(&b, p.Main, p.view)
	return template.HTML(b.String()), err //nolint:gosec // html/template has escaped it
}

func (q *request) writePage(code int, name string, v pageView) {
	b, ok := q.execute(name, v.Main, v)
	if !ok {
		return
	}
	page := []byte(visible(b.String()))
	h := q.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(page)))
	q.w.WriteHeader(code)
	if q.Method != http.MethodHead {
		_, _ = q.w.Write(page) // a client that has gone gets no answer
	}
}

// execute renders a template in the turn of its user. ok is false if it has answered with an error, or if the client has left.
func (q *request) execute(name, operation string, data any) (b bytes.Buffer, ok bool) {
	ctx, release, err := q.console.config.Table.Turn(q.Context(), admission.Render)
	if err == nil {
		err = q.console.templates.ExecuteTemplate(&b, name, data)
		release()
	}
	if err == nil {
		err = admission.Take(ctx, b.Len())
	}
	switch {
	case err == nil:
		return b, true
	case errors.Is(err, admission.ErrBusy):
		refuse(q.w, err)
	case q.Context().Err() == nil:
		q.console.unrendered.Record("count", logrus.Fields{"err": err, "operation": operation})
		http.Error(q.w, "The page cannot be shown; the log of the daemon has the reason", http.StatusInternalServerError)
	}
	return b, false
}

// fail shows an error as a page. A failure of the server is logged. The script of a live page gets the code alone.
func (q *request) fail(err error) {
	known := pageErrorOf(err)
	if known.code >= http.StatusInternalServerError && !isAway(err) {
		q.console.failures.Record("count", logrus.Fields{"err": err, "request": q.Method + " " + q.URL.Path})
	}
	if q.Header.Get(liveHeader) != "" {
		q.w.WriteHeader(known.code)
		return
	}
	q.render(known.code, "error", view{Title: http.StatusText(known.code), Data: known})
}

// Code returns the HTTP status of the error, for the template. Text returns its text.
func (e *pageError) Code() int    { return e.code }
func (e *pageError) Text() string { return e.text }

// isAway reports whether the queue does not answer at present.
func isAway(err error) bool {
	var lost *luxiclient.ConnectionLostError
	return errors.As(err, &lost) || pageErrorOf(err).code == http.StatusServiceUnavailable
}

// writePart sends one template alone, without the frame of a page.
func (q *request) writePart(name string, data any) {
	b, ok := q.execute(name, name, data)
	if !ok {
		return
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = q.w.Write([]byte(visible(b.String()))) // a client that has gone gets no answer
}
