// Package sessions is the actor that keeps the sessions of the console and its one-time login links.
//
// It owns sessions.json, the table of sessions (package session). In a cluster all nodes share the file, like the settings, so that a
// session outlives its master. It takes Call, with one of the operations below. It answers an opened and an ended session when the
// store has written the table; the note of a later use is not waited for.
//
// A crash loses the links, which are valid for a minute, and the notes on their way. The next incarnation reads the file.
package sessions

import (
	"encoding/base64"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/paths"
	"lockstep/core/session"
	"lockstep/messages"
)

// tokenOctets is the length of the token of a link: 256 bits.
const tokenOctets = 32

// Call asks the actor for one operation on sessions of the console or on login links. CallResult answers it.
type Call struct {
	Request   uint64
	Operation Operation
}

// Operation is what a Call does: MakeLink, Redeem, Open, Check or End.
type Operation interface{ isOperation() }

// The operations.
type (
	// MakeLink makes a one-time login link that opens a session, whose hash is not known yet.
	MakeLink struct{ Opens session.Session }
	// Redeem consumes the login link whose token has the hash Link, and opens its session with the hash Session.
	Redeem struct{ Link, Session string }
	// Open makes a session of the console valid, for a user who has logged in.
	Open struct{ Session session.Session }
	// Check asks whether a session is valid, and for whom. The session counts as used now.
	Check struct{ Hash string }
	// End makes a session invalid, after a logout.
	End struct{ Hash string }
)

func (MakeLink) isOperation() {}
func (Redeem) isOperation()   {}
func (Open) isOperation()     {}
func (Check) isOperation()    {}
func (End) isOperation()      {}

// CallResult answers a Call. Valid: there is such a session or link. Token is that of a new link.
type CallResult struct {
	Request uint64
	Valid   bool
	Session session.Session
	Token   string
	Failure *messages.Failure
}

// GetRequest is the number of the request.
func (r *CallResult) GetRequest() uint64 { return r.Request }

// GetFailure is the error, nil if there is none.
func (r *CallResult) GetFailure() *messages.Failure { return r.Failure }

// Config has the neighbours and ports of the actor that keeps the console's sessions.
type Config struct {
	Env    *kit.Env
	Store  *actor.PID
	Random func(count int) []byte // unpredictable octets
}

// Props describes the actor that keeps the console's sessions and is the only writer of sessions.json.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "sessions", func(incarnation uint32) actor.Actor {
		return &sessions{config: c, store: store.NewClient(c.Store, incarnation)}
	})
}

// question is a Call that may have to wait.
type question = kit.Deferral[*Call]

type sessions struct {
	config Config
	store  *store.Client

	loaded  bool
	table   session.Table // in force: what the disk has, or newer notes of uses
	links   session.Links
	writing bool                // a write is on its way
	waiting kit.Deferred[*Call] // until the table is read, or the write on its way has ended
}

// readAgain is a timer: the table could not be read.
type readAgain struct{}

func (s *sessions) Receive(ctx actor.Context) {
	if s.store.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.store.Connect(ctx)
		s.load(ctx)
	case *readAgain:
		s.load(ctx)
	case *Call:
		s.take(ctx, question{Message: m, Sender: ctx.Sender()})
	default:
		kit.Unexpected(ctx)
	}
}

const readPause = time.Second

func (s *sessions) load(ctx actor.Context) {
	s.store.Read(ctx, "sessions", paths.SessionsPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			s.config.Env.Log().WithField("err", m.Failure.Text).Error("sessions of the console cannot be read; reading them again")
			kit.SendAfter(s.config.Env.Clock(), ctx.ActorSystem(), readPause, ctx.Self(), &readAgain{})
			return
		}
		table, err := session.Decode(m.Content)
		if err != nil {
			s.config.Env.Log().WithField("err", err).Error("sessions of the console cannot be used; their users log in again")
		}
		s.table, s.loaded = table, true
		s.takeWaiting(ctx)
	})
}

// take carries out an operation, in the order of arrival: each waits for the write before it. A change is answered when it is written.
func (s *sessions) take(ctx actor.Context, q question) {
	if !s.loaded || s.writing {
		s.waiting = append(s.waiting, q)
		return
	}
	now := s.config.Env.Clock().Now()
	switch op := q.Message.Operation.(type) {
	case MakeLink:
		token := s.config.Random(tokenOctets)
		s.links.Add(token, op.Opens, now)
		s.answer(ctx, q, CallResult{Valid: true, Token: base64.RawURLEncoding.EncodeToString(token)})
	case Redeem:
		opened, ok := s.links.Take(op.Link, now)
		if !ok {
			s.answer(ctx, q, CallResult{})
			return
		}
		opened.Hash = op.Session
		s.open(ctx, q, opened, now)
	case Open:
		s.open(ctx, q, op.Session, now)
	case Check:
		found, noted, changed, ok := s.table.Find(op.Hash, now)
		s.answer(ctx, q, CallResult{Valid: ok, Session: found})
		if changed {
			s.write(ctx, noted, func(actor.Context, *messages.Failure) {})
		}
	case End:
		next, ended := s.table.End(op.Hash, now)
		if !ended {
			s.answer(ctx, q, CallResult{})
			return
		}
		s.write(ctx, next, func(ctx actor.Context, f *messages.Failure) {
			s.answer(ctx, q, CallResult{Valid: f == nil, Failure: f})
		})
	}
}

func (s *sessions) open(ctx actor.Context, q question, opened session.Session, now time.Time) {
	if err := opened.Validate(); err != nil {
		s.answer(ctx, q, CallResult{Failure: messages.Generic(err)})
		return
	}
	s.write(ctx, s.table.Open(opened, now), func(ctx actor.Context, f *messages.Failure) {
		s.answer(ctx, q, CallResult{Valid: f == nil, Session: opened, Failure: f})
	})
}

func (s *sessions) answer(ctx actor.Context, q question, a CallResult) {
	a.Request = q.Message.Request
	ctx.Send(q.Sender, &a)
}

// write writes a table, which is in force when it is on the disk. After a failed write the former table stays in force, unless the
// disk has the new one, which the next start finds out.
func (s *sessions) write(ctx actor.Context, next session.Table, then func(actor.Context, *messages.Failure)) {
	s.writing = true
	file := &messages.FileWrite{Op: "sessions", Path: paths.SessionsPath, Content: next.Encode()}
	write := &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true}
	s.store.Write(ctx, write, func(ctx actor.Context, m *messages.ChangeFilesResult) {
		s.writing = false
		if len(m.Failures) > 0 {
			then(ctx, m.Failures[0].Failure)
		} else {
			s.table = next
			then(ctx, nil)
		}
		s.takeWaiting(ctx)
	})
}

// takeWaiting carries out waiting operations in their order, until one of them writes.
func (s *sessions) takeWaiting(ctx actor.Context) {
	for len(s.waiting) > 0 && !s.writing {
		next := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.take(ctx, next)
	}
}
