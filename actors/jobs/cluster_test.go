package jobs_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/jobs"
	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/messages"
)

// node is a bench whose jobs actor is on a node of a cluster.
type node struct {
	*bench
	replicator *kittest.Probe
	leads      atomic.Bool
}

func onNode(t *testing.T, fence time.Duration, f func(*testing.T, *node)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, store: e.Probe("store"), queue: e.Probe("queue"), client: e.Probe("client"), scheduler: e.Probe("scheduler"),
			port: &port{last: map[int64]attempt{}, jobs: map[uint64]int64{}, abandoned: map[uint64]bool{}}}
		b.store.Answer(func(m any) any {
			if _, ok := m.(*messages.AnnounceStore); ok {
				return &messages.StoreStarted{Incarnation: 1}
			}
			return nil
		})
		n := &node{bench: b, replicator: e.Probe("replicator")}
		n.leads.Store(true)
		b.jobs = e.Start("jobs", jobs.Props(jobs.Config{Env: e.Env, Store: b.store.PID, Queue: b.queue.PID, Scheduler: b.scheduler.PID,
			Processes: b.port, MaxStarts: maxStarts, Leads: n.leads.Load, Replicator: n.replicator.PID, Fence: fence}))
		kittest.Expect[*messages.JobsActorStarted](b.queue)
		f(t, n)
	})
}

const fence = 2 * time.Second

func TestBehindTheFenceNothingIsStarted(t *testing.T) {
	onNode(t, fence, func(t *testing.T, n *node) {
		n.start(1)
		n.start(2)
		n.start(3)
		n.Advance(fence - time.Millisecond)
		require.Empty(t, n.takeCalls())
		require.Equal(t, []int64{1, 2, 3}, n.listActive())
		n.Advance(time.Millisecond)
		require.ElementsMatch(t, []string{"start 1", "start 2"}, n.takeCalls(), "no more than at other times")
		n.start(4)
		require.Empty(t, n.takeCalls())
	})
}

// Until the fence has passed, a job of a former master may be running. Its file is not
// read, because the job would be taken for dead.
func TestBehindTheFenceNothingIsAdopted(t *testing.T) {
	onNode(t, fence, func(t *testing.T, n *node) {
		n.adopt(jobtest.Running(1))
		n.adopt(jobtest.Running(1))
		require.Equal(t, []int64{1}, n.listActive())
		n.store.Quiet()
		n.client.Ask(n.jobs, &messages.OrderJob{Request: 5, Id: 1})
		require.Contains(t, kittest.Expect[*messages.OrderJobResult](n.client).Text, "just being adopted")
		n.Advance(fence)
		n.answerReadJob(jobtest.Running(1))
		require.Equal(t, []string{"adopt 1 pid 100 " + jobtest.Livelock(1)}, n.takeCalls())
		n.sendGone(1, "its process has ended")
		n.answerReadJob(jobtest.Running(1))
		n.answerWrite(1, nil)
		require.Equal(t, job.Error, n.expectEnded(1).Status())
		n.store.Quiet()
		n.adopt(jobtest.Running(2))
		n.answerReadJob(jobtest.Running(2))
	})
}

func TestAWaitingJobIsGivenBackBehindTheFence(t *testing.T) {
	onNode(t, fence, func(t *testing.T, n *node) {
		n.start(1)
		n.client.Ask(n.jobs, &messages.OrderJob{Request: 5, Id: 1})
		require.Equal(t, int64(1), kittest.Expect[*messages.JobReturned](n.queue).Id)
		require.Equal(t, int64(1), kittest.Expect[*messages.OrderJob](n.queue).Id)
		n.Advance(fence)
		require.Empty(t, n.takeCalls())
	})
}

