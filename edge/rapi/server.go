// Package rapi is the remote API over HTTP: Ganeti's RAPI below /2 (queue.md 6), and
// lockstep's own below /3.
//
// It is an edge, not an actor. It owns the HTTP connections, the counters of failed logins
// and the last events (Feed). A request becomes calls to the LUXI gateway in the same
// process. The events actor publishes events through the port events.Feed.
//
// Nothing of it survives a crash. Users are read from a file of the operator; rules and jobs
// belong to actors.
package rapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/edge/tlsserver"
)

// Bounds of connections and requests.
const (
	connectionsMax = 1000
	streamsMax     = 32 // requests at a time on one connection of HTTP/2
	requestsMax    = 2 * longCallsMax
	headerMax      = 16 << 10
	headerTimeout  = 10 * time.Second
	idleTimeout    = 60 * time.Second
	sendTimeout    = 30 * time.Second // for a client to take one chunk of an answer
)

// Config is the configuration of a server.
type Config struct {
	Log      *logrus.Logger
	Listener net.Listener
	Luxi     Luxi
	Feed     *Feed       // nil: the server has no events
	TLS      *tls.Config // nil: none
	Logins   *Logins
	// RequireAuthentication refuses clients without a login everything about jobs.
	RequireAuthentication bool
	// Hosts are the names, in lower case, that a request may call the server by; nil: any.
	Hosts []string
	// AllowCommands permits submission of opcodes that run arbitrary commands.
	AllowCommands bool
	// Mailboxes and DeadLetters are statistics of the actor system.
	Mailboxes   func() []kit.MailboxStat
	DeadLetters func() uint64
	// Collectors are further collectors for /metrics.
	Collectors []prometheus.Collector
	// Console serves /ui/; nil: there is none.
	Console http.Handler
	// Connections bounds the open connections; 0: 1000.
	Connections int
}

// Server is the HTTP server of the remote API. It is made by New, runs in Serve, and ends by Stop
// and Shutdown.
type Server struct {
	config       Config
	http         *http.Server
	connLimiter  *tlsserver.ConnLimiter
	logins       *Logins
	bodySlots    chan struct{} // one for each long body in memory
	requestSlots chan struct{} // one for each request in progress
	streamSlots  chan struct{} // one for each stream of events
	logSlots     chan struct{} // one for each stream of a log
	metrics      *metrics
	openapi      []byte
	stopping     chan struct{}
}

// New makes a server. Nothing is served before Serve.
func New(c Config) (*Server, error) {
	document, err := openAPIDocument()
	if err != nil {
		return nil, err
	}
	if c.Connections == 0 {
		c.Connections = connectionsMax
	}
	s := &Server{config: c, connLimiter: tlsserver.NewConnLimiter(c.Listener, c.Connections), logins: c.Logins, openapi: document,
		bodySlots: make(chan struct{}, largeBodiesMax), requestSlots: make(chan struct{}, requestsMax),
		streamSlots: make(chan struct{}, eventStreamsMax), logSlots: make(chan struct{}, logStreamsMax), stopping: make(chan struct{})}
	s.metrics = newMetrics(s)
	s.http = &http.Server{
		Handler: s, TLSConfig: c.TLS, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerMax,
		DisableGeneralOptionsHandler: true,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: streamsMax, SendPingTimeout: idleTimeout},
		ErrorLog:                     tlsserver.ErrorLog(c.Log, logrus.DebugLevel, "remote API: connection failed"),
		ConnState:                    s.connLimiter.OnStateChange,
	}
	return s, nil
}

