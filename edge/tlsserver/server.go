package tlsserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/edge/admission"
)

// Bounds of all servers.
const (
	headerMax   = 16 << 10
	idleTimeout = 60 * time.Second
)

// Config has the listener, the handler and the bounds of a HTTP server.
type Config struct {
	Name     string // of the server, in the log
	CutOff   string // what is said of requests that are cut off
	Log      *logrus.Logger
	Handler  http.Handler
	Listener net.Listener
	TLS      *tls.Config // nil: none
	// Connections bounds the open connections.
	Connections int
	// Streams bounds the requests at a time on one connection of HTTP/2.
	Streams int
	// HeaderTimeout is how long a client may take to send the header of a request.
	HeaderTimeout time.Duration
	// Table is the budget that all listeners of the daemon share.
	Table *admission.Table
}

// Server is a HTTP server with a bound of its connections, with or without TLS. It is made by NewServer, runs in Serve, and ends by Stop
// and Shutdown.
type Server struct {
	cutOff string
	tls    bool
	http   *http.Server
	conns  *Conns
}

// NewServer makes a server of HTTP with bounded connections. Nothing is served before Serve.
func NewServer(c Config) *Server {
	conns := NewConns(c.Listener, c.Connections, c.Table)
	return &Server{cutOff: c.CutOff, tls: c.TLS != nil, conns: conns, http: &http.Server{
		Handler: c.Handler, TLSConfig: c.TLS, ReadHeaderTimeout: c.HeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerMax,
		DisableGeneralOptionsHandler: true,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: c.Streams, SendPingTimeout: idleTimeout},
		ErrorLog:                     ErrorLog(c.Log, logrus.DebugLevel, c.Name+": connection failed"),
		ConnState:                    conns.OnStateChange,
		ConnContext:                  conns.ConnContext,
	}}
}

// Connections is the number of open connections.
func (s *Server) Connections() int { return s.conns.Count() }

// Serve answers requests over the listener until Stop, which is no error.
func (s *Server) Serve() error {
	var err error
	if s.tls {
		err = s.http.ServeTLS(s.conns, "", "")
	} else {
		err = s.http.Serve(s.conns)
	}
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Stop accepts no more connections. It is called once. Shutdown waits for the requests.
func (s *Server) Stop() {
	s.http.SetKeepAlivesEnabled(false)
	_ = s.conns.Close() // Serve returns the error
}

// Shutdown returns when all requests have been answered. When ctx ends first, it cuts the others off and returns an error.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("%s: %w", s.cutOff, err), s.http.Close())
	}
	return err
}
