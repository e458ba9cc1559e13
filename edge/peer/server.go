package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
)

// Bounds of the time that requests take.
const (
	headerTimeout = 10 * time.Second
	headerMax     = 16 << 10 // bytes
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 60 * time.Second
	// sendTimeout is for the other node to take an answer, or sendChunk bytes of a long
	// one, after it was asked for or the part before.
	sendTimeout = 60 * time.Second
	sendChunk   = 64 << 10
)

// Backend is the daemon, which answers requests of other nodes. Its methods may be called from
// many goroutines, and end when their contexts do. Texts of errors go to the other node.
type Backend interface {
	About(ctx context.Context) (About, error)
	// Admit answers a request of the node that has this name by its certificate. It
	// may be one that was removed: its UUID is known then.
	Admit(ctx context.Context, r MembershipRequest) (Admission, error)
	// Files calls each for every file that all nodes have, and returns at its first error.
	Files(ctx context.Context, each func(FileDigest) error) error
}

// server answers requests of other nodes, and of nodes that are to join.
type server struct {
	listener *Listener
	backend  Backend
	log      *logrus.Logger
	mux      *http.ServeMux
}

// connKey is for the connection in a request's context.
type connKey struct{}

// Serve answers requests of ProtocolNode and ProtocolJoin, until Close.
func (l *Listener) Serve(backend Backend) error {
	s := &server{listener: l, backend: backend, log: l.options.Log, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST "+joinPath, s.join)
	s.mux.HandleFunc("POST "+memberPath, s.member)
	s.mux.HandleFunc("GET "+aboutPath, s.about)
	s.mux.HandleFunc("GET "+filesPath, s.files)
	hs := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: sendTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerMax, DisableGeneralOptionsHandler: true,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    stdlog.New(errorLog{s.log}, "", 0),
	}
	err := hs.Serve(l.listenerFor(ProtocolNode))
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, hs.Close())
}

// errorLog is the writer of net/http's error log: mostly panics of handlers.
type errorLog struct{ log *logrus.Logger }

func (l errorLog) Write(text []byte) (int, error) {
	l.log.WithField("err", string(text)).Warn("a request of another node")
	return len(text), nil
}

// ServeHTTP checks the permission of a request. With a token a node may join. A node with a
// certificate may ask to be a member. A member may do everything else.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*peerConn)
	if !ok {
		panic("peer: a request over a connection that the listener did not make")
	}
	name := PeerName(c)
	switch path := r.URL.Path; {
	case (c.protocol == ProtocolJoin) != (path == joinPath):
		writeError(w, http.StatusForbidden, errors.New("this connection is not for that"))
	case path != joinPath && path != memberPath && !s.listener.isMember(name):
		writeError(w, http.StatusForbidden, fmt.Errorf("node %s is no member of this cluster; it was removed, or has not been admitted yet", name))
	default:
		s.mux.ServeHTTP(w, r)
	}
}

func (s *server) member(w http.ResponseWriter, r *http.Request) {
	var request MembershipRequest
	if err := readBody(w, r, requestBodyMax, &request); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	claimed := Identity{Name: request.Name, UUID: request.UUID, Address: request.Address}
	if err := claimed.validate(); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	if name := PeerName(r.Context().Value(connKey{}).(*peerConn)); name != request.Name {
		writeError(w, http.StatusForbidden, fmt.Errorf("node %s cannot speak for node %s", name, request.Name))
		return
	}
	admission, err := s.backend.Admit(r.Context(), request)
	switch {
	case err != nil:
		writeError(w, http.StatusInternalServerError, err)
	case admission.Status == StatusNotMaster:
		writeJSON(w, http.StatusMisdirectedRequest, admission)
	default:
		writeJSON(w, http.StatusOK, admission)
	}
}

func (s *server) about(w http.ResponseWriter, r *http.Request) {
	about, err := s.backend.About(r.Context())
	if err != nil {
		writeError(w, http.StatusInternalServerError, err)
		return
	}
	writeJSON(w, http.StatusOK, about)
}

// files sends one line for each file. An error comes too late for another code: it is
// a line of its own, the last one.
func (s *server) files(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the request has been read; a long answer must not end it
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(deadlineWriter{w, control}, sendChunk)
	lines := json.NewEncoder(out)
	err := s.backend.Files(r.Context(), func(f FileDigest) error { return lines.Encode(fileLine{FileDigest: f}) })
	if err != nil {
		err = lines.Encode(fileLine{Error: err.Error()})
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		panic(http.ErrAbortHandler) // or the other node would take what it has for all
	}
}

// deadlineWriter gives the other node a while for each part of an answer.
type deadlineWriter struct {
	w       io.Writer
	control *http.ResponseController
}

func (w deadlineWriter) Write(data []byte) (int, error) {
	if err := w.control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return 0, err
	}
	n, err := w.w.Write(data)
	if err != nil {
		return n, err
	}
	return n, w.control.Flush()
}

// readBody decodes a request. From then on the connection's end is the only thing that
// ends it.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, value any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("the request is not what it should be: %w", err)
	}
	return nil
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // of types that can be encoded
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTimeout)) // from now on, not from the request on
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(encoded) // the connection's end tells the other node
}

func writeError(w http.ResponseWriter, code int, reason error) {
	writeJSON(w, code, errorBody{Error: reason.Error()})
}
