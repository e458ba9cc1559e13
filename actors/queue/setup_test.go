package queue_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/queue"
	"lockstep/core/access"
	"lockstep/core/config/configtest"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/messages"
)

const livelock = "/run/livelocks/daemon_1"

// configuration is that of a cluster of one node.
var configuration = configtest.Complete(configtest.Must{}, []byte(`{"cluster": {"master_node": "u1"},
	"nodes": {"u1": {"name": "n1", "group": "g1"}}, "nodegroups": {"g1": {"name": "default"}}}`))

var noLimits = queue.Limits{}

// bench is a queue alone; probes are its neighbours.
type bench struct {
	*testing.T
	*kittest.Env
	store, scheduler, jobs, gateway, client, locks *kittest.Probe
	cluster, filters                               *kittest.Probe
	queue                                          *actor.PID
}

// onBench runs a test with a queue that has received no answer yet. Its filter engine
// accepts all jobs.
func onBench(t *testing.T, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e)
		b.cluster.Answer(func(any) any { return &clusterconfig.ConfigPublished{Config: configuration} })
		b.start(noLimits)
		f(t, b)
		b.checkCounters()
	})
}

// checkCounters checks that the counters of the queue match its list of jobs.
func (b *bench) checkCounters() {
	b.Helper()
	if b.Failed() {
		return
	}
	b.client.Unread()
	b.client.Ask(b.queue, &messages.GetQueueStatus{Request: 98})
	b.client.Ask(b.queue, &messages.ListJobs{Request: 99, All: true})
	b.Settle()
	answers := b.client.Unread()
	if len(answers) < 2 { // still reading the disk
		return
	}
	status, listed := answers[0].(*messages.GetQueueStatusResult), answers[1].(*messages.ListJobsResult)
	jobs, infos, marked := map[int32]int64{}, map[int64]*messages.JobInfo{}, 0
	for _, row := range listed.Rows {
		jobs[int32(query.ClientStatus(row.Info))]++
		if row.Info.Wait == messages.StartWait_FOR_LOCKS && row.Info.Status == int32(job.Queued) {
			marked++
		}
		infos[row.Id] = row.Info
	}
	require.Equal(b, len(jobs), len(status.Jobs), "%v, %v", jobs, status.Jobs)
	require.EqualValues(b, marked, status.Marked)
	for s, n := range jobs {
		require.Equal(b, n, status.Jobs[s], job.Status(s))
	}
	for _, running := range status.Active {
		require.Same(b, infos[running.Id], running)
	}
}

func newBench(t *testing.T, e *kittest.Env) *bench {
	b := &bench{T: t, Env: e, store: e.Probe("store"), scheduler: e.Probe("scheduler"), jobs: e.Probe("jobs"),
		gateway: e.Probe("gateway"), client: e.Probe("client"), locks: e.Probe("locks"),
		cluster: e.Probe("clusterconfig"), filters: e.Probe("filters")}
	b.store.Answer(noSchedules)
	b.judge()
	return b
}

// noSchedules answers the question for the files of schedules, of which there are none.
func noSchedules(m any) any {
	if r, asks := m.(*messages.AccessStore); asks && r.GetList() != nil {
		return kittest.StoreResult(r, &messages.ListDirResult{})
	}
	return nil
}

func (b *bench) start(limits queue.Limits) {
	b.Helper()
	b.queue = b.Start("queue", queue.Props(b.configOf(limits)))
}

func (b *bench) configOf(limits queue.Limits) queue.Config {
	return queue.Config{Env: b.Env.Env, Store: b.store.PID, Scheduler: b.scheduler.PID,
		Daemon: access.Submitter{Name: "root"}, Jobs: b.jobs.PID, Locks: b.locks.PID, ClusterConfig: b.cluster.PID, Filters: b.filters.PID, Catalogue: opcode.Builtin(),
		Gateways: []*actor.PID{b.gateway.PID}, Livelock: livelock, Limits: limits}
}

// judge makes the filter engine answer with these verdicts from now on.
func (b *bench) judge(verdicts ...*messages.Verdict) {
	b.filters.Answer(func(m any) any {
		question, asks := m.(*messages.EvaluateFilters)
		if !asks {
			return nil
		}
		answer := &messages.EvaluateFiltersResult{Request: question.Request}
		for _, w := range question.Jobs {
			for _, v := range verdicts {
				if v.Id == w.Id {
					answer.Verdicts = append(answer.Verdicts, v)
				}
			}
		}
		return answer
	})
}

// onReady runs a test with a queue that has recovered with these jobs, none of them
// active; the serial is the highest id.
func onReady(t *testing.T, jobs []*job.Job, f func(*testing.T, *bench)) {
	t.Helper()
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(scanOf(jobs...))
		for _, p := range []*kittest.Probe{b.store, b.scheduler, b.jobs, b.gateway, b.filters, b.locks} {
			p.Unread()
		}
		f(t, b)
	})
}

