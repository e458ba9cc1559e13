package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/jobproc"
	"lockstep/messages"
)

// reportJob is what a job process tells of its file: [id, livelock, job], or null
// in place of a long job. The livelock's name says that it is the process of
// this attempt, not that it is honest: whoever may open the socket may do worse.
// The answer is null, at once: reports are hints.
func (c *connection) reportJob(ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	var livelock string
	var encoded json.RawMessage
	if err := arguments(args, &id, &livelock, &encoded); err != nil {
		return fmt.Errorf("LockstepReportJob: %w", err)
	}
	if string(encoded) == "null" {
		encoded = nil // it is long: look at the file
	}
	ctx.Send(c.config.Jobs, &messages.ProcessReported{Id: int64(id), Livelock: livelock, Encoded: encoded})
	c.succeed(ctx, nil)
	return nil
}

// beginOpcode asks for permission to begin opcode op: [id, livelock, op]. The
// answer is null when it may, however long that takes; a jobproc.Denial when it
// never may; JobLost when the job is
// not, or not any more, in the hands of that process.
func (c *connection) beginOpcode(ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	var livelock string
	var op int32
	if err := arguments(args, &id, &livelock, &op); err != nil {
		return fmt.Errorf("LockstepBeginOpcode: %w", err)
	}
	c.ask(ctx, repeatable,
		func(ctx actor.Context, request uint64) {
			ctx.Request(c.config.Jobs, &messages.BeginOp{Request: request, Id: int64(id), Livelock: livelock, Op: op})
		},
		func(ctx actor.Context, answer any) {
			a, ok := answer.(*messages.BeginOpResult)
			switch {
			case !ok || a.Request != c.request:
			case a.Failure != nil:
				c.fail(ctx, a.Failure)
			case a.Denied:
				c.succeed(ctx, jobproc.Denial{Canceled: a.Canceled, Text: a.Text})
			default:
				c.succeed(ctx, nil)
			}
		})
	c.lostByRestart |= coreRestart // the scheduler, which gives the permission
	return nil
}
