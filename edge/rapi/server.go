// Package rapi is the remote API over HTTP: Ganeti's RAPI below /2 (queue.md 6), and
// lockstep's own below /3.
//
// It is an edge, not an actor. It owns the HTTP connections and the last events (Feed). A request
// becomes calls to the LUXI gateway in the same process. The events actor publishes events through
// the port events.Feed.
//
// Nothing of it survives a crash. The users belong to edge/login; rules and jobs belong to actors.
package rapi

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/edge/admission"
	"lockstep/edge/login"
	"lockstep/edge/ratelog"
	"lockstep/edge/tlsserver"
)

// Bounds of connections and requests.
const (
	connectionsMax = 1000
	streamsMax     = 32 // requests at a time on one connection of HTTP/2
	headerTimeout  = 10 * time.Second
	sendTimeout    = 30 * time.Second // for a client to take one chunk of a stream
)

// Config has the listener, the calls, the logins and the limits of the server of the remote API.
type Config struct {
	Log      *logrus.Logger
	Listener net.Listener
	Luxi     LargeLuxi
	Output   OpenOutput  // nil: the log of a job is all of its output
	Feed     *Feed       // nil: the server has no events
	TLS      *tls.Config // nil: none
	Logins   *login.Logins
	// RequireAuthentication refuses clients without a login everything about jobs.
	RequireAuthentication bool
	// Hosts are the names, in lower case, that a request may call the server by; nil: any.
	Hosts []string
	// Ganeti says that the queue executes Ganeti's opcodes. Otherwise a GET that submits such a job is refused.
	Ganeti bool
	// Commands are those that users may submit.
	Commands login.Commands
	// OverSocket says that the queue learns only of this process who asks, not of its users. So it cannot tell whose a job is.
	OverSocket bool
	// Mailboxes and DeadLetters are statistics of the actor system.
	Mailboxes   func() []kit.MailboxStat
	DeadLetters func() uint64
	// Collectors are further collectors for /metrics.
	Collectors []prometheus.Collector
	// Console serves /ui/; nil: there is none.
	Console http.Handler
	// Connections bounds the open connections; 0: 1000.
	Connections int
	// Heartbeat is how often a stream shows that it is there, and its user is looked up again; 0: 15 s.
	Heartbeat time.Duration
	// Table is the budget that all listeners of the daemon share.
	Table *admission.Table
}

// Server is the HTTP server of the remote API. It is made by New, runs in Serve, and ends by Stop
// and Shutdown.
type Server struct {
	*tlsserver.Server
	config     Config
	gate       *gate
	replier    *replier
	streams    *admission.Slots // of events
	logStreams *admission.Slots
	metrics    *metrics
	openapi    []byte
	stopping   chan struct{}
	after      func(time.Duration) <-chan time.Time // of followers of output
	panics     *ratelog.Log
}

// New returns a Server over its listener. It answers no request before Serve.
func New(c Config) (*Server, error) {
	document, err := openAPIDocument()
	if err != nil {
		return nil, err
	}
	if c.Connections == 0 {
		c.Connections = connectionsMax
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = heartbeatInterval
	}
	s := &Server{config: c, openapi: document,
		streams: admission.NewSlots(eventStreamsMax), logStreams: admission.NewSlots(logStreamsMax), stopping: make(chan struct{}),
		after: time.After}
	s.replier = &replier{c.Table, ratelog.New(c.Log, logrus.ErrorLevel, "remote API: request failed", "count")}
	s.panics = ratelog.New(c.Log, logrus.ErrorLevel, "remote API: request handler panicked", "count")
	s.metrics = newMetrics(s)
	s.gate = &gate{logins: c.Logins, required: c.RequireAuthentication, failed: s.metrics.logins, overSocket: c.OverSocket}
	s.Server = tlsserver.NewServer(tlsserver.Config{
		Name:          "remote API",
		CutOff:        "requests over the remote API were cut off",
		Log:           c.Log,
		Handler:       s,
		Listener:      c.Listener,
		TLS:           c.TLS,
		Connections:   c.Connections,
		Streams:       streamsMax,
		HeaderTimeout: headerTimeout,
		Table:         c.Table,
	})
	return s, nil
}

