package objects

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/audit"
	"lockstep/actors/conn"
	"lockstep/actors/luxi/call"
	coreaudit "lockstep/core/audit"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/messages"
)

// auditWaitMax is the longest wait for an entry, shorter than the time of a call.
const auditWaitMax = 50 * time.Second

// entrySize is about the size of a long entry in an answer, in bytes.
const entrySize = 1 << 10

// lockstepAudit takes [query] or [query, seconds], of which the query is a coreaudit.Query. The answer is a coreaudit.Page. With seconds
// and a query about newer entries it comes when there is a newer entry, after the time at the latest.
func lockstepAudit(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var q coreaudit.Query
	var seconds int64
	into := []any{&q, &seconds}
	if err := wire.Arguments(args, into[:min(max(len(args), 1), 2)]...); err != nil {
		return fmt.Errorf("LockstepAudit: %w", err)
	}
	if c.Config.Audit == nil {
		c.Fail(ctx, messages.PrereqFailure(messages.WrongState, "This daemon has no audit log"))
		return nil
	}
	look := audit.Look{}
	if q.After != nil && seconds > 0 {
		look.After = *q.After
		look.Until = c.Config.Env.Clock().Now().Add(min(time.Duration(min(seconds, 3600))*time.Second, auditWaitMax))
	}
	then := func(ctx actor.Context, a *audit.LookResult) {
		c.OnTimeout, c.OnDrain = nil, nil
		readAudit(c, ctx, coreaudit.NewSearch(q, a.Files, a.Last))
	}
	call.Ask(c, ctx, conn.Question{To: c.Config.Audit, LostBy: conn.AuditRestart, Message: func(number uint64) any {
		return &audit.Look{Request: number, After: look.After, Until: look.Until}
	}}, then)
	if !look.Until.IsZero() {
		nothing := func(ctx actor.Context) { c.Succeed(ctx, coreaudit.NewSearch(q, nil, look.After).Page()) }
		c.OnTimeout, c.OnDrain = nothing, nothing
		c.SetTimer(ctx, look.Until.Sub(c.Config.Env.Clock().Now()))
	}
	return nil
}

// readAudit reads the files of a search, one after the other, and answers.
func readAudit(c *call.Call, ctx actor.Context, s *coreaudit.Search) {
	file, more := s.Next()
	if !more {
		page := s.Page()
		if c.Reserve(ctx, len(page.Entries)*entrySize) {
			c.Succeed(ctx, page)
		}
		return
	}
	c.Begin(ctx)
	c.Read(ctx, "audit", paths.AuditPath(file), func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			c.Fail(ctx, m.Failure)
			return
		}
		s.Take(file, m.Content) // empty if the file was removed meanwhile
		readAudit(c, ctx, s)
	})
}