// The fence is not shortened by a crash.
func TestTheFenceStandsAfterACrash(t *testing.T) {
	onNode(t, fence, func(t *testing.T, n *node) {
		n.start(1)
		n.Restart(n.jobs)
		kittest.Expect[*messages.JobsActorStarted](n.queue)
		n.start(1)
		require.Empty(t, n.takeCalls())
		n.Advance(fence)
		require.Equal(t, []string{"start 1"}, n.takeCalls())
	})
}

func TestDrainingBehindTheFence(t *testing.T) {
	onNode(t, fence, func(t *testing.T, n *node) {
		n.start(1)
		n.client.Ask(n.jobs, &messages.Drain{})
		kittest.Expect[*messages.DrainResult](n.client)
		n.Advance(fence)
		require.Empty(t, n.takeCalls())
	})
}

func TestNoProcessGetsItsPermissionFromOneThatIsNotTheMaster(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.start(1)
		n.sendNamed(1)
		n.leads.Store(false)
		n.answerWrite(1, nil)
		require.Equal(t, []string{"start 1", "abandon 1"}, n.takeCalls())
		n.sendHandshakeFailed(1, "called off")
		n.sendNeverActed(1)
		n.answerReadJob(jobtest.Named(1))
		require.Equal(t, undone(1), n.answerWrite(1, nil))
		n.expectReturned(1)
	})
}

func TestTheOthersHearOfWhatAProcessWrites(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.run(1)
		n.replicator.Quiet()
		encoded := job.Encode(jobtest.Running(1))
		n.send(&messages.ProcessReported{Id: 1, Livelock: jobtest.Livelock(1), Encoded: encoded})
		m := kittest.Expect[*messages.ReplicateJobFile](n.replicator)
		require.Equal(t, int64(1), m.Id)
		require.Zero(t, m.Request, "nobody waits for it")
		require.Equal(t, encoded, m.Encoded)
		require.Equal(t, encoded, kittest.Expect[*messages.JobProgressed](n.queue).Encoded)
		n.send(&messages.ProcessReported{Id: 1, Livelock: "another", Encoded: encoded})
		n.replicator.Quiet()
		n.send(&messages.ProcessReported{Id: 1, Livelock: jobtest.Livelock(1)})
		n.answerReadJob(jobtest.Running(1))
		require.Equal(t, encoded, kittest.Expect[*messages.ReplicateJobFile](n.replicator).Encoded)
	})
}

// No failover may undo an end that a client has received.
func TestAnEndIsToldWhenTheOthersHaveIt(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.run(1)
		n.queue.Unread()
		n.sendGone(1, "exit status 0")
		n.answerReadJob(jobtest.Succeeded(1))
		n.store.Quiet() // its process has made the end durable
		m, from := kittest.ExpectFrom[*messages.ReplicateJobFile](n.replicator)
		require.NotZero(t, m.Request)
		require.Equal(t, job.Encode(jobtest.Succeeded(1)), m.Encoded)
		n.replicator.Ask(from, &messages.ReplicateJobFileResult{Request: m.Request + 1})
		n.queue.Quiet()
		n.replicator.Ask(from, &messages.ReplicateJobFileResult{Request: m.Request})
		require.Equal(t, job.Success, n.expectEnded(1).Status())
		n.queue.Quiet()
		require.Empty(t, n.listActive())
	})
}

// A restarted replicator has lost its open requests.
func TestAnEndIsObservedAgainByANewReplicator(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.run(1)
		n.sendGone(1, "exit status 0")
		n.answerReadJob(jobtest.Succeeded(1))
		first := kittest.Expect[*messages.ReplicateJobFile](n.replicator)
		n.send(&messages.StoreStarted{Incarnation: 2})
		again, from := kittest.ExpectFrom[*messages.ReplicateJobFile](n.replicator)
		require.Equal(t, first.Request, again.Request)
		require.Equal(t, first.Encoded, again.Encoded)
		n.Send(from, &messages.ReplicateJobFileResult{Request: again.Request})
		n.Send(from, &messages.ReplicateJobFileResult{Request: again.Request})
		n.expectEnded(1)
		n.Settle()
		n.queue.Quiet()
		n.send(&messages.StoreStarted{Incarnation: 3})
		n.replicator.Quiet()
	})
}

