package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/instant"
	"lockstep/core/queuecopy"
	"lockstep/core/replication"
	"lockstep/core/wire"
	"lockstep/messages"
)

// Range of the priority that a client can give to a job after its submission (queue.md 7). -20 is the most urgent.
const (
	priorityMin = -20
	priorityMax = 19
)

// cancelJob takes [id, kill], and [id] from old clients. The answer is [done, text].
func cancelJob(c *request, ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	kill := false
	into := []any{&id, &kill}
	if len(args) == 1 {
		into = into[:1]
	}
	if err := wire.Arguments(args, into...); err != nil {
		return fmt.Errorf("CancelJob: %w", err)
	}
	kind := messages.OrderJob_CANCEL
	if kill {
		kind = messages.OrderJob_KILL
	}
	orderJob(c, ctx, int64(id), func(number uint64) any {
		return &messages.OrderJob{Request: number, Id: int64(id), Kind: kind, By: c.By, OnlyOf: c.onlyOf()}
	})
	return nil
}

// changeJobPriority takes [id, priority]. The answer is [done, text], also for a priority out of range.
func changeJobPriority(c *request, ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	var priority int
	if err := wire.Arguments(args, &id, &priority); err != nil {
		return fmt.Errorf("ChangeJobPriority: %w", err)
	}
	if priority < priorityMin || priority > priorityMax {
		c.Succeed(ctx, [2]any{false, fmt.Sprintf("Priority %d is not between %d and %d", priority, priorityMin, priorityMax)})
		return nil
	}
	orderJob(c, ctx, int64(id), func(number uint64) any {
		return &messages.OrderJob{Request: number, Id: int64(id), Kind: messages.OrderJob_SET_PRIORITY, Priority: int32(priority), By: c.By,
			OnlyOf: c.onlyOf()}
	})
	return nil
}

// lockstepHoldJob takes [id, hold]: with hold the job begins no opcode until a call without it. The answer is [done, text].
func lockstepHoldJob(c *request, ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	var hold bool
	if err := wire.Arguments(args, &id, &hold); err != nil {
		return fmt.Errorf("LockstepHoldJob: %w", err)
	}
	kind := messages.OrderJob_RELEASE
	if hold {
		kind = messages.OrderJob_HOLD
	}
	orderJob(c, ctx, int64(id), func(number uint64) any {
		return &messages.OrderJob{Request: number, Id: int64(id), Kind: kind, By: c.By, OnlyOf: c.onlyOf()}
	})
	return nil
}

// onlyOf is the key of the user whose jobs alone the client may change; "": it may change all.
func (c *request) onlyOf() string { return c.Config.Policy.OnlyOf(c.From) }

// orderKinds are the kinds of orders of LockstepOrderJobs.
var orderKinds = map[string]messages.OrderJob_Kind{
	"cancel": messages.OrderJob_CANCEL, "kill": messages.OrderJob_KILL, "priority": messages.OrderJob_SET_PRIORITY,
	"hold": messages.OrderJob_HOLD, "release": messages.OrderJob_RELEASE, "reschedule": messages.OrderJob_RESCHEDULE,
}

// orderedMax is the number of jobs of one LockstepOrderJobs.
const orderedMax = 1000

