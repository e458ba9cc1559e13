package call

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/audit"
	"lockstep/actors/conn"
	"lockstep/core/access"
	coreaudit "lockstep/core/audit"
	"lockstep/messages"
)

// auditPatience is how long a call that goes on without its entry in the audit log waits for it.
const auditPatience = 5 * time.Second

// Record has the audit log record what the call changes, and then calls serve. A call that changes nothing is served at once. Without its
// entry a call fails, but for one that goes on without.
func (c *Call) Record(ctx actor.Context, serve func(actor.Context)) {
	if c.Changes == "" || c.Config.Audit == nil {
		serve(ctx)
		return
	}
	goesOn := c.GoesOn
	c.askAudit(ctx, &audit.Record{Entry: c.entry(c.Changes), Required: !goesOn}, func(ctx actor.Context, f *messages.Failure) {
		if f != nil && !goesOn {
			c.Fail(ctx, messages.GenericFailure(fmt.Sprintf("Nothing was changed, because the audit log cannot be written: %s", f.Text)))
			return
		}
		serve(ctx)
	})
	if goesOn {
		c.SetTimer(ctx, auditPatience)
	}
}

// deny fails the call, because its user may not do what it asks for. The audit log has an entry about it first, if one can be written.
func (c *Call) deny(ctx actor.Context, why *messages.Failure) {
	e := c.entry(cmp.Or(c.Changes, access.MethodNeeds(c.Method).To))
	e.Refused = why.Text
	c.askAudit(ctx, &audit.Record{Entry: e}, func(ctx actor.Context, _ *messages.Failure) { c.fail(ctx, why) })
	c.SetTimer(ctx, auditPatience)
}

func (c *Call) entry(what string) coreaudit.Entry {
	return coreaudit.Entry{User: c.From.String(), Key: c.From.Key(), By: c.By, Method: c.Method, What: what}
}

// askAudit sends an entry. then gets the failure, also if there is no answer in time.
func (c *Call) askAudit(ctx actor.Context, r *audit.Record, then func(actor.Context, *messages.Failure)) {
	q := conn.Question{To: c.Config.Audit, LostBy: conn.AuditRestart, Message: func(number uint64) any {
		return &audit.Record{Request: number, Entry: r.Entry, Required: r.Required}
	}}
	end := func(ctx actor.Context, f *messages.Failure) {
		c.OnTimeout = nil // what follows has its own
		then(ctx, f)
	}
	Ask(c, ctx, q, func(ctx actor.Context, a *audit.Recorded) { end(ctx, a.Failure) })
	c.OnTimeout = func(ctx actor.Context) { end(ctx, messages.GenericFailure("the write takes too long")) }
}
