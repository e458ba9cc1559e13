package jobs

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// lockstepStatus takes []. The answer is an answer.QueueStatus.
func lockstepStatus(c *request, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("LockstepStatus: %w", err)
	}
	c.AskStatus(ctx, func(ctx actor.Context, s *messages.GetQueueStatusResult) {
		c.askStatusOfConfig(ctx, func(ctx actor.Context, cluster config.Cluster, setAside []string) {
			c.AskNodes(ctx, func(ctx actor.Context, nodes *answer.Nodes) {
				c.askStartError(ctx, 0, func(ctx actor.Context, startError *messages.GetStartErrorResult) {
					c.askForeign(ctx, func(ctx actor.Context, foreign string) {
						status := queueStatus(c.Config.About, s, cluster, nodes, startError.Text)
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

// addToStatus completes a status with the run slots, the failing writes and the schedules, and answers with it.
func (c *request) addToStatus(ctx actor.Context, status answer.QueueStatus) {
	c.askRunSlots(ctx, func(ctx actor.Context, taken int) {
		status.SlotsTaken = taken
		c.askHindrances(ctx, func(ctx actor.Context, failing []answer.CannotWrite, _ []*messages.ReaderWait) {
			c.askAuditFailure(ctx, failing, func(ctx actor.Context, failing []answer.CannotWrite) {
				status.CannotWrite = failing
				c.askScheduleSummary(ctx, func(ctx actor.Context, schedules *answer.ScheduleSummary) {
					status.Schedules = schedules
					c.Succeed(ctx, status)
				})
			})
		})
	})
}

func queueStatus(
	about call.About, s *messages.GetQueueStatusResult, cluster config.Cluster,
	nodes *answer.Nodes, startError string,
) answer.QueueStatus {
	counts := map[string]int64{}
	for status, n := range s.Jobs {
		counts[job.Status(status).String()] = n
	}
	running := make([]answer.RunningJob, len(s.Active))
	for i, info := range s.Active {
		running[i] = answer.RunningJob{ID: info.Id, Name: info.Name, Status: query.ClientStatus(info).String(), Summary: info.Summary,
			Priority: int(info.Priority), Started: answer.TimeOf(info.StartUs), Progress: query.ProgressOf(info)}
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
		LastID: s.Serial, Drained: s.Drained, Jobs: counts, Marked: s.Marked, BetweenTries: s.BetweenTries, NotDue: s.NotDue, Running: running,
		Quarantined: append([]string{}, s.Quarantined...), WithSecrets: s.WithSecrets,
		Nodes: nodes, CannotStart: startError, MembersAreRoot: about.MembersAreRoot,
		Guarded: about.Guarded != nil && about.Guarded(),
	}
}
