package jobs_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/jobs"
	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/jobproc"
	"lockstep/core/paths"
	"lockstep/messages"
)

// port records its calls, and the test answers them.
type port struct {
	mu    sync.Mutex
	calls []string
	last  map[int64]attempt // by job; the last attempt
	jobs  map[uint64]int64  // by attempt

	abandoned map[uint64]bool

	questions []uint64 // about accounts
}

type attempt struct {
	number uint64
	to     *actor.PID
}

func (p *port) note(format string, args ...any) {
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
}

func (p *port) Start(number uint64, started jobs.Job, to *actor.PID) {
	id := started.ID
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[id], p.jobs[number] = attempt{number, to}, id
	p.note("start %d", id)
}

func (p *port) Confirm(number uint64, hand []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note("confirm %d with %s", p.jobs[number], hand)
}

func (p *port) Abandon(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A second Abandon of an attempt has no effect.
	if id, known := p.jobs[number]; known && !p.abandoned[number] {
		p.abandoned[number] = true
		p.note("abandon %d", id)
	}
}

func (p *port) Tell(number uint64, order jobs.Order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note("tell %d %d", p.jobs[number], order.Kind)
}

func (p *port) Adopt(number uint64, started jobs.Job, pid int64, livelock string, to *actor.PID) {
	id := started.ID
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[id], p.jobs[number] = attempt{number, to}, id
	p.note("adopt %d pid %d %s", id, pid, livelock)
}

func (p *port) Probe(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note("probe %d", p.jobs[number])
}

func (p *port) Find(question uint64, users []jobproc.User, _ *actor.PID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.questions = append(p.questions, question)
	p.note("find %v", users)
}

// bench is a jobs actor with its job actors, and a probe for each neighbour.
type bench struct {
	*testing.T
	*kittest.Env
	store, queue, client, scheduler *kittest.Probe
	port                            *port
	jobs                            *actor.PID
}

const maxStarts = 2

func onBench(t *testing.T, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, store: e.Probe("store"), queue: e.Probe("queue"), client: e.Probe("client"),
			scheduler: e.Probe("scheduler"),
			port:      &port{last: map[int64]attempt{}, jobs: map[uint64]int64{}, abandoned: map[uint64]bool{}}}
		b.store.Answer(func(m any) any {
			if _, ok := m.(*messages.AnnounceStore); ok {
				return &messages.StoreStarted{Incarnation: 1}
			}
			return nil
		})
		b.jobs = e.Start("jobs", jobs.Props(jobs.Config{Env: e.Env, Store: b.store.PID, Queue: b.queue.PID,
			Scheduler: b.scheduler.PID, Processes: b.port, Accounts: b.port, MaxStarts: maxStarts}))
		require.Equal(t, uint64(1), kittest.Expect[*messages.JobsActorStarted](b.queue).Incarnation)
		f(t, b)
	})
}

// takeCalls returns the calls of the port since the last time.
func (b *bench) takeCalls() []string {
	b.Settle()
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	calls := b.port.calls
	b.port.calls = nil
	return calls
}

func (b *bench) send(m any) {
	b.queue.Ask(b.jobs, m)
	b.Settle()
}

// sendFromProcess sends a message of the port about the last attempt of a job.
func (b *bench) sendFromProcess(id int64, make func(number uint64) any) {
	b.Helper()
	b.port.mu.Lock()
	a := b.port.last[id]
	b.port.mu.Unlock()
	require.NotNil(b, a.to, "there is no attempt at job %d", id)
	b.Send(a.to, make(a.number))
	b.Settle()
}

func (b *bench) sendNamed(id int64) {
	b.sendFromProcess(id, func(n uint64) any {
		return &messages.ProcessNamed{Attempt: n, Pid: 100, Livelock: jobtest.Livelock(id)}
	})
}

func (b *bench) sendConfirmed(id int64) {
	b.sendFromProcess(id, func(n uint64) any { return &messages.ProcessConfirmed{Attempt: n} })
}

func (b *bench) sendHandshakeFailed(id int64, text string) {
	b.sendFromProcess(id, func(n uint64) any { return &messages.HandshakeFailed{Attempt: n, Text: text} })
}

func (b *bench) sendGone(id int64, text string) {
	b.sendFromProcess(id, func(n uint64) any { return &messages.ProcessGone{Attempt: n, Text: text} })
}

// expectStoreRequest expects a request of a job actor to the store.
func (b *bench) expectStoreRequest() (*messages.AccessStore, *actor.PID) {
	b.Helper()
	return kittest.ExpectFrom[*messages.AccessStore](b.store)
}

// answerWrite expects the durable write of one job file, and answers it.
func (b *bench) answerWrite(id int64, failure *messages.Failure) *job.Job {
	b.Helper()
	r, from := b.expectStoreRequest()
	require.NotNil(b, r.GetWrite(), "not a write: %v", r)
	require.True(b, r.GetWrite().Durable)
	file := r.GetWrite().Files[0]
	require.Equal(b, paths.JobPath(id), file.Path)
	done := &messages.ChangeFilesResult{}
	if failure != nil {
		done.Failures = []*messages.FileFailure{{Path: file.Path, Failure: failure}}
	}
	b.store.Ask(from, kittest.StoreResult(r, done))
	b.Settle()
	j, err := job.Decode(file.Content)
	require.NoError(b, err)
	return j
}

// answerRead expects the read of a job file, and answers it.
func (b *bench) answerRead(id int64, m *messages.ReadFileResult) {
	b.Helper()
	b.answerReadAt(paths.JobPath(id), m)
}

func (b *bench) answerReadAt(path string, m *messages.ReadFileResult) {
	b.Helper()
	r, from := b.expectStoreRequest()
	require.Equal(b, path, r.GetRead().GetPath())
	b.store.Ask(from, kittest.StoreResult(r, m))
	b.Settle()
}

func (b *bench) answerReadJob(j *job.Job) {
	b.Helper()
	b.answerRead(int64(j.ID), &messages.ReadFileResult{Content: job.Encode(j)})
}

// expectEnded expects JobEnded, and returns the job.
func (b *bench) expectEnded(id int64) *job.Job {
	b.Helper()
	m := kittest.Expect[*messages.JobEnded](b.queue)
	require.Equal(b, id, m.Id)
	j, err := job.Decode(m.Encoded)
	require.NoError(b, err)
	require.True(b, j.Status().Final())
	return j
}

func (b *bench) listActive() []int64 {
	b.Helper()
	b.client.Ask(b.jobs, &messages.ListActiveJobs{Request: 3})
	m := kittest.Expect[*messages.ListActiveJobsResult](b.client)
	require.Equal(b, uint64(3), m.Request)
	return m.Ids
}

func (b *bench) start(id int64) {
	b.send(&messages.StartJob{Id: id, Encoded: job.Encode(jobtest.Queued(id)), Launch: []byte("[null]")})
}

// run starts a job up to its confirmation.
func (b *bench) run(id int64) {
	b.Helper()
	b.start(id)
	b.sendNamed(id)
	b.answerWrite(id, nil)
	b.sendConfirmed(id)
	b.takeCalls()
}

var noDisk = messages.GenericFailure("no space left on device")
