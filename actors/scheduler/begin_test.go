package scheduler_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/lock"
	"lockstep/messages"
)

func TestTheNextOpcodeMayBegin(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, all(unfinished(1, jobtest.Delay(), jobtest.Delay())))
		b.expectQueueGets(picks(1))
		b.sendBeginOp(7, 1, 1)
		require.Equal(t, []uint64{7}, b.takePermitted())
	})
}

func TestAJobThatIsNotKnownMayNot(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, nil)
		b.sendBeginOp(7, 1, 1)
		a := kittest.Expect[*messages.BeginOpResult](b.process)
		require.Equal(t, uint64(7), a.Request)
		require.Equal(t, messages.ClassJobLost, a.Failure.Class)
	})
}

func TestWhoAsksBeforeThePopulationIsKnownWaits(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.sendBeginOp(7, 1, 1)
		b.sendBeginOp(8, 2, 1)
		require.Empty(t, b.takePermitted())
		b.answerJobsRequest(all(unfinished(1, jobtest.Delay(), jobtest.Delay())), nil)
		answers := takeAll[*messages.BeginOpResult](b, b.process)
		require.Len(t, answers, 2)
		slices.SortFunc(answers, func(a, b *messages.BeginOpResult) int { return int(a.Request) - int(b.Request) })
		require.Nil(t, answers[0].Failure)
		require.Equal(t, messages.ClassJobLost, answers[1].Failure.Class)
	})
}

// The process gets its permission when the verdict at the opcode is known, which comes before the answer to ReachOp.
func TestTheVerdictAtAnOpcode(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.queue.Answer(nil)
		b.answerJobsRequest(nil, all(unfinished(1, jobtest.Delay(), jobtest.Delay())))
		b.expectQueueGets(picks(1))
		b.sendBeginOp(6, 1, 0)
		require.Equal(t, []uint64{6}, b.takePermitted(), "the verdict on a new job is about its first opcode")

		b.sendBeginOp(7, 1, 1)
		b.sendBeginOp(7, 1, 1) // repeated
		b.Settle()
		asked := kittest.Expect[*messages.ReachOp](b.queue)
		require.EqualExportedValues(t, &messages.ReachOp{Request: asked.Request, Id: 1, Op: 1}, asked)
		b.queue.Quiet()
		b.send(&messages.ReachOpResult{Request: asked.Request - 1, Verdict: &messages.Verdict{Id: 1}}) // of a former incarnation
		require.Empty(t, b.takePermitted())
		b.send(&messages.VerdictsChanged{Verdicts: []*messages.Verdict{{Id: 1, Rule: "r", Action: int32(filter.Pause)}}})
		b.send(&messages.ReachOpResult{Request: asked.Request, Verdict: &messages.Verdict{Id: 1, Rule: "r", Action: int32(filter.Pause)}})
		require.Empty(t, b.takePermitted())
		b.send(&messages.VerdictsChanged{Verdicts: []*messages.Verdict{{Id: 1}}})
		require.Equal(t, []uint64{7}, b.takePermitted())
	})
}

// If a job sends BeginOp twice, only the last one is answered.
func TestWhoAsksTwiceIsAnsweredOnce(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.addChain()
		b.expectQueueGets(picks(1))
		other := b.Probe("other")
		other.Ask(b.scheduler, &messages.BeginOp{Request: 1, Id: 2, Livelock: "l", Op: 1})
		b.expectQueueGets()
		b.sendEnded(1, job.Success)
		require.Empty(t, b.takePermitted())
		require.Equal(t, uint64(1), kittest.Expect[*messages.BeginOpResult](other).Request)
		other.Quiet()
	})
}

func TestAJobThatLeavesWhileItWaits(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.addChain()
		b.expectQueueGets(picks(1))
		b.sendEnded(2, job.Canceled)
		a := kittest.Expect[*messages.BeginOpResult](b.process)
		require.Equal(t, uint64(7), a.Request)
		require.Equal(t, messages.ClassJobLost, a.Failure.Class)
		b.sendEnded(1, job.Success)
		b.process.Quiet()
		b.expectQueueGets()
	})
}

