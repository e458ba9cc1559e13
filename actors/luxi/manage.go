package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/core/queuecopy"
	"lockstep/messages"
)

// Range of the priority that a client can give to a job after its submission (queue.md 7). -20 is the most urgent.
const (
	priorityMin = -20
	priorityMax = 19
)

// cancelJob takes [id, kill], and [id] from old clients.
func cancelJob(c *call, ctx actor.Context, args []json.RawMessage) error {
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
	orderJob(c, ctx, int64(id), func(number uint64) any {
		return &messages.OrderJob{Request: number, Id: int64(id), Kind: kind, By: c.by}
	})
	return nil
}

// changeJobPriority takes [id, priority].
func changeJobPriority(c *call, ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	var priority int
	if err := arguments(args, &id, &priority); err != nil {
		return fmt.Errorf("ChangeJobPriority: %w", err)
	}
	if priority < priorityMin || priority > priorityMax {
		c.succeed(ctx, [2]any{false, fmt.Sprintf("Priority %d is not between %d and %d", priority, priorityMin, priorityMax)})
		return nil
	}
	orderJob(c, ctx, int64(id), func(number uint64) any {
		return &messages.OrderJob{Request: number, Id: int64(id), Kind: messages.OrderJob_SET_PRIORITY, Priority: int32(priority)}
	})
	return nil
}

// lockstepHoldJob takes [id, hold]: with hold the job begins no opcode until a call without it.
func lockstepHoldJob(c *call, ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	var hold bool
	if err := arguments(args, &id, &hold); err != nil {
		return fmt.Errorf("LockstepHoldJob: %w", err)
	}
	kind := messages.OrderJob_RELEASE
	if hold {
		kind = messages.OrderJob_HOLD
	}
	orderJob(c, ctx, int64(id), func(number uint64) any {
		return &messages.OrderJob{Request: number, Id: int64(id), Kind: kind, By: c.by}
	})
	return nil
}

// orderJob sends a client order. The answer is [done, text]. Sent twice, it does no harm: the second answer reports
// what the first order has done.
func orderJob(c *call, ctx actor.Context, id int64, order func(number uint64) any) {
	ask(c, ctx, c.toQueue(order), func(ctx actor.Context, a *messages.OrderJobResult) {
		c.succeedCopied(ctx, [2]any{a.Done, a.Text}, queuecopy.Unit(id))
	})
}

// archiveJob takes [id]. The answer is whether the job was archived.
func archiveJob(c *call, ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	if err := arguments(args, &id); err != nil {
		return fmt.Errorf("ArchiveJob: %w", err)
	}
	if id == 0 {
		c.succeed(ctx, false) // no job has id 0, and the queue takes it for all jobs of some age
		return nil
	}
	archive(c, ctx, &messages.ArchiveJobs{Id: int64(id)}, func(a *messages.ArchiveJobsResult) any { return a.Archived > 0 })
	return nil
}

// autoArchiveJobs takes [age, timeout], both in seconds; a negative age means all final jobs (queue.md 4.9). The answer
// is [archived, remaining].
func autoArchiveJobs(c *call, ctx actor.Context, args []json.RawMessage) error {
	var age, timeout int64
	if err := arguments(args, &age, &timeout); err != nil {
		return fmt.Errorf("AutoArchiveJobs: %w", err)
	}
	archive(c, ctx, &messages.ArchiveJobs{AgeS: age, TimeoutS: timeout},
		func(a *messages.ArchiveJobsResult) any { return [2]int64{a.Archived, a.Remaining} })
	return nil
}

func archive(c *call, ctx actor.Context, m *messages.ArchiveJobs, result func(*messages.ArchiveJobsResult) any) {
	q := c.toQueue(func(number uint64) any {
		return &messages.ArchiveJobs{Request: number, Id: m.Id, AgeS: m.AgeS, TimeoutS: m.TimeoutS}
	})
	ask(c, ctx, q, func(ctx actor.Context, a *messages.ArchiveJobsResult) {
		if a.Failure != nil {
			c.fail(ctx, &messages.Failure{Class: a.Failure.Class,
				Text: fmt.Sprintf("%d jobs were archived; of the others, the first could not be: %s", a.Archived, a.Failure.Text)})
			return
		}
		c.succeed(ctx, result(a))
	})
}

