package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/queuecopy"
	"lockstep/core/record"
	"lockstep/core/wire"
	"lockstep/messages"
)

// submitJob takes [[opcode, ...]]. The answer is the job's id.
func submitJob(c *request, ctx actor.Context, args []json.RawMessage) error {
	return submitOne(c, ctx, args, false)
}

// submitJobToDrainedQueue is submitJob for a queue that may refuse other submissions.
func submitJobToDrainedQueue(c *request, ctx actor.Context, args []json.RawMessage) error {
	return submitOne(c, ctx, args, true)
}

func submitOne(c *request, ctx actor.Context, args []json.RawMessage, ignoreDrain bool) error {
	var ops []json.RawMessage
	if err := wire.Arguments(args, &ops); err != nil {
		return fmt.Errorf("%s: %w", c.Method, err)
	}
	draft, err := draftJob(c.Config.Catalogue, ops)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Method, err)
	}
	submit(c, ctx, &messages.SubmitJobs{Jobs: []*messages.JobDraft{draft}, IgnoreDrain: ignoreDrain}, submitOptions{},
		func(ctx actor.Context, ids []int64) { c.SucceedCopied(ctx, ids[0], jobUnits(ids)...) })
	return nil
}

// submitManyJobs takes [[[opcode, ...], ...]]. One invalid opcode refuses all jobs (queue.md 1.4); otherwise the queue
// records all jobs or none.
func submitManyJobs(c *request, ctx actor.Context, args []json.RawMessage) error {
	var jobs [][]json.RawMessage
	if err := wire.Arguments(args, &jobs); err != nil {
		return fmt.Errorf("SubmitManyJobs: %w", err)
	}
	drafts, err := draftJobs(c.Config.Catalogue, jobs)
	if err != nil {
		return fmt.Errorf("SubmitManyJobs: %w", err)
	}
	submit(c, ctx, &messages.SubmitJobs{Jobs: drafts}, submitOptions{}, func(ctx actor.Context, ids []int64) {
		result := make([][2]any, len(ids))
		for i, id := range ids {
			result[i] = [2]any{true, id}
		}
		c.SucceedCopied(ctx, result, jobUnits(ids)...)
	})
	return nil
}

// namedJob is one job of LockstepSubmitJobs. What Ganeti's format of a job has no place for is beside the opcodes.
type namedJob struct {
	Ops  []json.RawMessage `json:"ops"`
	Name string            `json:"name"` // empty: none
	// Followed: the client reads all output of the job, and its commands wait for the client (package outflow).
	Followed bool `json:"followed"`
}

// submitOptions are the options of a submission.
type submitOptions struct {
	// Wait: the client will wait for the ends of all these jobs. The submission is refused if that wait would close a cycle.
	Wait bool `json:"wait"`
}

// lockstepSubmitJobs takes [[{"ops": [opcode, ...], "name": text, "followed": bool}, ...]], and the options {"wait": true} if there are
// any. The answer is the list of ids. As with SubmitManyJobs all jobs are recorded, or none.
func lockstepSubmitJobs(c *request, ctx actor.Context, args []json.RawMessage) error {
	var jobs []json.RawMessage
	var options submitOptions
	into := []any{&jobs, &options}
	if len(args) < len(into) {
		into = into[:1]
	}
	if err := wire.Arguments(args, into...); err != nil {
		return fmt.Errorf("LockstepSubmitJobs: %w", err)
	}
	ops, all := make([][]json.RawMessage, len(jobs)), make([]namedJob, len(jobs))
	for i, data := range jobs {
		var named namedJob
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields() // a key of a later version would have no effect
		if err := decoder.Decode(&named); err != nil {
			return fmt.Errorf("LockstepSubmitJobs: job %d of %d: %w", i+1, len(jobs), err)
		}
		if named.Name != "" {
			if err := record.CheckName(named.Name); err != nil {
				return fmt.Errorf("LockstepSubmitJobs: job %d of %d: %w", i+1, len(jobs), err)
			}
		}
		ops[i], all[i] = named.Ops, named
	}
	drafts, err := draftJobs(c.Config.Catalogue, ops)
	if err == nil && c.Config.Distributor == nil { // the nodes of a Ganeti cluster execute Ganeti's opcodes
		err = checkRun(c.Config.Catalogue, drafts)
	}
	if err != nil {
		return fmt.Errorf("LockstepSubmitJobs: %w", err)
	}
	for i, draft := range drafts {
		draft.Name, draft.Followed = all[i].Name, all[i].Followed
	}
	submit(c, ctx, &messages.SubmitJobs{Jobs: drafts}, options, func(ctx actor.Context, ids []int64) {
		c.SucceedCopied(ctx, append([]int64{}, ids...), jobUnits(ids)...)
	})
	return nil
}

