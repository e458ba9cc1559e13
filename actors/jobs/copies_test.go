package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/jobs"
	"lockstep/actors/kittest"
	"lockstep/actors/queuecopy"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/messages"
)

// The copier learns that a process of Ganeti sends its file before the process may act, and again when the copier restarts.
func TestTheCopierLearnsOfProcesses(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		copier := b.Probe("copier")
		b.jobs = b.Start("jobs-of-ganeti", jobs.Props(jobs.Config{Env: b.Env.Env, Store: b.store.PID, Queue: b.queue.PID,
			Scheduler: b.scheduler.PID, Processes: b.port, MaxStarts: maxStarts, QueueCopy: copier.PID}))
		kittest.Expect[*messages.JobsActorStarted](b.queue)
		b.send(&messages.StartJob{Id: 1, Encoded: job.Encode(jobtest.Queued(1)), Program: messages.JobProgram_GANETI_JOB})
		b.sendNamed(1)
		copier.Quiet()
		b.answerWrite(1, nil)
		require.Equal(t, &queuecopy.ProcessBegan{ID: 1}, kittest.Expect[*queuecopy.ProcessBegan](copier))
		b.sendConfirmed(1)
		b.send(&queuecopy.Started{Incarnation: 2})
		require.Equal(t, &queuecopy.ProcessBegan{ID: 1}, kittest.Expect[*queuecopy.ProcessBegan](copier))
		copier.Quiet()
	})
}
