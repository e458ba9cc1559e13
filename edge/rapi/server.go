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
	"io"
	stdlog "log"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
)

// Bounds of connections and requests.
const (
	connectionsMax = 1000
	streamsMax     = 32 // requests at a time on one connection of HTTP/2
	requestsMax    = 2 * longCallsMax
	headerMax      = 16 << 10
	headerTimeout  = 10 * time.Second
	idleTimeout    = 60 * time.Second
	sendTimeout    = 30 * time.Second // for a client to take a part of an answer
	sendChunk      = 64 << 10
)

// Config is what the server needs.
type Config struct {
	Log      *logrus.Logger
	Listener net.Listener
	Luxi     Luxi
	Feed     *Feed
	TLS      *tls.Config // nil: none
	Users    string      // path of the users file
	// RequireAuthentication: a client without a login gets nothing about jobs.
	RequireAuthentication bool
	// Hosts are the names by which the server may be called, in lower case; nil: any.
	Hosts []string
	// AllowCommands: opcodes that run any command may be submitted.
	AllowCommands bool
	// Mailboxes and DeadLetters are what the actor system knows of itself.
	Mailboxes   func() []kit.MailboxStat
	DeadLetters func() uint64
	// Collectors are further collectors for /metrics.
	Collectors []prometheus.Collector
	// Connections bounds those at a time; 0: a thousand.
	Connections int
}

// Server answers requests.
type Server struct {
	config       Config
	http         *http.Server
	connLimiter  *connLimiter
	users        *usersFile
	logins       loginChecker
	loginLog     loginLog
	bodySlots    chan struct{} // one for each long body in memory
	requestSlots chan struct{} // one for each request in progress
	streamSlots  chan struct{} // one for each stream of events
	metrics      *metrics
	openapi      []byte
	stopping     chan struct{}
}

// New makes a server.
func New(c Config) (*Server, error) {
	document, err := openAPIDocument()
	if err != nil {
		return nil, err
	}
	if c.Connections == 0 {
		c.Connections = connectionsMax
	}
	s := &Server{config: c, connLimiter: newConnLimiter(c.Listener, c.Connections), users: newUsersFile(c.Users, c.Log), openapi: document,
		logins: loginChecker{throttle: newThrottle(countersMax)}, loginLog: loginLog{log: c.Log},
		bodySlots: make(chan struct{}, largeBodiesMax), requestSlots: make(chan struct{}, requestsMax),
		streamSlots: make(chan struct{}, eventStreamsMax), stopping: make(chan struct{})}
	s.metrics = newMetrics(s)
	s.http = &http.Server{
		Handler: s, TLSConfig: c.TLS, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerMax,
		DisableGeneralOptionsHandler: true,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: streamsMax, SendPingTimeout: idleTimeout},
		ErrorLog:                     stdlog.New(errorLog{c.Log}, "", 0),
		ConnState:                    s.connLimiter.onStateChange,
	}
	return s, nil
}

// errorLog is the writer of net/http's error log, which is about clients.
type errorLog struct{ log *logrus.Logger }

func (l errorLog) Write(text []byte) (int, error) {
	l.log.WithField("err", string(text)).Debug("a client of the remote API")
	return len(text), nil
}

// Serve answers what comes over the listener, until Stop.
func (s *Server) Serve() error {
	_ = s.users.current() // to complain now, not at the first login
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

// Stop takes no more connections, and ends the requests that only wait for
// something to happen. It is called once; Shutdown waits for the others.
func (s *Server) Stop() {
	close(s.stopping)
	s.http.SetKeepAlivesEnabled(false)
	_ = s.connLimiter.Close() // Serve says what there is to say
}

// Shutdown returns when all requests have been answered, or when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests over the remote API were cut off: %w", err), s.http.Close())
	}
	return err
}

// call is one request.
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
			s.config.Log.WithFields(logrus.Fields{"op": recorder.operation, "err": fmt.Sprint(reason), "stack": string(debug.Stack())}).
				Error("a request over the remote API has crashed")
			if recorder.code != 0 {
				panic(http.ErrAbortHandler) // it is too late for another answer
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
	_ = control.SetWriteDeadline(time.Time{})           // the former answer's on this connection
	if err := s.checkOrigin(r); err != nil {
		s.answerFailure(recorder, asFailure(err))
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
		// It has been read, such as it is: a read that is due later would end the request.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	result, err := operation.serve(s, &call{w, r, params, body, user})
	s.reply(w, result, err)
	if operation.access == accessWrite && !isReadOnly(r.Method) {
		// Its error is not logged: it may quote what the client has sent.
		s.config.Log.WithFields(logrus.Fields{"user": user, "from": sourceAddress(r), "op": r.Method + " " + r.URL.Path, "code": w.code}).
			Info("a request over the remote API")
	}
}

// responseRecorder remembers what was answered.
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

// deadlineWriter writes an answer in chunks, with a deadline for each. A client may take long
// for the whole answer, and loses the connection if it takes too long for one chunk.
type deadlineWriter struct {
	w       io.Writer
	control *http.ResponseController
}

func (w deadlineWriter) Write(data []byte) (written int, err error) {
	for len(data) > 0 {
		part := data[:min(len(data), sendChunk)]
		if err := w.control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
			return written, err
		}
		n, err := w.w.Write(part)
		written += n
		if err != nil {
			return written, err
		}
		data = data[n:]
	}
	return written, nil
}
