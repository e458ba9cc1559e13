package objects

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/actors/sessions"
	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/session"
	"lockstep/core/wire"
	"lockstep/messages"
)

// askSessions makes a call to the sessions of the console. A link or a session that a restart has made twice does no harm: links
// are lost with the actor, and a session has one hash.
func askSessions(c *call.Call, ctx actor.Context, op sessions.Operation, then func(actor.Context, *sessions.CallResult)) {
	if c.Config.Sessions == nil {
		c.Fail(ctx, messages.PrereqFailure(messages.WrongState, "This daemon has no console: --rapi-address sets its address"))
		return
	}
	q := call.ToCore(c.Config.Sessions, func(number uint64) any { return &sessions.Call{Request: number, Operation: op} })
	call.AskFallible(c, ctx, q, then)
}

func sessionAnswer(c *call.Call) func(actor.Context, *sessions.CallResult) {
	return func(ctx actor.Context, a *sessions.CallResult) {
		s := a.Session
		c.Succeed(ctx, answer.Session{Valid: a.Valid, User: s.User, Name: s.Name, Proof: s.Proof, Account: s.Account})
	}
}

// lockstepLoginLink takes []. The answer is an answer.LoginLink: a token with which one browser can log in once, as the account of the
// client. Users of the remote API get none.
func lockstepLoginLink(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("LockstepLoginLink: %w", err)
	}
	user, _, _ := strings.Cut(c.By, ", ") // the rest is the process and the node
	if !strings.HasPrefix(user, "uid=") || c.From.UID == access.NoUID || c.From.Remote != "" || c.From.Daemon {
		c.Fail(ctx, messages.PrereqFailure(messages.WrongState, "Only a client of the daemon's socket gets a login link"))
		return nil
	}
	askSessions(c, ctx, sessions.MakeLink{Opens: session.ByLink(user, c.From)}, func(ctx actor.Context, a *sessions.CallResult) {
		c.Config.Env.Log().WithField("by", c.By).Info("login link for the console made")
		c.Succeed(ctx, answer.LoginLink{Token: a.Token, Seconds: int64(session.LinkLife.Seconds())})
	})
	return nil
}

// lockstepRedeemLink takes [hash of the token, hash of the new session]. The answer is an answer.Session.
func lockstepRedeemLink(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var op sessions.Redeem
	if err := wire.Arguments(args, &op.Link, &op.Session); err != nil {
		return fmt.Errorf("LockstepRedeemLink: %w", err)
	}
	askSessions(c, ctx, op, sessionAnswer(c))
	return nil
}

// lockstepOpenSession takes [hash, user, name, proof]. The answer is an answer.Session.
func lockstepOpenSession(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var s session.Session
	if err := wire.Arguments(args, &s.Hash, &s.User, &s.Name, &s.Proof); err != nil {
		return fmt.Errorf("LockstepOpenSession: %w", err)
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("LockstepOpenSession: %w", err)
	}
	askSessions(c, ctx, sessions.Open{Session: s}, sessionAnswer(c))
	return nil
}

// lockstepCheckSession takes [hash], and the session counts as used. The answer is an answer.Session.
func lockstepCheckSession(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var hash string
	if err := wire.Arguments(args, &hash); err != nil {
		return fmt.Errorf("LockstepCheckSession: %w", err)
	}
	askSessions(c, ctx, sessions.Check{Hash: hash}, sessionAnswer(c))
	return nil
}

// lockstepEndSession takes [hash]. The answer is whether there was such a session.
func lockstepEndSession(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var hash string
	if err := wire.Arguments(args, &hash); err != nil {
		return fmt.Errorf("LockstepEndSession: %w", err)
	}
	askSessions(c, ctx, sessions.End{Hash: hash}, func(ctx actor.Context, a *sessions.CallResult) { c.Succeed(ctx, a.Valid) })
	return nil
}