// recover answers all questions of the queue until it is ready.
func (b *bench) recover(scan *messages.ScanQueueResult, activeIDs ...int64) {
	b.Helper()
	b.storeStarts(1)
	b.listActive(activeIDs...)
	b.tellScan(scan)
	b.filtersStart()
}

// filtersStart makes the filter engine announce itself, as it does when it receives
// QueueStarted.
func (b *bench) filtersStart() {
	b.filters.Ask(b.queue, &messages.FiltersStarted{Incarnation: 1})
	b.Settle()
}

func (b *bench) storeStarts(epoch uint64) {
	b.Helper()
	kittest.Expect[*messages.AnnounceStore](b.store)
	b.store.Ask(b.queue, &messages.StoreStarted{Incarnation: epoch})
}

func (b *bench) listActive(ids ...int64) {
	b.Helper()
	question := kittest.Expect[*messages.ListActiveJobs](b.jobs)
	b.jobs.Ask(b.queue, &messages.ListActiveJobsResult{Request: question.Request, Ids: ids})
	b.Settle()
}

func (b *bench) tellScan(scan *messages.ScanQueueResult) {
	b.Helper()
	r := b.storeAsked()
	require.NotNil(b, r.GetScan())
	b.storeAnswers(r, kittest.StoreResult(r, scan))
}

func (b *bench) storeAsked() *messages.AccessStore {
	b.Helper()
	return kittest.Expect[*messages.AccessStore](b.store)
}

func (b *bench) storeAnswers(r *messages.AccessStore, a *messages.AccessStoreResult) {
	a.Request = r.Request
	b.store.Ask(b.queue, a)
	b.Settle()
}

func (b *bench) fileRead(r *messages.AccessStore, read *messages.ReadFileResult) {
	b.Helper()
	require.NotNil(b, r.GetRead())
	b.storeAnswers(r, kittest.StoreResult(r, read))
}

// filesDone answers a write or a removal, with a failure for each of these paths.
func (b *bench) filesDone(r *messages.AccessStore, failed ...string) {
	done := &messages.ChangeFilesResult{}
	for _, path := range failed {
		done.Failures = append(done.Failures, &messages.FileFailure{Path: path,
			Failure: messages.GenericFailure("no " + path)})
	}
	b.storeAnswers(r, kittest.StoreResult(r, done))
}

// scanOf is a queue directory with these jobs and no others.
func scanOf(jobs ...*job.Job) *messages.ScanQueueResult {
	scan := &messages.ScanQueueResult{Serial: []byte("0\n")}
	for _, j := range jobs {
		scan.Jobs = append(scan.Jobs, &messages.ScannedJob{Id: int64(j.ID), Content: job.Encode(j)})
		scan.Serial = paths.FormatSerial(int64(j.ID))
	}
	return scan
}

// Builders of jobs.
var (
	newJob  = jobtest.Queued
	running = jobtest.Running
	ended   = jobtest.Succeeded
)

// draft is a job to submit, with one opcode.
func draft(secrets string) *messages.JobDraft {
	op := &messages.OpDraft{Input: []byte(`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "reason": []}`)}
	if secrets != "" {
		op.Secrets = []byte(secrets)
	}
	return &messages.JobDraft{Ops: []*messages.OpDraft{op}}
}

// submit submits n jobs as one request.
func (b *bench) submit(request uint64, n int) {
	m := &messages.SubmitJobs{Request: request}
	for range n {
		m.Jobs = append(m.Jobs, draft(""))
	}
	b.client.Ask(b.queue, m)
	b.Settle()
}

func (b *bench) submitted(request uint64) *messages.SubmitJobsResult {
	b.Helper()
	m := kittest.Expect[*messages.SubmitJobsResult](b.client)
	require.Equal(b, request, m.Request)
	return m
}

// commit makes the commit on its way succeed.
func (b *bench) commit() {
	b.Helper()
	jobs := b.storeAsked()
	require.Equal(b, paths.SerialPath, jobs.GetWrite().GetCommitRecord().GetPath())
	b.filesDone(jobs)
}

// filePaths are the files of a write or a removal.
func filePaths(r *messages.AccessStore) []string {
	all := r.GetRemove().GetPaths()
	for _, f := range r.GetWrite().GetFiles() {
		all = append(all, f.Path)
	}
	return all
}

// rowOf is the row that the queue shows of a job.
func (b *bench) rowOf(id int64) *messages.JobRow {
	b.Helper()
	b.client.Ask(b.queue, &messages.ListJobs{Request: 99, Ids: []int64{id}})
	return kittest.Expect[*messages.ListJobsResult](b.client).Rows[0]
}