// A connection repeats its open question after a restart of the queue. On its way, which may take the read and the replication of the job's
// file, the question can be overtaken by its answer. Then the opcode runs: the job keeps its slot, and is not taken for one that waits.
func TestAQuestionThatArrivesAfterItsAnswer(t *testing.T) {
	for name, meanwhile := range map[string]func(b *bench){
		"nothing happens":        func(*bench) {},
		"the queue restarts":     func(b *bench) { b.send(&messages.QueueStarted{Incarnation: 2}); b.answerWithSecondOpcode() },
		"the scheduler restarts": func(b *bench) { b.Restart(b.scheduler); b.answerWithSecondOpcode() },
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.answerWithSecondOpcode()
				b.sendBeginOp(7, 1, 1)
				require.Equal(t, []uint64{7}, b.takePermitted())
				meanwhile(b)
				b.sendVerdicts(pausing(1))
				b.sendBeginOp(7, 1, 1)
				require.Empty(t, b.takePicked(), "job 1 runs its second opcode in the slot")
				require.Empty(t, b.takePermitted())
				b.process.Ask(b.scheduler, &messages.GetBeginWait{Request: 3, Id: 1})
				require.False(t, kittest.Expect[*messages.GetBeginWaitResult](b.process).Waits)

				b.sendBeginOp(8, 1, 1) // the process has lost its locks by the pause
				require.Equal(t, []int64{2}, b.takePicked())
				require.Empty(t, b.takePermitted())
				b.sendBeginOp(8, 1, 1) // repeated before its answer
				b.sendVerdicts(accepting(1))
				b.sendReleased(2)
				require.Equal(t, []uint64{8}, b.takePermitted())
			})
		})
	}
}

// The numbers of two connections have nothing to do with one another.
func TestTheSameNumberOfAnotherConnection(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.answerWithSecondOpcode()
		b.sendBeginOp(7, 1, 1)
		require.Equal(t, []uint64{7}, b.takePermitted())
		other := b.Probe("other")
		other.Ask(b.scheduler, &messages.BeginOp{Request: 7, Id: 1, Livelock: "l", Op: 1})
		require.Equal(t, uint64(7), kittest.Expect[*messages.BeginOpResult](other).Request)
	})
}

// In the order expected, a job that begins its next opcode gives its slot back when its locks are taken. A question that arrives after its
// answer takes no slot back.
func TestAQuestionThatArrivesAfterItsAnswerInTheOrderExpected(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.reconfigure(1, `{"order": "expected"}`)
		b.answerJobsRequest(all(unfinished(1, jobtest.Delay(), lockingNode("a"))), plainJobs(2))
		b.sendBeginOp(7, 1, 1)
		require.Equal(t, []uint64{7}, b.takePermitted())
		b.sendLocks(true, lock.Record{Owner: lock.NamedOwner("admin", "/l/admin", 78), Locks: node("a")})
		b.sendBeginOp(7, 1, 1)
		require.Empty(t, b.takePicked(), "job 1 waits for its locks in the slot")
		b.sendBeginOp(8, 1, 1)
		require.Equal(t, []int64{2}, b.takePicked())
	})
}

// answerWithSecondOpcode answers ListUnfinishedJobs: job 1 is between its two opcodes, and job 2 is pending.
func (b *bench) answerWithSecondOpcode() {
	b.Helper()
	b.answerJobsRequest(all(unfinished(1, jobtest.Delay(), jobtest.Delay())), plainJobs(2))
}

// After a restart of the queue, open BeginOps are answered, although their processes may
// not repeat them.
func TestWhoWaitsWhenTheQueueRestartsIsNotForgotten(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.addChain()
		b.expectQueueGets(picks(1))
		b.send(&messages.QueueStarted{Incarnation: 2})
		b.send(&messages.QueueStarted{Incarnation: 3})
		b.expectJobsRequest()
		job2 := newJob(2, jobtest.Delay(), jobtest.Delay(dependsOn(1, "success")))
		job2.Ops[0].Status, job2.Ops[1].Status = job.Success, job.Waiting
		b.answerJobsRequest(append(plainJobs(1), kittest.Unfinished(job2)), nil)
		require.Empty(t, b.takePermitted())
		b.expectQueueGets()
		b.sendEnded(1, job.Success)
		require.Equal(t, []uint64{7}, b.takePermitted())
		b.process.Quiet()
	})
}