// Serve answers requests over the listener until Stop.
func (s *Server) Serve() error {
	s.config.Logins.Load() // logs errors of the users file now and not at the first login
	return s.Server.Serve()
}

// Stop accepts no more connections, and ends the requests that only wait for an event. It is
// called once. Shutdown waits for the other requests.
func (s *Server) Stop() {
	close(s.stopping)
	s.Server.Stop()
}

// call is one request with its parameters, body and user.
type call struct {
	http.ResponseWriter
	*http.Request
	params    map[string]string
	body      raw
	user      login.User // who has logged in; zero: a guest
	operation operation
	request   *tlsserver.Request
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	request, r := tlsserver.Begin(w, r, s.config.Table)
	defer request.End() // when the answer is sent
	recorder := &responseRecorder{ResponseWriter: request, request: request, operation: "unknown"}
	defer func() {
		reason := recover()
		if reason == http.ErrAbortHandler { //nolint:errorlint // the very value is the sign
			s.metrics.observe(recorder.operation, r.Method, recorder.code, time.Since(begin))
			panic(reason)
		}
		if reason != nil {
			s.panics.Record("count", logrus.Fields{"operation": recorder.operation, "err": fmt.Sprint(reason), "stack": string(debug.Stack())})
			if recorder.code != 0 {
				panic(http.ErrAbortHandler) // the code has been sent; only the connection can be ended
			}
			answerFailure(recorder, errInternal)
		}
		s.metrics.observe(recorder.operation, r.Method, recorder.code, time.Since(begin))
	}()
	w.Header().Set("Server", "lockstep")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if err := s.checkOrigin(r); err != nil {
		answerFailure(recorder, asFailure(err))
		return
	}
	if s.serveConsole(recorder, r) {
		return
	}
	operation, params, err := findOperation(r.Method, r.URL.EscapedPath())
	if err != nil {
		answerFailure(recorder, asFailure(err))
		return
	}
	recorder.operation = operation.name
	if operation.changes(r) {
		err = checkSite(r)
	}
	var user login.User
	if err == nil {
		user, err = s.gate.authorize(r, &operation)
	}
	if err == nil && operation.submits && !s.config.Ganeti {
		err = newFailure(
			http.StatusNotImplemented,
			"%s %s submits a job of Ganeti, which runs in the place of Ganeti's daemons only: see lockstepd --ganeti",
			r.Method,
			tlsserver.Truncated(r.URL.Path),
		)
	}
	if err != nil {
		answerFailure(recorder, asFailure(err))
		return
	}
	if user.Name() != "" {
		r = request.Login(admission.User(user.Name()), r)
	}
	if err := request.Admit(); err != nil {
		answerFailure(recorder, asFailure(err))
		return
	}
	s.serveOperation(recorder, &call{recorder, r, params, nil, user, operation, request})
}

// serveOperation reads the body and runs the operation of an authorised request. A change is logged with its user.
func (s *Server) serveOperation(w *responseRecorder, c *call) {
	r, operation := c.Request, &c.operation
	var err error
	if c.body, err = readBody(c.request, r, operation.takesBody || !isReadOnly(r.Method)); err != nil {
		w.Header().Set("Connection", "close") // the rest of the body is not read
		answerFailure(w, asFailure(err))
		return
	}
	c.request.Work()
	result, err := operation.serve(s, c)
	s.replier.reply(w, result, err)
	if operation.changes(r) {
		// The error is not logged: it may quote what the client has sent.
		s.config.Log.WithFields(logrus.Fields{
			"user":    c.user.Name(),
			"address": tlsserver.RemoteHost(r),
			"request": r.Method + " " + r.URL.Path,
			"code":    w.code,
		}).Info("remote API: request answered")
	}
}

// responseRecorder records the code of the answer.
type responseRecorder struct {
	http.ResponseWriter
	request   *tlsserver.Request
	operation string
	code      int
}

// WriteHeader is part of http.ResponseWriter. It also notes the first status code, for the log and the metrics.
func (w *responseRecorder) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (w *responseRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// streamTo returns a writer of a stream that ends a connection whose client is too slow.
func streamTo(w http.ResponseWriter) tlsserver.StreamWriter {
	return tlsserver.StreamWriter{Response: w, Timeout: sendTimeout}
}
