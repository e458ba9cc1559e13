package scheduler_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/luxi/jobs"
	"lockstep/actors/scheduler"
	"lockstep/core/config/configtest"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// bench is a scheduler with a probe for each neighbour.
type bench struct {
	*testing.T
	*kittest.Env
	queue, locks, cluster, process *kittest.Probe
	scheduler                      *actor.PID
	config                         *clusterconfig.ConfigPublished // in force
}

// onBench runs a test with a scheduler without predictive order, which has sent
// ListUnfinishedJobs and has no answer.
func onBench(t *testing.T, slots int, f func(*testing.T, *bench)) {
	t.Helper()
	onBenchOf(t, slots, scheduler.Config{}, f)
}

// onGanetiBench is onBench in Ganeti mode.
func onGanetiBench(t *testing.T, slots int, f func(*testing.T, *bench)) {
	t.Helper()
	onBenchOf(t, slots, scheduler.Config{GanetiJobs: true}, f)
}

// onBenchOf is onBench with fields of the scheduler's Config that are not its neighbours.
func onBenchOf(t *testing.T, slots int, c scheduler.Config, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, queue: e.Probe("queue"), locks: e.Probe("locks"), cluster: e.Probe("clusterconfig"),
			process: e.Probe("process"), config: configOf(slots, `{"predictive": false}`)}
		b.cluster.Answer(func(any) any { return b.config })
		b.queue.Answer(sameVerdict)
		c.Env, c.Store, c.Queue, c.Locks, c.ClusterConfig, c.Catalogue = e.Env, storeWithout(e).PID, b.queue.PID, b.locks.PID, b.cluster.PID, opcode.Builtin()
		b.scheduler = e.Start("scheduler", scheduler.Props(c))
		f(t, b)
	})
}

// sameVerdict says that the rules say of a job at an opcode what they have said before.
func sameVerdict(m any) any {
	if r, is := m.(*messages.ReachOp); is {
		return &messages.ReachOpResult{Request: r.Request, Verdict: &messages.Verdict{Id: r.Id}}
	}
	return nil
}

// storeWithout is a store without files, which writes nothing.
func storeWithout(e *kittest.Env) *kittest.Probe {
	p := e.Probe("store")
	p.Answer(func(m any) any {
		switch m := m.(type) {
		case *messages.AnnounceStore:
			return &messages.StoreStarted{Incarnation: 1}
		case *messages.AccessStore:
			if m.GetRead() != nil {
				return &messages.AccessStoreResult{Request: m.Request, What: &messages.AccessStoreResult_Read{Read: &messages.ReadFileResult{Missing: true}}}
			}
			return &messages.AccessStoreResult{Request: m.Request, What: &messages.AccessStoreResult_Files{Files: &messages.ChangeFilesResult{}}}
		}
		return nil
	})
	return p
}

// configOf is a configuration with so many slots, and these settings.
func configOf(slots int, settings string) *clusterconfig.ConfigPublished {
	return &clusterconfig.ConfigPublished{Config: configtest.New(configtest.Must{}, configtest.Slots(slots)), Settings: []byte(settings)}
}

// reconfigure sends a changed configuration.
func (b *bench) reconfigure(slots int, settings string) {
	b.config = configOf(slots, settings)
	b.cluster.Ask(b.scheduler, b.config)
	b.Settle()
}

// expectJobsRequest expects ListUnfinishedJobs and returns its number.
func (b *bench) expectJobsRequest() uint64 {
	b.Helper()
	return kittest.Expect[*messages.ListUnfinishedJobs](b.queue).Request
}

// answerJobsRequest answers ListUnfinishedJobs.
func (b *bench) answerJobsRequest(running, pending []*messages.UnfinishedJob) {
	b.Helper()
	b.send(&messages.ListUnfinishedJobsResult{Request: b.expectJobsRequest(), Active: running, Pending: pending})
	b.Settle()
}

func (b *bench) send(msg any) { b.queue.Ask(b.scheduler, msg) }

func (b *bench) sendReleased(ids ...int64) {
	for _, id := range ids {
		b.send(&messages.JobReleased{Id: id})
	}
}

func (b *bench) sendEnded(id int64, status job.Status) {
	b.send(&messages.JobReleased{Id: id, Ended: true, Status: int32(status)})
}