// Serve answers requests over the listener until Stop.
func (s *Server) Serve() error {
	s.logins.Load() // logs errors of the users file now and not at the first login
	var err error
	if s.config.TLS != nil {
		err = s.http.ServeTLS(s.connLimiter, "", "")
	} else {
		err = s.http.Serve(s.connLimiter)
	}
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Stop accepts no more connections, and ends the requests that only wait for an event. It is
// called once. Shutdown waits for the other requests.
func (s *Server) Stop() {
	close(s.stopping)
	s.http.SetKeepAlivesEnabled(false)
	_ = s.connLimiter.Close() // Serve returns the error
}

// Shutdown returns when all requests have been answered. When ctx ends first, it cuts the others
// off and returns an error.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests over the remote API were cut off: %w", err), s.http.Close())
	}
	return err
}

// call is one request with its parameters, body and user.
type call struct {
	http.ResponseWriter
	*http.Request
	params map[string]string
	body   raw
	user   string
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	recorder := &responseRecorder{ResponseWriter: w, operation: "unknown"}
	defer func() {
		reason := recover()
		if reason == http.ErrAbortHandler { //nolint:errorlint // the very value is the sign
			s.metrics.observe(recorder.operation, r.Method, recorder.code, time.Since(begin))
			panic(reason)
		}
		if reason != nil {
			s.config.Log.WithFields(logrus.Fields{"operation": recorder.operation, "err": fmt.Sprint(reason), "stack": string(debug.Stack())}).
				Error("remote API: request handler panicked")
			if recorder.code != 0 {
				panic(http.ErrAbortHandler) // the code has been sent; only the connection can be ended
			}
			s.answerFailure(recorder, errInternal)
		}
		s.metrics.observe(recorder.operation, r.Method, recorder.code, time.Since(begin))
	}()
	w.Header().Set("Server", "lockstep")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(begin.Add(bodyTimeout)) // for the body, if there is one
	_ = control.SetWriteDeadline(time.Time{})           // remove the deadline of the previous answer on this connection
	if err := s.checkOrigin(r); err != nil {
		s.answerFailure(recorder, asFailure(err))
		return
	}
	if s.serveConsole(recorder, r) {
		return
	}
	operation, params, err := findOperation(r.Method, r.URL.EscapedPath())
	if err != nil {
		s.answerFailure(recorder, asFailure(err))
		return
	}
	recorder.operation = operation.name
	user, err := s.login(r, operation.access)
	if err != nil {
		s.answerFailure(recorder, asFailure(err))
		return
	}
	select {
	case s.requestSlots <- struct{}{}:
		defer func() { <-s.requestSlots }()
	default:
		s.answerFailure(recorder, &Failure{Code: http.StatusServiceUnavailable, Message: "Too many requests at a time; try again later", RetryAfter: 5})
		return
	}
	s.serveOperation(recorder, r, operation, params, user)
}

// serveOperation runs the operation of an authorised request.
func (s *Server) serveOperation(w *responseRecorder, r *http.Request, operation operation, params map[string]string, user string) {
	body, done, err := s.readBody(w.ResponseWriter, r)
	defer done()
	if err != nil {
		s.answerFailure(w, asFailure(err))
		return
	}
	if body == nil {
		// The body has been read, even if it is empty: the read deadline must not end the
		// request.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	result, err := operation.serve(s, &call{w, r, params, body, user})
	s.reply(w, result, err)
	if operation.access == accessWrite && !isReadOnly(r.Method) {
		// The error is not logged: it may quote what the client has sent.
		s.config.Log.WithFields(logrus.Fields{"user": user, "address": sourceAddress(r), "request": r.Method + " " + r.URL.Path, "code": w.code}).
			Info("remote API: request answered")
	}
}

// responseRecorder records the code of the answer.
type responseRecorder struct {
	http.ResponseWriter
	operation string
	code      int
}

// WriteHeader is part of http.ResponseWriter.
func (w *responseRecorder) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (w *responseRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// withDeadline returns a writer of an answer that ends a connection whose client is too slow.
func withDeadline(w http.ResponseWriter) tlsserver.DeadlineWriter {
	return tlsserver.DeadlineWriter{Response: w, Timeout: sendTimeout}
}
