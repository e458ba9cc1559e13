package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/scheduler"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// world is a scheduler with 20 active jobs that hold locks, and many pending ones.
type world struct {
	*kittest.Env
	queue, locks *kittest.Probe
	scheduler    *actor.PID
	running      []int64
}

func newWorld(b *testing.B, pending int, signatures int) *world {
	w := &world{Env: kittest.New(b)}
	w.queue, w.locks = w.Probe("queue"), w.Probe("locks")
	cluster := w.Probe("clusterconfig")
	cluster.Answer(func(any) any { return configOf(20, "") })
	pid, _, err := w.SpawnRoot(scheduler.Props(scheduler.Config{Env: w.Env.Env, Store: storeWithout(w.Env).PID, Queue: w.queue.PID, Locks: w.locks.PID,
		ClusterConfig: cluster.PID, Catalogue: opcode.Builtin()}), "scheduler")
	require.NoError(b, err)
	w.scheduler = pid
	p := &messages.ListUnfinishedJobsResult{Request: kittest.Expect[*messages.ListUnfinishedJobs](w.queue).Request}
	for id := int64(1); id <= 20; id++ {
		p.Active = append(p.Active, unfinished(id, lockingNode(fmt.Sprintf("n%d", id))))
		w.running = append(w.running, id)
	}
	for i := range pending {
		p.Pending = append(p.Pending, unfinished(int64(21+i), lockingNode(fmt.Sprintf("n%d", i%signatures))))
	}
	w.queue.Ask(pid, p)
	kittest.Expect[*messages.PublishLocks](w.locks)
	var records []lock.Record
	for _, id := range w.running {
		records = append(records, lock.Record{Owner: lock.JobOwner(job.ID(id), "/l", 7), Locks: node(fmt.Sprintf("n%d", id))})
	}
	w.locks.Ask(pid, &locks.OwnersPublished{Records: records, Complete: true})
	return w
}

// BenchmarkNextJob measures the time from the end of a job to the next PickJob, including
// the records of locks that come with a job.
func BenchmarkNextJob(b *testing.B) {
	for _, signatures := range []int{50, 100_000} {
		for _, pending := range []int{1_000, 100_000} {
			b.Run(fmt.Sprintf("pending=%d/signatures=%d", pending, signatures), func(b *testing.B) {
				w := newWorld(b, pending, signatures)
				next := int64(1_000_000)
				for b.Loop() {
					over := w.running[0]
					w.locks.Ask(w.scheduler, &locks.OwnersPublished{Records: []lock.Record{{Owner: lock.JobOwner(job.ID(over), "/l", 7)}}})
					w.queue.Ask(w.scheduler, &messages.JobReleased{Id: over, Ended: true, Status: int32(job.Success)})
					w.running = append(w.running[1:], kittest.Expect[*messages.PickJob](w.queue).Id)
					b.StopTimer() // keeps the number of pending jobs
					w.queue.Ask(w.scheduler, &messages.EnqueueJobs{Jobs: all(unfinished(next, lockingNode(fmt.Sprintf("n%d", int(next)%signatures))))})
					next++
					w.settled(b)
					b.StartTimer()
				}
			})
		}
	}
}

// settled waits until all messages are handled.
func (w *world) settled(b *testing.B) {
	w.locks.Ask(w.scheduler, &messages.ExplainJobs{Request: 1})
	kittest.Expect[*messages.ExplainJobsResult](w.locks)
}

// BenchmarkEnqueue enqueues a job while all slots are in use.
func BenchmarkEnqueue(b *testing.B) {
	for _, pending := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			w := newWorld(b, pending, 1000)
			w.settled(b)
			id := int64(1_000_000)
			for b.Loop() {
				w.queue.Ask(w.scheduler, &messages.EnqueueJobs{Jobs: all(unfinished(id, lockingNode("n7")))})
				w.settled(b)
				id++
			}
		})
	}
}

// BenchmarkRules adds and removes a rule for 100,000 pending jobs.
func BenchmarkRules(b *testing.B) {
	const pending = 100_000
	for _, action := range []filter.Verb{filter.Pause, filter.RateLimit} {
		b.Run(action.String(), func(b *testing.B) {
			w := newWorld(b, pending, 1000)
			on, off := &messages.VerdictsChanged{}, &messages.VerdictsChanged{}
			for i := range int64(pending) {
				on.Verdicts = append(on.Verdicts, &messages.Verdict{Id: 21 + i, Rule: "r", Action: int32(action), Limit: 5})
				off.Verdicts = append(off.Verdicts, accepting(21+i))
			}
			w.settled(b)
			for b.Loop() {
				w.queue.Ask(w.scheduler, on)
				w.queue.Ask(w.scheduler, off)
				w.settled(b)
			}
		})
	}
}

// BenchmarkPopulation starts a scheduler with 100,000 pending jobs.
func BenchmarkPopulation(b *testing.B) {
	w := newWorld(b, 0, 1)
	p := &messages.ListUnfinishedJobsResult{}
	for i := range int64(100_000) {
		p.Pending = append(p.Pending, unfinished(21+i, lockingNode(fmt.Sprintf("n%d", i%1000))))
	}
	p.Active = plainJobs(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
	for b.Loop() {
		w.queue.Ask(w.scheduler, &messages.QueueStarted{})
		next := &messages.ListUnfinishedJobsResult{Request: kittest.Expect[*messages.ListUnfinishedJobs](w.queue).Request, Pending: p.Pending, Active: p.Active}
		w.queue.Ask(w.scheduler, next)
		w.settled(b)
	}
}