// After a restart of the scheduler an active job keeps its slot until its next BeginOp.
func TestAJobThatWaitedWhenTheSchedulerRestarted(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.addChain()
		b.expectQueueGets(picks(1))
		b.Restart(b.scheduler)
		job2 := newJob(2, jobtest.Delay(), jobtest.Delay(dependsOn(1, "success")))
		job2.Ops[0].Status, job2.Ops[1].Status = job.Success, job.Waiting
		b.answerJobsRequest(append(plainJobs(1), kittest.Unfinished(job2)), plainJobs(3))
		b.sendEnded(1, job.Success)
		b.expectQueueGets()
		b.sendBeginOp(8, 2, 1)
		b.expectQueueGets(looksUp(1), picks(3))
		b.send(&messages.GetJobOutcomeResult{Id: 1, Status: int32(job.Success)})
		require.Empty(t, b.takePermitted())
		b.sendReleased(3)
		require.Equal(t, []uint64{8}, b.takePermitted())
	})
}

func TestANewIncarnationAsksEverybody(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, nil)
		kittest.Expect[*messages.PublishLocks](b.locks)
		b.Restart(b.scheduler)
		b.locks.Quiet()
		b.answerJobsRequest(nil, plainJobs(1))
		kittest.Expect[*messages.PublishLocks](b.locks)
		b.expectQueueGets(picks(1))
	})
}

// Without a configuration the number of slots is unknown.
func TestTheSchedulerWaitsForTheConfiguration(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.cluster.Answer(func(any) any { return nil })
		b.Restart(b.scheduler)
		b.send(&messages.QueueStarted{Incarnation: 2})
		b.expectQueueGets()
		b.cluster.Ask(b.scheduler, configOf(2, "{"))
		b.expectQueueGets()
		require.Len(t, b.Logged("settings cannot be used; the scheduler keeps the former ones"), 1)
		b.reconfigure(2, "")
		b.answerJobsRequest(nil, plainJobs(1, 2, 3))
		require.Equal(t, []int64{1, 2}, b.takePicked())
	})
}

// Two adopted jobs share one place in a limit, because one of them had returned its place
// between two opcodes. This job waits until the other job ends.
func TestAFoundJobYieldsItsPlaceInAFullLimit(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		limited := jobtest.Delay(withReason("rate-limit:1:b"))
		b.answerJobsRequest(all(unfinished(1, limited, limited), unfinished(2, limited, limited)), nil)
		b.sendBeginOp(7, 1, 1)
		require.Empty(t, b.takePermitted())
		b.sendBeginOp(8, 2, 1)
		require.Equal(t, []uint64{8}, b.takePermitted())
		b.sendEnded(2, job.Success)
		require.Equal(t, []uint64{7}, b.takePermitted())
	})
}

// A job between two opcodes competes for a slot at its current priority, whether the
// priority changes before or after its BeginOp.
func TestAJobThatGoesOnWaitsAtItsNewPriority(t *testing.T) {
	for name, early := range map[string]bool{"before it stands in line": true, "in line": false} {
		t.Run(name, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.answerJobsRequest(all(unfinished(1, jobtest.Delay(), jobtest.Delay())), plainJobs(2))
				b.expectQueueGets()
				b.sendVerdicts(pausing(1))
				b.sendBeginOp(7, 1, 1)
				require.Empty(t, b.takePermitted())
				require.Equal(t, []int64{2}, b.takePicked())
				b.add(withPriority(-10, 3, jobtest.Delay()))
				changed := &messages.PriorityChanged{Id: 1, Priority: -20}
				if early {
					b.send(changed)
				}
				b.sendVerdicts(accepting(1))
				if !early {
					b.send(changed)
				}
				b.sendReleased(2)
				require.Equal(t, []uint64{7}, b.takePermitted())
				require.Empty(t, b.takePicked())
				b.sendReleased(1)
				require.Equal(t, []int64{3}, b.takePicked())
				b.send(&messages.PriorityChanged{Id: 99, Priority: 1})
			})
		})
	}
}
