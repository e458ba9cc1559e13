package objects

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/inquirer"
	"lockstep/actors/luxi/call"
	"lockstep/core/config"
	"lockstep/core/query"
	"lockstep/messages"
)

// drainPatience is how long the end of the daemon waits for nodes. It is shorter than the time that the daemon has for its end.
const drainPatience = 3 * time.Second

// answerLive answers a query about objects. If it needs what only nodes know, and there are node daemons, they are asked
// about the objects that the configuration leaves (live.md 1).
func answerLive(
	c *call.Call, ctx actor.Context, d *config.Document,
	q *query.Query[query.ObjectItem], classic bool, objects []*query.ObjectItem,
) {
	parts := q.LiveParts()
	if parts == 0 || c.Config.Inquirer == nil {
		answerItems(c, ctx, q, classic, objects)
		return
	}
	candidates, err := q.Candidates(objects)
	if err != nil {
		c.FailQuery(ctx, err)
		return
	}
	live := query.NewLive(d, parts, candidates)
	if len(live.Questions) == 0 {
		answerItems(c, ctx, q, classic, live.Answer(nil))
		return
	}
	question := conn.Question{To: c.Config.Inquirer, LostBy: conn.InquirerRestart,
		Message: func(number uint64) any { return &inquirer.Ask{Request: number, Questions: live.Questions} }}
	c.OnDrain = func(ctx actor.Context) { c.SetTimer(ctx, drainPatience) }
	c.OnTimeout = func(ctx actor.Context) {
		c.Fail(ctx, messages.GenericFailure("Not all nodes have answered "+c.Method+" in time; ask again"))
	}
	call.Ask(c, ctx, question, func(ctx actor.Context, a *inquirer.AskResult) {
		answerItems(c, ctx, q, classic, live.Answer(a.Answers))
	})
}