// An end that the daemon writes reaches the other nodes like every write.
func TestAnEndThatTheDaemonWritesIsNotObserved(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.run(1)
		n.sendGone(1, "ended by SIGKILL")
		n.answerReadJob(jobtest.Running(1))
		n.answerWrite(1, nil)
		require.Equal(t, job.Error, n.expectEnded(1).Status())
		n.replicator.Quiet()
	})
}

// No failover may undo a result on which the next opcode builds.
func TestTheNextOpcodeBeginsWhenTheOthersHaveTheEndOfTheFormer(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.run(1)
		n.report(betweenOpcodes(1))
		require.Zero(t, kittest.Expect[*messages.ReplicateJobFile](n.replicator).Request)
		ask := func(request uint64) (*messages.ReplicateJobFile, *actor.PID) {
			n.client.Ask(n.jobs, &messages.BeginOp{Request: request, Id: 1, Livelock: jobtest.Livelock(1), Op: 1})
			return kittest.ExpectFrom[*messages.ReplicateJobFile](n.replicator)
		}
		_, _ = ask(5)
		m, from := ask(6) // its connection was lost
		require.Equal(t, job.Encode(betweenOpcodes(1)), m.Encoded)
		n.scheduler.Quiet()
		n.replicator.Ask(from, &messages.ReplicateJobFileResult{Request: m.Request})
		require.Equal(t, uint64(6), kittest.Expect[*messages.BeginOp](n.scheduler).Request)
		n.scheduler.Quiet()
	})
}

// The write of the name has failed, but the log may have the name: the number of the start is not used again.
func TestAStartWhoseNameMayBeInTheLogIsNumbered(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.start(1)
		n.sendNamed(1)
		n.answerWrite(1, noDisk)
		n.sendHandshakeFailed(1, "called off")
		n.sendNeverActed(1)
		n.answerReadJob(jobtest.Queued(1))
		require.Equal(t, undone(1), n.answerWrite(1, nil))
		m := kittest.Expect[*messages.JobReturned](n.queue)
		require.Equal(t, job.Encode(undone(1)), m.Encoded)
	})
}

// A process of an older version makes a lock file without the number of its start, which is the first. As the second it is abandoned.
func TestAProcessWithTheNumberOfAnotherStart(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.send(&messages.StartJob{Id: 1, Encoded: job.Encode(undone(1)), Launch: []byte("[null]")})
		n.sendNamed(1)
		require.Equal(t, []string{"start 1", "abandon 1"}, n.takeCalls())
		n.store.Quiet()
	})
}

// A cancel calls a start off while the name of its process is on its way through the log: the end is written with the name, so that a
// node that has the name takes the end.
func TestACancelWhileTheNameIsInTheLog(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.start(1)
		n.sendNamed(1)
		n.order(&messages.OrderJob{Request: 5, Id: 1})
		require.Equal(t, []string{"start 1", "abandon 1"}, n.takeCalls())
		n.sendNeverActed(1)
		n.answerWrite(1, nil)
		n.answerReadJob(jobtest.Named(1))
		end := n.answerWrite(1, nil)
		require.Equal(t, job.Canceled, end.Status())
		require.Equal(t, jobtest.Livelock(1), end.Livelock)
		n.expectEnded(1)
	})
}

// The former actor has crashed while the name of its process was on its way through the log: the next start has another number.
func TestACrashWhileTheNameIsInTheLog(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.adopt(jobtest.Queued(1))
		n.answerReadJob(jobtest.Queued(1))
		n.answerReadJob(jobtest.Queued(1))
		require.Equal(t, undone(1), n.answerWrite(1, nil))
		require.Equal(t, job.Encode(undone(1)), kittest.Expect[*messages.JobReturned](n.queue).Encoded)
	})
}
