// Package mond is MonD's side of the network (mond.md 1, 2 and 8): the reports of the collectors over HTTP, in Ganeti's formats,
// and the same values for Prometheus.
//
// It is an edge. It owns the HTTP connections and the last snapshot that the actor monitor has shown (Board). Every request is
// answered from that snapshot: no request waits for a collector, an actor or the configuration. Nothing of it survives a crash.
package mond

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/core/access"
	"lockstep/core/monitor"
	"lockstep/edge/admission"
	"lockstep/edge/login"
	"lockstep/edge/ratelog"
	"lockstep/edge/tlsserver"
)

// Bounds of connections and requests.
const (
	connectionsMax = 64
	headerTimeout  = 5 * time.Second
	streamsMax     = 8 // requests at a time on one connection of HTTP/2
)

// Board is the monitor.Board of a daemon: it keeps the last snapshot, from which the server answers.
type Board struct {
	last atomic.Pointer[monitor.Snapshot]
}

// NewBoard returns a Board that tells clients that nothing is known yet, until Show gives it a snapshot.
func NewBoard() *Board {
	b := &Board{}
	b.Show(&monitor.Snapshot{Listing: monitor.EncodeListing(nil)})
	return b
}

// Show is part of monitor.Board. It makes a snapshot the one that requests get from now on.
func (b *Board) Show(s *monitor.Snapshot) { b.last.Store(s) }

// Config has the listener, the logins and the limits of MonD's HTTP server.
type Config struct {
	Log      *logrus.Logger
	Listener net.Listener
	Board    *Board
	TLS      *tls.Config // nil: none
	// Logins are the users of the remote API. Without TLS a login is accepted from this machine only.
	Logins *login.Logins
	// Allow are the networks whose clients are served; nil: all.
	Allow []netip.Prefix
	// Hosts are the names, in lower case, that a request may call the server by; nil: any.
	Hosts []string
	// Collectors are further collectors for /metrics.
	Collectors []prometheus.Collector
	// Connections bounds the open connections; 0: 64.
	Connections int
	// Table is the budget that all listeners of the daemon share.
	Table *admission.Table
}

// Server is MonD's HTTP server. It is made by New, runs in Serve, and ends by Stop and Shutdown.
type Server struct {
	*tlsserver.Server
	config Config
	// metrics are the handlers of /metrics: without and with a login.
	metrics [2]http.Handler
	panics  *ratelog.Log
}

// New returns a Server over its listener. It answers no request before Serve.
func New(c Config) *Server {
	if c.Connections == 0 {
		c.Connections = connectionsMax
	}
	s := &Server{config: c}
	s.metrics = [2]http.Handler{newMetrics(c, false), newMetrics(c, true)}
	s.panics = ratelog.New(c.Log, logrus.ErrorLevel, "MonD: request handler panicked", "count")
	s.Server = tlsserver.NewServer(tlsserver.Config{
		Name:          "MonD",
		CutOff:        "requests to MonD were cut off",
		Log:           c.Log,
		Handler:       s,
		Listener:      &allowedListener{c.Listener, c.Allow},
		TLS:           c.TLS,
		Connections:   c.Connections,
		Streams:       streamsMax,
		HeaderTimeout: headerTimeout,
		Table:         c.Table,
	})
	return s
}

// allowedListener closes connections of clients that are not on the list before a byte is read.
type allowedListener struct {
	net.Listener
	allow []netip.Prefix // nil: all
}

func (l *allowedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.allow == nil || isAllowed(l.allow, c.RemoteAddr()) {
			return c, err
		}
		_ = c.Close()
	}
}

func isAllowed(allow []netip.Prefix, remote net.Addr) bool {
	address, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return false
	}
	for _, network := range allow {
		if network.Contains(address.Addr().Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, r := tlsserver.Begin(w, r, s.config.Table)
	w = q
	defer q.End() // when the answer is sent
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		if reason != http.ErrAbortHandler { //nolint:errorlint // the very value is the sign
			s.panics.Record("count", logrus.Fields{"err": fmt.Sprint(reason), "stack": string(debug.Stack())})
		}
		panic(http.ErrAbortHandler)
	}()
	h := w.Header()
	h.Set("Server", "lockstep")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		h.Set("Connection", "close") // a body is not read
		s.text(w, http.StatusMethodNotAllowed, "Only GET and HEAD are supported")
		return
	}
	if err := tlsserver.CheckHost("MonD", s.config.Hosts, r); err != nil {
		s.text(w, http.StatusForbidden, err.Error())
		return
	}
	if tlsserver.HasBody(r) {
		h.Set("Connection", "close") // it is not read
		s.text(w, http.StatusBadRequest, "This request has no body")
		return
	}
	isLoggedIn, refused := s.login(r)
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	if isLoggedIn {
		name, _, _ := r.BasicAuth()
		r = q.Login(admission.User(name), r)
	}
	if q.Admit() != nil {
		s.busy(w)
		return
	}
	q.Work()
	s.answer(w, r, isLoggedIn)
}

