package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/messages"
)

// From now on the jobs actor answers each CallOff at once.
func (b *bench) callOffAtOnce() {
	b.jobs.Answer(func(m any) any {
		if m, is := m.(*messages.CallOff); is {
			return &messages.CallOffResult{Request: m.Request}
		}
		return nil
	})
}

func (b *bench) expectCallOff(ids ...int64) uint64 {
	b.Helper()
	m := kittest.Expect[*messages.CallOff](b.jobs)
	require.Equal(b, ids, m.Ids)
	b.client.Quiet()
	return m.Request
}

func (b *bench) calledOff(request uint64, mayBegin ...int64) {
	b.jobs.Ask(b.queue, &messages.CallOffResult{Request: request, MayBegin: mayBegin})
	b.Settle()
}

// A hold of a job that was chosen is answered when it is durable and the start is called off. The job is pending again, with its
// secrets.
func TestAHoldWaitsUntilTheStartIsCalledOff(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submitSecret()
		launch := b.picked(1).Launch
		b.orderHold(1, true)
		b.jobs.Quiet()
		b.filesDone(b.storeAsked())
		request := b.expectCallOff(1)
		b.jobs.Ask(b.queue, &messages.JobReturned{Id: 1})
		b.calledOff(request)
		b.expectOrder(true, "Job 1 is held")
		b.scheduler.Unread()
		b.scheduler.Ask(b.queue, &messages.PickJob{Id: 1})
		b.Settle()
		b.jobs.Quiet()

		b.orderHold(1, false)
		b.filesDone(b.storeAsked())
		b.expectOrder(true, "Job 1 is released")
		require.Equal(t, launch, b.picked(1).Launch)
	})
}

func TestTheAnswerToALateHoldNamesTheOpcode(t *testing.T) {
	second := jobtest.Running(1, jobtest.Delay(), jobtest.Delay())
	second.Ops[0].Status, second.Ops[1].Status = job.Success, job.Waiting
	for text, c := range map[string]struct {
		job      *job.Job
		mayBegin []int64
		done     bool
	}{
		"Job 1 is held; opcode 1 has begun":       {running(1), nil, true},
		"Job 1 is held; opcode 2 may still begin": {second, []int64{1}, true},
		"Job 1 is held":            {second, nil, true},
		"Job 1 not found in queue": {ended(1), nil, false},
	} {
		t.Run(text, func(t *testing.T) {
			onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
				b.orderHold(1, true)
				b.filesDone(b.storeAsked())
				request := b.expectCallOff(1)
				if c.job.Status().Final() {
					b.jobs.Ask(b.queue, &messages.JobEnded{Id: 1, Encoded: job.Encode(c.job)})
				} else {
					b.jobs.Ask(b.queue, &messages.JobProgressed{Id: 1, Encoded: job.Encode(c.job)})
				}
				b.calledOff(request, c.mayBegin...)
				b.expectOrder(c.done, text)
			})
		})
	}
}

// The next jobs actor is asked again, after it has got the active jobs. An answer to a former queue is dropped.
func TestACallOffSurvivesTheJobsActor(t *testing.T) {
	onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
		b.orderHold(1, true)
		b.filesDone(b.storeAsked())
		first := b.expectCallOff(1)
		b.calledOff(first - 1<<32)
		b.client.Quiet()
		b.jobs.Unread()
		b.jobs.Ask(b.queue, &messages.JobsActorStarted{Incarnation: 2})
		b.Settle()
		kittest.Expect[*messages.AdoptJob](b.jobs)
		b.calledOff(b.expectCallOff(1), 1)
		b.expectOrder(true, "Job 1 is held; opcode 1 has begun")
	})
}

// A release that overtakes the answer to a hold is in that answer.
func TestAReleaseBeforeTheAnswerToAHold(t *testing.T) {
	onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
		b.orderHold(1, true)
		b.filesDone(b.storeAsked())
		request := b.expectCallOff(1)
		b.orderHold(1, false)
		b.filesDone(b.storeAsked())
		b.expectOrder(true, "Job 1 is released")
		b.calledOff(request, 1)
		b.expectOrder(false, "Job 1 has been released since")
	})
}
