package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/drafts"
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
	jobs := [][]json.RawMessage{ops}
	made, mistakes, err := draftJobs(c.Call, jobs, 1)
	switch {
	case mistakes != nil:
		return fmt.Errorf("%s: %s", c.Method, drafts.Placed(jobs, mistakes[0]))
	case err != nil:
		return err
	}
	submit(c, ctx, &messages.SubmitJobs{Jobs: made, IgnoreDrain: ignoreDrain}, submitOptions{},
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
	made, mistakes, err := draftJobs(c.Call, jobs, 1)
	switch {
	case mistakes != nil:
		return fmt.Errorf("SubmitManyJobs: %s", drafts.Placed(jobs, mistakes[0]))
	case err != nil:
		return err
	}
	submit(c, ctx, &messages.SubmitJobs{Jobs: made}, submitOptions{}, func(ctx actor.Context, ids []int64) {
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
	// At: the job starts no earlier; nil: at once.
	At *time.Time `json:"at"`
	// As is the account to which the job belongs, in place of the client's; nil: the client's. It is the same for all jobs of a submission.
	As *access.Submitter `json:"as"`
}

// submitOptions are the options of a submission.
type submitOptions struct {
	// Wait: the client will wait for the ends of all these jobs. The submission is refused if that wait would close a cycle.
	Wait bool `json:"wait"`
}

// lockstepSubmitJobs takes [[{"ops": [opcode, ...], "name": text, "followed": bool, "at": time}, ...]], and the options {"wait": true} if
// there are any. The answer is the list of ids. As with SubmitManyJobs all jobs are recorded, or none. The error for mistakes in the jobs
// lists them.
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
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields() // a key of a later version would have no effect
		if err := decoder.Decode(&all[i]); err != nil {
			return fmt.Errorf("LockstepSubmitJobs: job %d of %d: %w", i+1, len(jobs), err)
		}
		ops[i] = all[i].Ops
	}
	made, mistakes, refusal := draftJobs(c.Call, ops, answer.MistakesMax)
	for i, named := range all {
		if err := record.CheckName(named.Name); err != nil && named.Name != "" {
			mistakes = append(mistakes, answer.Mistake{Job: i + 1, Text: err.Error()})
		}
		if err := c.checkAhead(named.At); err != nil {
			mistakes = append(mistakes, answer.Mistake{Job: i + 1, Text: "at: " + err.Error()})
		}
	}
	if c.Config.Distributor == nil { // the nodes of a Ganeti cluster execute Ganeti's opcodes
		mistakes = append(mistakes, cannotRun(c.Config.Catalogue, made)...)
	}
	if mistakes != nil {
		mistakes = mistakes[:min(len(mistakes), answer.MistakesMax)]
		f := messages.PrereqFailure(messages.WrongInput, drafts.Placed(ops, mistakes[0]))
		f.Details = answer.EncodeMistakes(mistakes)
		c.Fail(ctx, f)
		return nil
	}
	if refusal != nil {
		return refusal
	}
	as, err := asAccount(c.Call, all)
	if err != nil {
		return err
	}
	for i, draft := range made {
		draft.Name, draft.Followed, draft.AtUs = all[i].Name, all[i].Followed, microsOf(all[i].At)
	}
	submit(c, ctx, &messages.SubmitJobs{Jobs: made, Submitter: as}, options, func(ctx actor.Context, ids []int64) {
		c.SucceedCopied(ctx, append([]int64{}, ids...), jobUnits(ids)...)
	})
	return nil
}

// asAccount is the account in whose name an administrator submits jobs, for their records: empty for the daemon's user, nil for the
// client's. An error says that there are several accounts, or is an *access.Refusal.
func asAccount(c *call.Call, jobs []namedJob) ([]byte, error) {
	if len(jobs) == 0 || jobs[0].As == nil {
		return nil, nil
	}
	as := *jobs[0].As
	if slices.ContainsFunc(jobs, func(j namedJob) bool { return j.As == nil || *j.As != as }) {
		return nil, errors.New("LockstepSubmitJobs: all jobs of a submission belong to one account")
	}
	if as.Name == "" || !access.IsUID(as.UID) || as.Remote != "" {
		return nil, errors.New("LockstepSubmitJobs: as: want the name and the uid of an account")
	}
	if err := c.Config.Policy.Check(c.From, access.Need{Role: access.Admin, To: "run commands as another user"}); err != nil {
		return nil, err
	}
	if as.UID == c.Config.Policy.DaemonUID {
		return []byte{}, nil
	}
	return as.Encode(), nil
}

// cannotRun lists the opcodes that have no executor. Ganeti's calls take them, and their jobs fail.
func cannotRun(catalogue *opcode.Catalogue, jobs []*messages.JobDraft) (mistakes []answer.Mistake) {
	for i, draft := range jobs {
		for k, op := range draft.Ops {
			name := job.OpID(op.GetInput())
			if known, is := catalogue.Lookup(name); is && !known.Runs() {
				mistakes = append(mistakes, answer.Mistake{Job: i + 1, Opcode: k + 1,
					Text: fmt.Sprintf("this daemon cannot execute %s, an opcode of Ganeti", name)})
			}
		}
	}
	return mistakes
}

// draftJobs makes drafts of the opcodes of a client (drafts.Checks).
func draftJobs(c *call.Call, jobs [][]json.RawMessage, most int) (all []*messages.JobDraft, mistakes []answer.Mistake, refusal error) {
	return drafts.Checks{Catalogue: c.Config.Catalogue, Policy: c.Config.Policy, From: c.From}.Parse(jobs, most)
}

// submit hands jobs to the queue. If the client says that it will wait for them and that would close a cycle of waits, it fails the call
// instead.
func submit(c *request, ctx actor.Context, m *messages.SubmitJobs, options submitOptions, then func(ctx actor.Context, ids []int64)) {
	m.By = c.By
	if m.Submitter == nil {
		m.Submitter = c.Config.Policy.SubmitterOf(c.From)
	}
	c.askParent(ctx, func(ctx actor.Context, parent int64) {
		m.Parent = parent
		if parent == 0 || !options.Wait {
			submitNow(c, ctx, m, then)
			return
		}
		c.askMayWait(ctx, &messages.AwaitJobs{Parent: parent, Drafts: m.Jobs}, func(ctx actor.Context) { submitNow(c, ctx, m, then) })
	})
}

// submitNow hands jobs to the queue, unless a member of the cluster or this node could not run them as they are (featuresOf).
func submitNow(c *request, ctx actor.Context, m *messages.SubmitJobs, then func(ctx actor.Context, ids []int64)) {
	needed, refusal := c.featuresOf(m.Jobs, len(m.Submitter) > 0)
	if refusal != "" {
		c.Fail(ctx, messages.PrereqFailure(messages.WrongState, refusal))
		return
	}
	c.askAllKnown(ctx, needed, func(ctx actor.Context) { toQueue(c, ctx, m, then) })
}

// toQueue hands jobs to the queue. The question is sent once: a second one would submit the jobs twice.
func toQueue(c *request, ctx actor.Context, m *messages.SubmitJobs, then func(ctx actor.Context, ids []int64)) {
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
