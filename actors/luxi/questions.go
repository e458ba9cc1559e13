package luxi

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/clusterconfig"
	"lockstep/actors/conn"
	"lockstep/actors/locks"
	"lockstep/actors/scheduler"
	"lockstep/core/answer"
	"lockstep/core/config"
	"lockstep/core/config/model"
	"lockstep/core/query"
	"lockstep/messages"
)

// The questions of calls to other actors, one function each. then gets the answer; a failure becomes the answer to the
// client. Each question may be sent twice, but where its function says otherwise.

func (c *call) toQueue(message func(number uint64) any) conn.Question {
	return conn.Question{To: c.config.Queue, Message: message, LostBy: conn.QueueRestart}
}

// toCore is a question to one of the actors that restart together: locks, scheduler, filters, configuration.
func toCore(to *actor.PID, message func(number uint64) any) conn.Question {
	return conn.Question{To: to, Message: message, LostBy: conn.CoreRestart}
}

// toNodes is a question to the replicator. It is sent again after a restart of the queue; a question that a restart of
// the replicator loses runs into answerTimeout.
func (c *call) toNodes(message func(number uint64) any) conn.Question {
	return conn.Question{To: c.config.Replicator, Message: message, LostBy: conn.QueueRestart}
}

// askRows asks the queue for the jobs with these ids.
func (c *call) askRows(ctx actor.Context, ids []int64, then func(actor.Context, []*messages.JobRow)) {
	ask(c, ctx, c.toQueue(func(number uint64) any { return &messages.ListJobs{Request: number, Ids: ids} }),
		func(ctx actor.Context, a *messages.ListJobsResult) { then(ctx, a.Rows) })
}

// askStatus asks for the state of the queue as a whole.
func (c *call) askStatus(ctx actor.Context, then func(actor.Context, *messages.GetQueueStatusResult)) {
	ask(c, ctx, c.toQueue(func(number uint64) any { return &messages.GetQueueStatus{Request: number} }), then)
}

// askStartError asks why job processes cannot be started. "" means that they can.
func (c *call) askStartError(ctx actor.Context, then func(ctx actor.Context, startError string)) {
	q := conn.Question{To: c.config.Jobs, LostBy: conn.QueueRestart,
		Message: func(number uint64) any { return &messages.GetStartError{Request: number} }}
	ask(c, ctx, q, func(ctx actor.Context, a *messages.GetStartErrorResult) { then(ctx, a.Text) })
}

// askRunSlots asks how many run slots are taken. A job that is held between two opcodes has a process and no slot.
func (c *call) askRunSlots(ctx actor.Context, then func(ctx actor.Context, taken int)) {
	ask(c, ctx, toCore(c.config.Scheduler, func(number uint64) any { return &messages.GetRunSlots{Request: number} }),
		func(ctx actor.Context, a *messages.GetRunSlotsResult) { then(ctx, int(a.Taken)) })
}

// askFailingWrites asks which files cannot be written now: those of jobs, by id, and then one of the daemon's others.
func (c *call) askFailingWrites(ctx actor.Context, then func(actor.Context, []answer.CannotWrite)) {
	q := func(to *actor.PID) conn.Question {
		return conn.Question{To: to, LostBy: conn.QueueRestart | conn.CoreRestart,
			Message: func(number uint64) any { return &messages.GetFailingWrites{Request: number} }}
	}
	ask(c, ctx, q(c.config.Jobs), func(ctx actor.Context, ofJobs *messages.GetFailingWritesResult) {
		ask(c, ctx, q(c.config.Store), func(ctx actor.Context, others *messages.GetFailingWritesResult) {
			failing := []answer.CannotWrite{}
			for _, w := range append(slices.Clone(ofJobs.Writes), others.Writes...) {
				known := w.Id == 0 && slices.ContainsFunc(failing, func(f answer.CannotWrite) bool { return f.Text == w.Text })
				if !known { // the daemon cannot write the file of a job
					failing = append(failing, cannotWrite(w))
				}
			}
			then(ctx, failing)
		})
	})
}

func cannotWrite(w *messages.FailingWrite) answer.CannotWrite {
	by := answer.ByDaemon
	if w.ByProcess {
		by = answer.ByProcess
	}
	return answer.CannotWrite{Job: w.Id, By: by, Text: w.Text, Since: answer.TimeOf(w.SinceUs)}
}

// askExplanations asks the scheduler what holds these jobs back, in the order of ids.
func (c *call) askExplanations(ctx actor.Context, ids []int64, then func(actor.Context, []*messages.JobExplanation)) {
	ask(c, ctx, toCore(c.config.Scheduler, func(number uint64) any { return &messages.ExplainJobs{Request: number, Ids: ids} }),
		func(ctx actor.Context, a *messages.ExplainJobsResult) { then(ctx, a.Jobs) })
}

