package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/messages"
)

// Priorities that a job can be given after its submission (queue.md 7).
const (
	priorityMin = -20
	priorityMax = 19
)

// cancelJob takes [id, kill], and [id] from old clients.
func (c *connection) cancelJob(ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	kill := false
	into := []any{&id, &kill}
	if len(args) == 1 {
		into = into[:1]
	}
	if err := arguments(args, into...); err != nil {
		return fmt.Errorf("CancelJob: %w", err)
	}
	kind := messages.OrderJob_CANCEL
	if kill {
		kind = messages.OrderJob_KILL
	}
	c.askJob(ctx, func(request uint64) any {
		return &messages.OrderJob{Request: request, Id: int64(id), Kind: kind}
	})
	return nil
}

func (c *connection) changeJobPriority(ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	var priority int
	if err := arguments(args, &id, &priority); err != nil {
		return fmt.Errorf("ChangeJobPriority: %w", err)
	}
	if priority < priorityMin || priority > priorityMax {
		c.succeed(ctx, [2]any{false, fmt.Sprintf("Priority %d is not between %d and %d", priority, priorityMin, priorityMax)})
		return nil
	}
	c.askJob(ctx, func(request uint64) any {
		return &messages.OrderJob{Request: request, Id: int64(id), Kind: messages.OrderJob_SET_PRIORITY, Priority: int32(priority)}
	})
	return nil
}

// askJob asks something that is answered with [done, text]. To ask it twice
// does no harm: the second answer says what the first has done.
func (c *connection) askJob(ctx actor.Context, question func(request uint64) any) {
	c.askQueue(ctx, question, func(ctx actor.Context, m any) {
		if a, ok := m.(*messages.OrderJobResult); ok && a.Request == c.request {
			c.succeed(ctx, [2]any{a.Done, a.Text})
		}
	})
}

// askQueue asks the queue something that may be asked again.
func (c *connection) askQueue(ctx actor.Context, question func(request uint64) any, answers func(actor.Context, any)) {
	c.ask(ctx, repeatable, func(ctx actor.Context, request uint64) { ctx.Request(c.config.Queue, question(request)) }, answers)
}

func (c *connection) archiveJob(ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	if err := arguments(args, &id); err != nil {
		return fmt.Errorf("ArchiveJob: %w", err)
	}
	if id == 0 {
		c.succeed(ctx, false) // ids begin at 1; to the queue 0 means many
		return nil
	}
	c.archive(ctx, &messages.ArchiveJobs{Id: int64(id)}, func(a *messages.ArchiveJobsResult) any { return a.Archived > 0 })
	return nil
}

// autoArchiveJobs takes [age, time-out], both in seconds; a negative age means
// all (queue.md 4.9).
func (c *connection) autoArchiveJobs(ctx actor.Context, args []json.RawMessage) error {
	var age, timeout int64
	if err := arguments(args, &age, &timeout); err != nil {
		return fmt.Errorf("AutoArchiveJobs: %w", err)
	}
	c.archive(ctx, &messages.ArchiveJobs{AgeS: age, TimeoutS: timeout},
		func(a *messages.ArchiveJobsResult) any { return [2]int64{a.Archived, a.Remaining} })
	return nil
}

func (c *connection) archive(ctx actor.Context, m *messages.ArchiveJobs, result func(*messages.ArchiveJobsResult) any) {
	c.askQueue(ctx,
		func(request uint64) any {
			return &messages.ArchiveJobs{Request: request, Id: m.Id, AgeS: m.AgeS, TimeoutS: m.TimeoutS}
		},
		func(ctx actor.Context, m any) {
			a, ok := m.(*messages.ArchiveJobsResult)
			switch {
			case !ok || a.Request != c.request:
			case a.Failure != nil:
				c.fail(ctx, &messages.Failure{Class: a.Failure.Class,
					Text: fmt.Sprintf("%d jobs were archived; of the others, the first could not be: %s", a.Archived, a.Failure.Text)})
			default:
				c.succeed(ctx, result(a))
			}
		})
}

func (c *connection) setDrainFlag(ctx actor.Context, args []json.RawMessage) error {
	var drained bool
	if err := arguments(args, &drained); err != nil {
		return fmt.Errorf("SetDrainFlag: %w", err)
	}
	c.askQueue(ctx, func(request uint64) any { return &messages.SetDrain{Request: request, Drained: drained} },
		func(ctx actor.Context, m any) {
			a, ok := m.(*messages.SetDrainResult)
			switch {
			case !ok || a.Request != c.request:
			case a.Failure != nil:
				c.fail(ctx, a.Failure)
			default:
				c.succeed(ctx, true)
			}
		})
	return nil
}

func (c *connection) withStatus(ctx actor.Context, done func(actor.Context, *messages.GetQueueStatusResult)) {
	c.askQueue(ctx, func(request uint64) any { return &messages.GetQueueStatus{Request: request} },
		func(ctx actor.Context, m any) {
			if s, ok := m.(*messages.GetQueueStatusResult); ok && s.Request == c.request {
				done(ctx, s)
			}
		})
}

// lockstepStatus is how things stand, for `lockstep status`: an object.
func (c *connection) lockstepStatus(ctx actor.Context, args []json.RawMessage) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("LockstepStatus: %w", err)
	}
	c.withStatus(ctx, func(ctx actor.Context, s *messages.GetQueueStatusResult) {
		c.withCluster(ctx, func(ctx actor.Context, cluster config.Cluster) {
			c.withNodes(ctx, func(ctx actor.Context, nodes *answer.Nodes) {
				c.withStartError(ctx, func(ctx actor.Context, trouble string) { c.answerStatus(ctx, s, cluster, nodes, trouble) })
			})
		})
	})
	return nil
}

// withStartError finds out why job processes cannot be started; "": they can.
func (c *connection) withStartError(ctx actor.Context, done func(ctx actor.Context, trouble string)) {
	c.ask(ctx, repeatable, func(ctx actor.Context, request uint64) {
		ctx.Request(c.config.Jobs, &messages.GetStartError{Request: request})
	}, func(ctx actor.Context, m any) {
		if s, ok := m.(*messages.GetStartErrorResult); ok && s.Request == c.request {
			done(ctx, s.Text)
		}
	})
}

func (c *connection) answerStatus(ctx actor.Context, s *messages.GetQueueStatusResult, cluster config.Cluster, nodes *answer.Nodes, startError string) {
	about := c.config.About
	counts := map[string]int64{}
	for status, n := range s.Jobs {
		counts[job.Status(status).String()] = n
	}
	running := make([]answer.RunningJob, len(s.Active))
	for i, info := range s.Active {
		running[i] = answer.RunningJob{ID: info.Id, Status: query.StatusOf(info).String(), Summary: info.Summary,
			Priority: int(info.Priority), Started: answer.TimeOf(info.StartUs)}
	}
	c.succeed(ctx, answer.QueueStatus{
		Cluster: cluster.Name, Master: cluster.MasterName, Version: about.Version, PID: about.PID,
		Started: answer.TimeOf(about.Started.UnixMicro()), RunSlots: cluster.MaxRunningJobs,
		LastID: s.Serial, Drained: s.Drained, Jobs: counts, Running: running,
		Quarantined: append([]string{}, s.Quarantined...), WithSecrets: s.WithSecrets,
		Nodes: nodes, CannotStart: startError,
	})
}