// busy answers a client that has used up its part of what all share.
func (s *Server) busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	s.text(w, http.StatusServiceUnavailable, "The daemon is busy with other requests; try again later")
}

// refusal is the answer to a login that is not accepted.
type refusal struct {
	code       int
	text       string // "": the name of the code
	retryAfter int    // seconds; 0: none
}

func (s *Server) refuse(w http.ResponseWriter, f *refusal) {
	if f.code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+login.Realm+`"`)
	}
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	s.text(w, f.code, cmp.Or(f.text, http.StatusText(f.code)))
}

// login reports whether the client has logged in as a user of the remote API who may read. A client without credentials has not,
// and is served.
func (s *Server) login(r *http.Request) (bool, *refusal) {
	if r.Header.Get("Authorization") == "" {
		return false, nil
	}
	if r.TLS == nil && !isLocal(r.RemoteAddr) {
		return false, &refusal{code: http.StatusForbidden, text: "A login needs TLS, since other machines could read the password"}
	}
	if s.config.Logins == nil {
		return false, &refusal{code: http.StatusUnauthorized}
	}
	_, user, err := s.config.Logins.Check(r)
	var many *login.TooManyError
	switch {
	case errors.As(err, &many):
		return false, &refusal{http.StatusTooManyRequests, many.Error(), many.RetryAfter}
	case err != nil:
		return false, &refusal{code: http.StatusUnauthorized}
	case user.Role() < access.Read:
		return false, &refusal{code: http.StatusForbidden}
	}
	return true, nil
}

func isLocal(remote string) bool {
	address, err := netip.ParseAddrPort(remote)
	return err == nil && address.Addr().Unmap().IsLoopback()
}

// pages are for monitoring systems. Ganeti has none of them.
func (s *Server) pages() map[string]func(w http.ResponseWriter, r *http.Request, login bool) {
	return map[string]func(w http.ResponseWriter, r *http.Request, login bool){
		"/metrics": s.scrape,
		"/healthz": s.healthz,
		"/readyz":  s.readyz,
	}
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request, _ bool) {
	s.json(w, http.StatusOK, []byte(`{"up":true}`))
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request, _ bool) {
	code, body := http.StatusOK, `{"ready":true}`
	if !s.config.Board.last.Load().Ready {
		code, body = http.StatusServiceUnavailable, `{"ready":false}`
	}
	s.json(w, code, []byte(body))
}

// Paths are paths that name all that MonD answers, in order, and paths that name nothing.
func Paths() []string {
	return append(slices.Sorted(maps.Keys((&Server{}).pages())), monitor.Paths()...)
}

func (s *Server) scrape(w http.ResponseWriter, r *http.Request, login bool) {
	handler := s.metrics[0]
	if login {
		handler = s.metrics[1]
	}
	if tlsserver.Scrape(w, r, s.config.Table, handler) != nil {
		s.busy(w)
	}
}

// answer answers a request for a page of lockstep, or for a resource of Ganeti's monitoring daemon from the last snapshot of the reports.
// Clients without a login see the public part.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, login bool) {
	if page, known := s.pages()[r.URL.Path]; known {
		page(w, r, login)
		return
	}
	snapshot := s.config.Board.last.Load()
	switch found, category, name := monitor.FindResource(r.URL.Path); found {
	case monitor.Versions:
		s.json(w, http.StatusOK, []byte("[1]"))
	case monitor.VersionRoot:
		s.json(w, http.StatusOK, []byte("null"))
	case monitor.Listing:
		s.json(w, http.StatusOK, snapshot.Listing)
	case monitor.AllReports:
		all := snapshot.AppendAll(nil, login)
		if admission.Take(r.Context(), len(all)) != nil {
			s.busy(w)
			return
		}
		s.json(w, http.StatusOK, all)
	case monitor.SingleReport:
		report := snapshot.Report(name)
		if report == nil || report.Collector.PathCategory() != category {
			s.text(w, http.StatusNotFound, monitor.NoReportText)
			return
		}
		s.json(w, http.StatusOK, report.For(login))
	case monitor.NoReport:
		s.text(w, http.StatusNotFound, monitor.NoReportText)
	default:
		s.text(w, http.StatusNotFound, monitor.NoResourceText)
	}
}

func (s *Server) json(w http.ResponseWriter, code int, data []byte) {
	s.send(w, code, "application/json", data)
}

func (s *Server) text(w http.ResponseWriter, code int, text string) {
	s.send(w, code, "text/plain; charset=utf-8", []byte(text))
}

func (s *Server) send(w http.ResponseWriter, code int, kind string, data []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(code)
	_, _ = w.Write(data) // a client that has gone gets no answer
}