// askSnapshot asks the scheduler for what estimates are computed from.
func (c *call) askSnapshot(ctx actor.Context, ids []int64, then func(actor.Context, *scheduler.Snapshot)) {
	ask(c, ctx, toCore(c.config.Scheduler, func(number uint64) any { return &scheduler.TakeSnapshot{Request: number, Ids: ids} }), then)
}

// askMarked asks which jobs wait for the end of other jobs, and which are shown as waiting for locks.
func (c *call) askMarked(ctx actor.Context, then func(actor.Context, *messages.ListDependenciesResult)) {
	ask(c, ctx, toCore(c.config.Scheduler, func(number uint64) any { return &messages.ListDependencies{Request: number, Marked: true} }), then)
}

// askBlocked asks which jobs wait for the end of other jobs, and which are not started because of locks.
func (c *call) askBlocked(ctx actor.Context, then func(actor.Context, *messages.ListDependenciesResult)) {
	q := toCore(c.config.Scheduler, func(number uint64) any {
		return &messages.ListDependencies{Request: number, Blocked: true}
	})
	ask(c, ctx, q, then)
}

// askLocks makes a call to the lock manager, whose value is a V.
func askLocks[V any](c *call, ctx actor.Context, op locks.Operation, then func(actor.Context, V)) {
	askFallible(c, ctx, toCore(c.config.Locks, func(number uint64) any { return &locks.Operate{Request: number, Operation: op} }),
		func(ctx actor.Context, a *locks.OperateResult) { then(ctx, a.Value.(V)) })
}

// askLockWaits asks which lock owners wait, and for which others.
func (c *call) askLockWaits(ctx actor.Context, then func(actor.Context, []answer.LockWait)) {
	askLocks(c, ctx, locks.ListWaits{}, then)
}

// askConfig asks for the configuration and for lockstep's settings, the content of settings.json.
func (c *call) askConfig(ctx actor.Context, then func(ctx actor.Context, config *model.Config, settings []byte)) {
	ask(c, ctx, toCore(c.config.ClusterConfig, func(number uint64) any { return &messages.PublishConfig{Request: number} }),
		func(ctx actor.Context, a *clusterconfig.ConfigPublished) { then(ctx, a.Config, a.Settings) })
}

// askOfConfig asks for the configuration and computes a part of it. An error of part is a ConfigurationError.
func askOfConfig[T any](c *call, ctx actor.Context, part func(*model.Config) (T, error), then func(actor.Context, T)) {
	c.askConfig(ctx, func(ctx actor.Context, config *model.Config, _ []byte) {
		value, err := part(config)
		if err != nil {
			c.fail(ctx, configFailure(err))
			return
		}
		then(ctx, value)
	})
}

// askStatusOfConfig asks for what the status needs: the cluster, and the damaged settings in the quarantine.
func (c *call) askStatusOfConfig(ctx actor.Context, then func(actor.Context, config.Cluster, []string)) {
	ask(c, ctx, toCore(c.config.ClusterConfig, func(number uint64) any { return &messages.PublishConfig{Request: number} }),
		func(ctx actor.Context, a *clusterconfig.ConfigPublished) {
			cluster, err := config.ClusterOf(a.Config)
			if err != nil {
				c.fail(ctx, configFailure(err))
				return
			}
			then(ctx, cluster, a.SetAside)
		})
}

func configFailure(err error) *messages.Failure {
	return messages.ConfigurationFailure(err.Error())
}

// askDocument asks for the objects of the configuration.
func (c *call) askDocument(ctx actor.Context, then func(actor.Context, *config.Document)) {
	c.askConfig(ctx, func(ctx actor.Context, current *model.Config, _ []byte) { then(ctx, config.DocumentOf(current)) })
}

// askRules asks for the filter rules, in the order of answers.
func (c *call) askRules(ctx actor.Context, then func(actor.Context, []*config.Object)) {
	q := toCore(c.config.Filters, func(number uint64) any { return &messages.ListFilters{Request: number} })
	ask(c, ctx, q, func(ctx actor.Context, a *messages.ListFiltersResult) {
		rules := make([]*config.Object, len(a.Rules))
		for i, data := range a.Rules {
			if err := json.Unmarshal(data, &rules[i]); err != nil {
				c.fail(ctx, messages.Generic(fmt.Errorf("a filter rule: %w", err)))
				return
			}
		}
		slices.SortFunc(rules, func(a, b *config.Object) int { return query.CompareRules(*a, *b) })
		then(ctx, rules)
	})
}

// askNodes asks for the nodes of the cluster and their states. nil means that the daemon belongs to no cluster.
func (c *call) askNodes(ctx actor.Context, then func(actor.Context, *answer.Nodes)) {
	if c.config.Replicator == nil {
		then(ctx, nil)
		return
	}
	ask(c, ctx, c.toNodes(func(number uint64) any { return &messages.GetNodes{Request: number, WithStates: true} }),
		func(ctx actor.Context, a *messages.GetNodesResult) {
			nodes := NodesOf(a)
			then(ctx, &nodes)
		})
}
