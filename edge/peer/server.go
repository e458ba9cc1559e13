package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/edge/admission"
	"lockstep/edge/ratelog"
	"lockstep/edge/tlsserver"
)

// Bounds of one request.
const (
	headerTimeout = 10 * time.Second
	headerMax     = 16 << 10 // bytes
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 60 * time.Second
	// sendTimeout is the time in which the other node must take a short answer, or one chunk
	// of a long one.
	sendTimeout = 60 * time.Second
)

// Backend is the part of the daemon that answers requests of other nodes. Its methods may be
// called from many goroutines, and return when their contexts end. The texts of errors are sent
// to the other node.
type Backend interface {
	About(ctx context.Context) (About, error)
	// Admit answers a request for membership. The certificate has proved the node's name. If the
	// node was removed, its UUID is known.
	Admit(ctx context.Context, r MembershipRequest) (Admission, error)
	// Files calls each for every file that all nodes have, or for those of only that exist, and returns at its first error.
	// No only: all files.
	Files(ctx context.Context, only []string, each func(FileDigest) error) error
	// ReloadOpcodes reads the node's files of declared opcodes again, and returns the number of declared opcodes.
	ReloadOpcodes(ctx context.Context) (declared int, err error)
}

// server answers requests of members and of nodes that join.
type server struct {
	listener *Listener
	backend  Backend
	log      *logrus.Logger
	mux      *http.ServeMux
	refusals *ratelog.Log // of join requests with a wrong token
	failures *ratelog.Log // of join requests that meet tokens which cannot be read
}

// connKey is the key of the connection in a request's context.
type connKey struct{}

// Serve answers requests of ProtocolNode and ProtocolJoin until the listener is closed, which is no error.
func (l *Listener) Serve(backend Backend) error {
	s := &server{listener: l, backend: backend, log: l.options.Log, mux: http.NewServeMux(),
		refusals: ratelog.New(l.options.Log, logrus.WarnLevel, "join request refused", "refused"),
		failures: ratelog.New(l.options.Log, logrus.ErrorLevel, "join tokens cannot be read; join request refused", "refused")}
	s.mux.HandleFunc("POST "+joinPath, s.join)
	s.mux.HandleFunc("POST "+memberPath, s.member)
	s.mux.HandleFunc("GET "+aboutPath, s.about)
	s.mux.HandleFunc("GET "+filesPath, s.files)
	s.mux.HandleFunc("POST "+opcodesPath, s.reloadOpcodes)
	hs := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: sendTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerMax, DisableGeneralOptionsHandler: true,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    tlsserver.ErrorLog(s.log, logrus.WarnLevel, "port of nodes: request failed"),
	}
	err := hs.Serve(l.listenerFor(ProtocolNode))
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, hs.Close())
}

// ServeHTTP checks the permission of a request. A node with a join token may join. A node with a
// certificate may ask to be admitted. A member may send every request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*peerConn)
	if !ok {
		panic("peer: a request over a connection that the listener did not make")
	}
	if c.protocol == ProtocolJoin {
		w.Header().Set("Connection", "close") // a guess of a token costs a connection
	}
	name := PeerName(c)
	switch path := r.URL.Path; {
	case (c.protocol == ProtocolJoin) != (path == joinPath):
		writeError(w, http.StatusForbidden, errors.New("a connection of this protocol may not send this request"))
	case path != joinPath && path != memberPath && !s.listener.isMember(name):
		writeError(w, http.StatusForbidden,
			fmt.Errorf("node %s is no member of this cluster; it was removed, or has not been admitted yet", name))
	default:
		s.mux.ServeHTTP(w, r)
	}
}

func (s *server) member(w http.ResponseWriter, r *http.Request) {
	var request MembershipRequest
	release, ok := readBody(w, r, requestBodyMax, &request)
	defer release()
	if !ok {
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

func (s *server) reloadOpcodes(w http.ResponseWriter, r *http.Request) {
	declared, err := s.backend.ReloadOpcodes(r.Context())
	if err != nil {
		writeError(w, http.StatusUnprocessableEntity, err)
		return
	}
	writeJSON(w, http.StatusOK, declaredOpcodes{declared})
}

// files sends one line for each file. The code 200 is sent before an error can happen, so an
// error is the last line.
func (s *server) files(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the request has been read; its deadline must not end a long answer
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(tlsserver.StreamWriter{Response: w, Timeout: sendTimeout}, tlsserver.ChunkSize)
	lines := json.NewEncoder(out)
	err := s.backend.Files(r.Context(), r.URL.Query()[onlyParameter],
		func(f FileDigest) error { return lines.Encode(fileLine{FileDigest: f}) })
	if err != nil {
		err = lines.Encode(fileLine{Error: err.Error()})
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		panic(http.ErrAbortHandler) // the other node must not take an incomplete list for a complete one
	}
}

// readBody decodes a request, and removes the deadline for reading: afterwards only the end of
// the connection ends the request. The memory of the body counts for the client until release. If ok is false, it has answered with an
// error.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, value any) (release func(), ok bool) {
	c := r.Context().Value(connKey{}).(*peerConn)
	share := c.listener.options.Table.Share(c.budgetClient(), c.abort)
	err := decodeBody(w, r, share, limit, value)
	switch {
	case errors.Is(err, admission.ErrBusy):
		w.Header().Set("Retry-After", "5")
		writeError(w, http.StatusServiceUnavailable, err)
	case err != nil:
		writeError(w, http.StatusBadRequest, err)
	}
	return share.End, err == nil
}

func decodeBody(w http.ResponseWriter, r *http.Request, share *admission.Share, limit int64, value any) error {
	share.Receive()
	if err := share.Grow(int(limit)); err != nil {
		return err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if kept := share.Keep(); kept != nil {
		return kept
	}
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("decode the request: %w", err)
	}
	return nil
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // value has only types that can be encoded
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTimeout)) // the time starts with the answer, not with the request
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(encoded) // the connection's end tells the other node
}

func writeError(w http.ResponseWriter, code int, reason error) {
	writeJSON(w, code, errorBody{Error: reason.Error()})
}