// enqueue enqueues jobs of priority 0 without locks.
func (b *bench) enqueue(ids ...int64) { b.send(&messages.EnqueueJobs{Jobs: plainJobs(ids...)}) }

func (b *bench) add(jobs ...*messages.UnfinishedJob) { b.send(&messages.EnqueueJobs{Jobs: jobs}) }

// plainJobs are jobs of one opcode without locks.
func plainJobs(ids ...int64) []*messages.UnfinishedJob {
	var jobs []*messages.UnfinishedJob
	for _, id := range ids {
		jobs = append(jobs, unfinished(id, jobtest.Delay()))
	}
	return jobs
}

// dependsOn is a parameter of an opcode: it depends on the end of job id in one of the
// statuses.
func dependsOn(id int64, statuses ...string) string {
	list, err := json.Marshal(append([]string{}, statuses...))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`"depends": [[%d, %s]]`, id, list)
}

// withReason is a parameter of an opcode: a reason trail of one entry.
func withReason(text string) string { return `"reason": [["gnt:user", "` + text + `", 1]]` }

// lockingNode is an OP_RUN_COMMAND that locks the node exclusively.
func lockingNode(node string) string {
	return `{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": [["node/` + node + `", "exclusive"]]}`
}

// newJob is a job received at the start of the test's clock.
func newJob(id int64, ops ...string) *job.Job {
	j := jobtest.Queued(id, ops...)
	j.Received = job.Timestamp{Sec: 1_704_067_200}
	return j
}

func unfinished(id int64, ops ...string) *messages.UnfinishedJob {
	return kittest.Unfinished(newJob(id, ops...))
}

// withVerdict gives a job a verdict.
func withVerdict(w *messages.UnfinishedJob, v *messages.Verdict) *messages.UnfinishedJob {
	v.Id, w.Verdict = w.Id, v
	return w
}

// withPriority is a job with that priority.
func withPriority(priority int, id int64, ops ...string) *messages.UnfinishedJob {
	j := newJob(id, ops...)
	for i := range j.Ops {
		j.Ops[i].Priority = priority
	}
	return kittest.Unfinished(j)
}

// takePicked returns the jobs picked since the last call, in order. Any other message to
// the queue fails the test, except of jobs that are shown as waiting for locks.
func (b *bench) takePicked() []int64 {
	b.Helper()
	var ids []int64
	for _, m := range b.queue.Unread() {
		if w, is := m.(*messages.StartWaitChanged); is {
			require.Equal(b, messages.StartWait_FOR_LOCKS, w.Wait)
			continue
		}
		require.IsType(b, &messages.PickJob{}, m)
		ids = append(ids, m.(*messages.PickJob).Id)
	}
	return ids
}

// sendBeginOp sends the request of a job's process to begin an opcode.
func (b *bench) sendBeginOp(request uint64, id int64, op int32) {
	b.process.Ask(b.scheduler, &messages.BeginOp{Request: request, Id: id, Livelock: "l", Op: op})
	b.Settle()
}

// takePermitted returns the numbers of the BeginOps permitted since the last call. Any
// other answer fails the test.
func (b *bench) takePermitted() []uint64 {
	b.Helper()
	var requests []uint64
	for _, m := range b.process.Unread() {
		a := m.(*messages.BeginOpResult)
		require.Nil(b, a.Failure)
		require.False(b, a.Denied)
		requests = append(requests, a.Request)
	}
	return requests
}

// takeAll returns the messages to a probe since the last call. A message of another type
// fails the test.
func takeAll[M any](b *bench, p *kittest.Probe) []M {
	b.Helper()
	var all []M
	for _, m := range p.Unread() {
		require.IsType(b, *new(M), m)
		all = append(all, m.(M))
	}
	return all
}

// explain is the answer to ExplainJobs for one job.
func (b *bench) explain(id int64) string {
	b.Helper()
	b.process.Ask(b.scheduler, &messages.ExplainJobs{Request: 9, Ids: []int64{id}})
	a := kittest.Expect[*messages.ExplainJobsResult](b.process)
	require.Equal(b, uint64(9), a.Request)
	require.Len(b, a.Jobs, 1)
	require.Equal(b, id, a.Jobs[0].Id)
	encoded, err := json.Marshal(jobs.Reasons(a.Jobs[0].Reasons))
	require.NoError(b, err)
	return string(encoded)
}
