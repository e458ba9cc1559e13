package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

func (c *connection) submitJob(ctx actor.Context, args []json.RawMessage) error {
	return c.submitOne(ctx, args, false)
}

func (c *connection) submitJobToDrainedQueue(ctx actor.Context, args []json.RawMessage) error {
	return c.submitOne(ctx, args, true)
}

func (c *connection) submitOne(ctx actor.Context, args []json.RawMessage, ignoreDrain bool) error {
	var ops []json.RawMessage
	if err := arguments(args, &ops); err != nil {
		return fmt.Errorf("%s: %w", c.method, err)
	}
	draft, err := c.draft(ops)
	if err != nil {
		return fmt.Errorf("%s: %w", c.method, err)
	}
	c.submit(ctx, &messages.SubmitJobs{Jobs: []*messages.JobDraft{draft}, IgnoreDrain: ignoreDrain, By: c.by},
		func(ctx actor.Context, ids []int64) { c.succeed(ctx, ids[0]) })
	return nil
}

// submitManyJobs submits nothing if one opcode of one job is invalid (queue.md
// 1.4), and otherwise records all jobs or none.
func (c *connection) submitManyJobs(ctx actor.Context, args []json.RawMessage) error {
	var jobs [][]json.RawMessage
	if err := arguments(args, &jobs); err != nil {
		return fmt.Errorf("SubmitManyJobs: %w", err)
	}
	m := &messages.SubmitJobs{Jobs: make([]*messages.JobDraft, len(jobs)), By: c.by}
	for i, ops := range jobs {
		draft, err := c.draft(ops)
		if err != nil && len(jobs) > 1 {
			err = fmt.Errorf("%w, in job %d of %d", err, i+1, len(jobs))
		}
		if err != nil {
			return fmt.Errorf("SubmitManyJobs: %w", err)
		}
		m.Jobs[i] = draft
	}
	c.submit(ctx, m, func(ctx actor.Context, ids []int64) {
		result := make([][2]any, len(ids))
		for i, id := range ids {
			result[i] = [2]any{true, id}
		}
		c.succeed(ctx, result)
	})
	return nil
}

// draft parses the opcodes of one job. An error names the opcode, behind Ganeti's text, if
// there are several.
func (c *connection) draft(ops []json.RawMessage) (*messages.JobDraft, error) {
	draft := &messages.JobDraft{Ops: make([]*messages.OpDraft, len(ops))}
	for i, raw := range ops {
		op, err := c.config.Catalogue.Parse(raw)
		if err != nil && len(ops) > 1 {
			err = fmt.Errorf("%w, in opcode %d of %d", err, i+1, len(ops))
		}
		if err != nil {
			return nil, err
		}
		draft.Ops[i] = &messages.OpDraft{Input: op.Input, Secrets: op.Secrets, Priority: int32(op.Priority)}
	}
	return draft, nil
}

func (c *connection) submit(ctx actor.Context, m *messages.SubmitJobs, done func(actor.Context, []int64)) {
	c.ask(ctx, once,
		func(ctx actor.Context, request uint64) {
			m.Request = request
			ctx.Request(c.config.Queue, m)
		},
		func(ctx actor.Context, answer any) {
			a, ok := answer.(*messages.SubmitJobsResult)
			if !ok || a.Request != c.request {
				return
			}
			if a.Failure != nil {
				c.fail(ctx, a.Failure)
				return
			}
			done(ctx, a.Ids)
		})
}