// checkRun refuses jobs with an opcode that has no executor. Ganeti's calls take them, and their jobs fail.
func checkRun(catalogue *opcode.Catalogue, drafts []*messages.JobDraft) error {
	for i, draft := range drafts {
		for k, op := range draft.Ops {
			name := job.OpID(op.Input)
			if known, is := catalogue.Lookup(name); is && !known.Runs() {
				return fmt.Errorf("this daemon cannot execute %s, an opcode of Ganeti, in opcode %d of %d, in job %d of %d",
					name, k+1, len(draft.Ops), i+1, len(drafts))
			}
		}
	}
	return nil
}

// draftJobs parses the opcodes of several jobs. An error names the job if there are several.
func draftJobs(catalogue *opcode.Catalogue, jobs [][]json.RawMessage) ([]*messages.JobDraft, error) {
	drafts := make([]*messages.JobDraft, len(jobs))
	for i, ops := range jobs {
		draft, err := draftJob(catalogue, ops)
		if err != nil && len(jobs) > 1 {
			err = fmt.Errorf("%w, in job %d of %d", err, i+1, len(jobs))
		}
		if err != nil {
			return nil, err
		}
		drafts[i] = draft
	}
	return drafts, nil
}

// draftJob parses the opcodes of one job. An error is Ganeti's text, followed by the opcode's place if there are
// several.
func draftJob(catalogue *opcode.Catalogue, ops []json.RawMessage) (*messages.JobDraft, error) {
	draft := &messages.JobDraft{Ops: make([]*messages.OpDraft, len(ops))}
	for i, raw := range ops {
		op, err := catalogue.Parse(raw)
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

// submit hands jobs to the queue. If the client says that it will wait for them and that would close a cycle of waits, it fails the call
// instead.
func submit(c *request, ctx actor.Context, m *messages.SubmitJobs, options submitOptions, then func(ctx actor.Context, ids []int64)) {
	m.By, m.Submitter = c.By, c.Config.Policy.SubmitterOf(c.From)
	c.askParent(ctx, func(ctx actor.Context, parent int64) {
		m.Parent = parent
		if parent == 0 || !options.Wait {
			submitNow(c, ctx, m, then)
			return
		}
		c.askMayWait(ctx, &messages.AwaitJobs{Parent: parent, Drafts: m.Jobs}, func(ctx actor.Context) { submitNow(c, ctx, m, then) })
	})
}

// submitNow hands jobs to the queue. The question is sent once: a second one would submit the jobs twice.
func submitNow(c *request, ctx actor.Context, m *messages.SubmitJobs, then func(ctx actor.Context, ids []int64)) {
	q := c.ToQueue(func(number uint64) any {
		m.Request = number
		return m
	})
	q.Once = true
	call.AskFallible(c.Call, ctx, q, func(ctx actor.Context, a *messages.SubmitJobsResult) { then(ctx, a.Ids) })
}

// jobUnits are the units of a submission. No job is sent before a serial that is not below it.
func jobUnits(ids []int64) (units []queuecopy.Unit) {
	for _, id := range ids {
		units = append(units, queuecopy.Unit(id))
	}
	return units
}