// lockstepOrderJobs takes [kind, ids, value]. The value is the priority of the kind priority, and the time of the kind reschedule in
// RFC 3339, or "now"; other kinds have none. If the client may not give the order for one of the jobs, none is changed. The answer is
// a list of [done, text], in the order of the ids.
func lockstepOrderJobs(c *request, ctx actor.Context, args []json.RawMessage) error {
	var name string
	var ids []jobID
	var priority int
	var start startTime
	into := []any{&name, &ids, &priority}
	if len(args) > 0 && string(args[0]) == `"reschedule"` {
		into[2] = &start
	}
	if len(args) < len(into) {
		into = into[:2]
	}
	if err := wire.RequiredArguments(args, into...); err != nil {
		return fmt.Errorf("LockstepOrderJobs: %w", err)
	}
	kind, known := orderKinds[name]
	switch {
	case !known:
		return fmt.Errorf("LockstepOrderJobs: argument 1: there are cancel, kill, hold, release, reschedule and priority, not %q", name)
	case len(ids) > orderedMax:
		return fmt.Errorf("LockstepOrderJobs: %d jobs, at most %d are allowed", len(ids), orderedMax)
	case kind == messages.OrderJob_SET_PRIORITY && (len(args) < 3 || priority < priorityMin || priority > priorityMax):
		return fmt.Errorf("LockstepOrderJobs: argument 3: the priority is a number from %d to %d", priorityMin, priorityMax)
	case kind == messages.OrderJob_RESCHEDULE && len(args) < 3:
		return errors.New("LockstepOrderJobs: argument 3: want the time in RFC 3339, or \"now\"")
	}
	if err := c.checkAhead(start.at); err != nil {
		return fmt.Errorf("LockstepOrderJobs: argument 3: %w", err)
	}
	of := numbersOf(ids)
	order := &messages.OrderJobs{Ids: of, Kind: kind, Priority: int32(priority), AtUs: microsOf(start.at)}
	var needed []string
	if order.AtUs > 0 {
		needed = append(needed, replication.StartTimes)
	}
	c.askAllKnown(ctx, needed, func(ctx actor.Context) {
		orderJobs(c, ctx, order, func(ctx actor.Context, a *messages.OrderJobsResult) {
			pairs := make([][2]any, len(a.Results))
			for i, r := range a.Results {
				pairs[i] = [2]any{r.Done, r.Text}
			}
			c.SucceedCopied(ctx, pairs, jobUnits(of)...)
		})
	})
	return nil
}

// startTime is a time in RFC 3339, or "now", which is nil.
type startTime struct{ at *time.Time }

func (s *startTime) UnmarshalJSON(data []byte) error {
	if string(data) == `"now"` {
		return nil
	}
	if err := json.Unmarshal(data, &s.at); err != nil {
		return errors.New(`want a time in RFC 3339, such as "2026-12-01T03:00:00Z", or "now"`)
	}
	return nil
}

// checkAhead refuses a start that is too far ahead. One that has passed, also before 1970, is now.
func (c *request) checkAhead(at *time.Time) error {
	if at != nil && at.After(c.Config.Env.Clock().Now().AddDate(instant.YearsMax, 0, 1)) {
		return fmt.Errorf("a time is at most %d years ahead", instant.YearsMax)
	}
	return nil
}

// microsOf is a time in microseconds since 1970, rounded up so that nothing starts before it, and at least 1; 0: none.
func microsOf(at *time.Time) int64 {
	if at == nil {
		return 0
	}
	return max(1, at.Add(time.Microsecond-time.Nanosecond).UnixMicro())
}

// orderJobs sends an order for several jobs. done receives the result unless the client may not give the order for one of them.
func orderJobs(c *request, ctx actor.Context, m *messages.OrderJobs, done func(actor.Context, *messages.OrderJobsResult)) {
	call.Ask(c.Call, ctx, c.ToQueue(func(number uint64) any {
		return &messages.OrderJobs{Request: number, Ids: m.Ids, Kind: m.Kind, Priority: m.Priority, Check: m.Check, AtUs: m.AtUs, By: c.By,
			OnlyOf: c.onlyOf()}
	}), func(ctx actor.Context, a *messages.OrderJobsResult) {
		if a.Refused != nil {
			c.Fail(ctx, a.Refused)
			return
		}
		done(ctx, a)
	})
}

// lockstepMayOrder takes [kind, ids], of the kinds of LockstepOrderJobs and archive. The answer is true; if the client may not give the
// order for one of the jobs, it is the refusal of that order. A client with more jobs than one call takes asks for all of them first.
func lockstepMayOrder(c *request, ctx actor.Context, args []json.RawMessage) error {
	var name string
	var ids []jobID
	if err := wire.RequiredArguments(args, &name, &ids); err != nil {
		return fmt.Errorf("LockstepMayOrder: %w", err)
	}
	kind, known := orderKinds[name]
	if name == "archive" {
		kind, known = messages.OrderJob_ARCHIVE, true
	}
	switch {
	case !known:
		return fmt.Errorf("LockstepMayOrder: argument 1: there are cancel, kill, hold, release, reschedule, priority and archive, not %q", name)
	case len(ids) > orderedMax:
		return fmt.Errorf("LockstepMayOrder: %d jobs, at most %d are allowed", len(ids), orderedMax)
	}
	orderJobs(c, ctx, &messages.OrderJobs{Ids: numbersOf(ids), Kind: kind, Check: true}, func(ctx actor.Context, _ *messages.OrderJobsResult) {
		c.Succeed(ctx, true)
	})
	return nil
}

