package conn

import (
	"encoding/json"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/wire"
	"lockstep/messages"
)

// Session serves one client, one request at a time. It owns the connection, the conversation about the current request
// and the decision to close. It belongs to the connection's actor.
type Session struct {
	Conversation

	conn    Conn
	log     *logrus.Logger
	method  string // of the current request, "" before the first one
	closing bool   // the next answer ends the session
}

// NewSession makes the session of a connection. It logs answers that cannot be encoded.
func NewSession(c Conn, log *logrus.Logger) *Session { return &Session{conn: c, log: log} }

// Serve lets requests arrive at the actor.
func (s *Session) Serve(ctx actor.Context) { s.conn.Serve(ctx.Self()) }

// Close closes the connection. The actor calls it when it stops.
func (s *Session) Close() { s.conn.Close() }

// Decode reads a request. It refuses a frame that is not one, and reports false.
func (s *Session) Decode(ctx actor.Context, m *Received) (wire.Request, bool) {
	request, err := wire.DecodeRequest(m.Frame)
	if err != nil {
		s.Refuse(ctx, err)
		return request, false
	}
	s.method = request.Method
	return request, true
}

// Reserve asks for memory for the answer to the current request (Conn.Reserve). false: there is none.
func (s *Session) Reserve(size int) bool { return s.conn.Reserve(size) }

// Answer sends a frame, in parts, as the answer to the current request, and ends the conversation about it.
func (s *Session) Answer(ctx actor.Context, parts ...[]byte) {
	s.End()
	s.conn.Answer(parts...)
	if s.closing {
		ctx.Stop(ctx.Self())
	}
}

// Succeed answers with a result. If it cannot be encoded, this is logged and the request fails.
func (s *Session) Succeed(ctx actor.Context, result any) {
	frame, err := wire.EncodeResult(result)
	if err != nil {
		s.log.WithFields(logrus.Fields{"method": s.method, "err": err}).Error("the result of a request cannot be encoded")
		s.Fail(ctx, messages.ProgrammerFailure("the answer cannot be encoded: "+err.Error()))
		return
	}
	s.Answer(ctx, frame)
}

// Fail answers with a Ganeti error: its class, its text and, if there is one, its code. The connection stays open
// (queue.md 1.3).
func (s *Session) Fail(ctx actor.Context, f *messages.Failure) {
	args := []any{f.Text}
	if f.Code != "" {
		args = append(args, f.Code)
	}
	if f.Details != nil {
		args = append(args, json.RawMessage(f.Details))
	}
	s.Answer(ctx, wire.EncodeError(f.Class, args...))
}

// Refuse answers a frame that is not a valid request, and ends the session: the frames that follow cannot be trusted
// (queue.md 1.3).
func (s *Session) Refuse(ctx actor.Context, err error) {
	s.closing = true
	s.Answer(ctx, wire.EncodeParseError("Failed to parse request: "+err.Error()))
}

// Drain ends an idle session. Otherwise the next answer ends it.
func (s *Session) Drain(ctx actor.Context) {
	s.closing = true
	if !s.Open() {
		ctx.Stop(ctx.Self())
	}
}