// setDrainFlag takes [drained]. A drained queue refuses submissions.
func setDrainFlag(c *call, ctx actor.Context, args []json.RawMessage) error {
	var drained bool
	if err := arguments(args, &drained); err != nil {
		return fmt.Errorf("SetDrainFlag: %w", err)
	}
	askFallible(c, ctx, c.toQueue(func(number uint64) any { return &messages.SetDrain{Request: number, Drained: drained} }),
		func(ctx actor.Context, _ *messages.SetDrainResult) { c.succeedCopied(ctx, true, queuecopy.Drain) })
	return nil
}

// lockstepStatus takes []. The answer is an answer.QueueStatus.
func lockstepStatus(c *call, ctx actor.Context, args []json.RawMessage) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("LockstepStatus: %w", err)
	}
	c.askStatus(ctx, func(ctx actor.Context, s *messages.GetQueueStatusResult) {
		c.askStatusOfConfig(ctx, func(ctx actor.Context, cluster config.Cluster, setAside []string) {
			c.askNodes(ctx, func(ctx actor.Context, nodes *answer.Nodes) {
				c.askStartError(ctx, func(ctx actor.Context, startError string) {
					c.askForeign(ctx, func(ctx actor.Context, foreign string) {
						status := queueStatus(c.config.About, s, cluster, nodes, startError)
						status.ForeignConfig = foreign
						status.Quarantined = append(status.Quarantined, setAside...)
						c.addToStatus(ctx, status)
					})
				})
			})
		})
	})
	return nil
}

// addToStatus completes a status and answers with it.
func (c *call) addToStatus(ctx actor.Context, status answer.QueueStatus) {
	c.askRunSlots(ctx, func(ctx actor.Context, taken int) {
		status.SlotsTaken = taken
		c.askFailingWrites(ctx, func(ctx actor.Context, failing []answer.CannotWrite) {
			status.CannotWrite = failing
			c.succeed(ctx, status)
		})
	})
}

func queueStatus(
	about About, s *messages.GetQueueStatusResult, cluster config.Cluster,
	nodes *answer.Nodes, startError string,
) answer.QueueStatus {
	counts := map[string]int64{}
	for status, n := range s.Jobs {
		counts[job.Status(status).String()] = n
	}
	running := make([]answer.RunningJob, len(s.Active))
	for i, info := range s.Active {
		running[i] = answer.RunningJob{ID: info.Id, Status: query.ClientStatus(info).String(), Summary: info.Summary,
			Priority: int(info.Priority), Started: answer.TimeOf(info.StartUs)}
	}
	settings, _ := config.DecodeSettings(s.Settings) // the queue has decoded them
	return answer.QueueStatus{
		Retention: answer.Retention{
			ArchiveAfter:        settings.ArchiveAfter(about.ArchiveAfter).Seconds(),
			KeepLast:            settings.KeepLast,
			Archived:            s.AutoArchived,
			RemoveArchivedAfter: settings.RemoveArchivedAfter(about.RemoveArchivedAfter).Seconds(),
		},
		Cluster: cluster.Name, Master: cluster.MasterName, Version: about.Version, DataDir: about.DataDir, PID: about.PID,
		Started: answer.TimeOf(about.Started.UnixMicro()), RunSlots: cluster.MaxRunningJobs,
		LastID: s.Serial, Drained: s.Drained, Jobs: counts, Marked: s.Marked, Running: running,
		Quarantined: append([]string{}, s.Quarantined...), WithSecrets: s.WithSecrets,
		Nodes: nodes, CannotStart: startError,
	}
}