func numbersOf(ids []jobID) []int64 {
	numbers := make([]int64, len(ids))
	for i, id := range ids {
		numbers[i] = int64(id)
	}
	return numbers
}

// orderJob sends a client order. The answer is [done, text]. Sent twice, it does no harm: the second answer reports
// what the first order has done.
func orderJob(c *request, ctx actor.Context, id int64, order func(number uint64) any) {
	call.Ask(c.Call, ctx, c.ToQueue(order), func(ctx actor.Context, a *messages.OrderJobResult) {
		if a.Refused != nil {
			c.Fail(ctx, a.Refused)
			return
		}
		c.SucceedCopied(ctx, [2]any{a.Done, a.Text}, queuecopy.Unit(id))
	})
}

// archiveJob takes [id]. The answer is whether the job was archived.
func archiveJob(c *request, ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	if err := wire.Arguments(args, &id); err != nil {
		return fmt.Errorf("ArchiveJob: %w", err)
	}
	if id == 0 {
		c.Succeed(ctx, false) // no job has id 0, and the queue takes it for all jobs of some age
		return nil
	}
	archive(c, ctx, &messages.ArchiveJobs{Id: int64(id)}, func(a *messages.ArchiveJobsResult) any { return a.Archived > 0 })
	return nil
}

// autoArchiveJobs takes [age, timeout], both in seconds; a negative age means all final jobs (queue.md 4.9). The answer
// is [archived, remaining].
func autoArchiveJobs(c *request, ctx actor.Context, args []json.RawMessage) error {
	var age, timeout int64
	if err := wire.Arguments(args, &age, &timeout); err != nil {
		return fmt.Errorf("AutoArchiveJobs: %w", err)
	}
	archive(c, ctx, &messages.ArchiveJobs{AgeS: age, TimeoutS: timeout},
		func(a *messages.ArchiveJobsResult) any { return [2]int64{a.Archived, a.Remaining} })
	return nil
}

func archive(c *request, ctx actor.Context, m *messages.ArchiveJobs, result func(*messages.ArchiveJobsResult) any) {
	q := c.ToQueue(func(number uint64) any {
		return &messages.ArchiveJobs{Request: number, Id: m.Id, AgeS: m.AgeS, TimeoutS: m.TimeoutS, OnlyOf: c.onlyOf(), By: c.By}
	})
	call.Ask(c.Call, ctx, q, func(ctx actor.Context, a *messages.ArchiveJobsResult) {
		if a.Failure.GetCode() == messages.NotPermitted {
			c.Fail(ctx, a.Failure)
			return
		}
		if a.Failure != nil {
			c.Fail(ctx, &messages.Failure{Class: a.Failure.Class,
				Text: fmt.Sprintf("%d jobs were archived; of the others, the first could not be: %s", a.Archived, a.Failure.Text)})
			return
		}
		c.Succeed(ctx, result(a))
	})
}

// setDrainFlag takes [drained]. A drained queue refuses submissions. The answer is true, when the flag is copied as far as clients wait
// for copies.
func setDrainFlag(c *request, ctx actor.Context, args []json.RawMessage) error {
	var drained bool
	if err := wire.Arguments(args, &drained); err != nil {
		return fmt.Errorf("SetDrainFlag: %w", err)
	}
	call.AskFallible(c.Call, ctx, c.ToQueue(func(number uint64) any { return &messages.SetDrain{Request: number, Drained: drained} }),
		func(ctx actor.Context, _ *messages.SetDrainResult) { c.SucceedCopied(ctx, true, queuecopy.Drain) })
	return nil
}
