package jobs

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/luxi/call"
	"lockstep/core/jobproc"
	"lockstep/core/wire"
	"lockstep/messages"
)

// reportJob takes [id, livelock, job] from a job process that has written its file; a null job means that the job is
// long and the file must be read. The process adds a jobproc.Condition if there is one. The livelock's name
// identifies the attempt. It does not authenticate the sender: each client that may open the socket can do more harm in
// other ways. The answer is null, at once, because a report is a hint.
func reportJob(c *request, ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	var livelock string
	var encoded json.RawMessage
	var condition jobproc.Condition
	into := []any{&id, &livelock, &encoded, &condition}
	if len(args) < len(into) {
		into = into[:3]
	}
	if err := wire.Arguments(args, into...); err != nil {
		return fmt.Errorf("LockstepReportJob: %w", err)
	}
	if string(encoded) == "null" {
		encoded = nil
	}
	ctx.Send(c.Config.Jobs, &messages.ProcessReported{Id: int64(id), Livelock: livelock, Encoded: encoded,
		WriteError: condition.Error, FailingSinceUs: condition.SinceUS, ReaderSinceUs: condition.ReaderSinceUS,
		Unchanged: condition.Unchanged, Progress: commandProgress(condition.Progress)})
	c.Succeed(ctx, nil)
	return nil
}

// commandProgress is the progress of a report, within its bounds: the report may come from any client.
func commandProgress(p *jobproc.Progress) *messages.CommandProgress {
	if p == nil {
		return nil
	}
	l := p.Bounded()
	return &messages.CommandProgress{Percent: l.Percent, Text: l.Text, SinceUs: p.SinceUS, UpdatedUs: p.UpdatedUS}
}

// beginOpcode takes [id, livelock, opcode] from a job process that asks for the permission to begin that opcode. The
// answer is null when the opcode may begin, which can take any time; a jobproc.Denial if it never may; JobLost if the
// daemon does not take the process for that of the job.
func beginOpcode(c *request, ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	var livelock string
	var op int32
	if err := wire.Arguments(args, &id, &livelock, &op); err != nil {
		return fmt.Errorf("LockstepBeginOpcode: %w", err)
	}
	// The jobs actor passes the question on to the scheduler, which restarts with the locks.
	q := conn.Question{To: c.Config.Jobs, LostBy: conn.QueueRestart | conn.CoreRestart,
		Message: func(number uint64) any {
			return &messages.BeginOp{Request: number, Id: int64(id), Livelock: livelock, Op: op}
		}}
	call.AskFallible(c.Call, ctx, q, func(ctx actor.Context, a *messages.BeginOpResult) {
		if a.Denied {
			c.Succeed(ctx, jobproc.Denial{Canceled: a.Canceled, Text: a.Text})
			return
		}
		c.Succeed(ctx, nil)
	})
	return nil
}
