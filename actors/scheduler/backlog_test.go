package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/scheduler"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/messages"
)

// inSmallSlices is onBench with a scheduler that decodes one job between two messages. atSlice is called before the nth message for the next
// slice is handled, from 1.
func inSmallSlices(t *testing.T, slots int, atSlice func(b *bench, nth int), f func(*testing.T, *bench)) {
	t.Helper()
	onBenchOf(t, slots, scheduler.Config{SliceWork: 1}, func(t *testing.T, b *bench) {
		nth := 0
		b.Panics.Watch(func(_ string, m any) {
			if strings.HasSuffix(fmt.Sprintf("%T", m), "scheduler.continueBacklog") {
				nth++
				atSlice(b, nth)
			}
		})
		f(t, b)
	})
}

// What is said of a job that is not decoded yet is not lost.
func TestMessagesAboutJobsOfTheBacklog(t *testing.T) {
	inSmallSlices(t, 20, func(b *bench, nth int) {
		if nth == 1 { // jobs 3 to 10 are not decoded
			b.send(&messages.VerdictsChanged{Verdicts: []*messages.Verdict{pausing(4), accepting(5)}})
			b.send(&messages.HoldChanged{Id: 6, Held: true, By: "ann"})
			b.send(&messages.JobReleased{Id: 7})
			b.send(&messages.PriorityChanged{Id: 8, Priority: -3})
			b.send(&messages.EnqueueJobs{Jobs: []*messages.UnfinishedJob{withVerdict(plainJobs(9)[0], pausing(9))}})
			b.add(unfinished(11, jobtest.Delay(dependsOn(10))))
			b.sendEnded(3, job.Canceled)
		}
	}, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, nil)
		b.enqueue(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		b.Settle()
		var picked []int64
		for _, m := range b.queue.Unread() {
			if p, is := m.(*messages.PickJob); is {
				picked = append(picked, p.Id)
				continue
			}
			require.Equal(t, waitsForDependencies(11), m, "job 10 is known, so the queue is not asked for its outcome")
		}
		require.ElementsMatch(t, []int64{1, 2, 5, 8, 10}, picked)
		require.Contains(t, b.explain(4), "pink bunny")
		require.Contains(t, b.explain(6), "ann")
		b.send(&messages.HoldChanged{Id: 6})
		b.sendVerdicts(accepting(4), accepting(9))
		require.ElementsMatch(t, []int64{4, 6, 9}, b.takePicked())
	})
}

// A question about a job that is not decoded yet is answered at once.
func TestAQuestionAboutAJobOfTheBacklog(t *testing.T) {
	inSmallSlices(t, 1, func(b *bench, nth int) {
		if nth == 1 {
			b.process.Ask(b.scheduler, &messages.ExplainJobs{Request: 1, Ids: []int64{10}})
		}
	}, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, nil)
		b.enqueue(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		reasons := kittest.Expect[*messages.ExplainJobsResult](b.process).Jobs[0].Reasons
		require.NotEmpty(t, reasons)
		order := reasons[len(reasons)-1].GetOrder()
		require.EqualValues(t, 2, order.Position)
		require.EqualValues(t, 2, order.Pending, "jobs 2 and 10, the others are not decoded")
	})
}

// Whether a wait closes a cycle is known when all jobs are.
func TestAWaitForAJobOfTheBacklog(t *testing.T) {
	inSmallSlices(t, 1, func(b *bench, nth int) {
		if nth == 1 {
			b.process.Ask(b.scheduler, &messages.AwaitJobs{Request: 1, Parent: 1, Ids: []int64{9}})
		}
	}, func(t *testing.T, b *bench) {
		b.answerJobsRequest(plainJobs(1), nil)
		jobs := plainJobs(2, 3, 4, 5, 6, 7, 8)
		b.add(append(jobs, unfinished(9, jobtest.Delay(dependsOn(1))))...)
		require.NotNil(t, kittest.Expect[*messages.AwaitJobsResult](b.process).Cycle)
	})
}

// Jobs that a rule does not hold back any more are decoded in slices. A rule that pauses some of them meanwhile is obeyed.
func TestARuleIsLiftedInSlices(t *testing.T) {
	slices := 0
	inSmallSlices(t, 20, func(b *bench, nth int) {
		if slices++; slices == 1 {
			b.send(&messages.VerdictsChanged{Verdicts: []*messages.Verdict{pausing(8)}})
			b.send(&messages.JobReleased{Id: 7})
		}
	}, func(t *testing.T, b *bench) {
		var jobs []*messages.UnfinishedJob
		var lifted []*messages.Verdict
		for _, w := range plainJobs(1, 2, 3, 4, 5, 6, 7, 8, 9, 10) {
			jobs, lifted = append(jobs, withVerdict(w, pausing(w.Id))), append(lifted, accepting(w.Id))
		}
		b.answerJobsRequest(nil, jobs)
		b.sendVerdicts(lifted...)
		require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 9, 10}, b.takePicked())
		require.Equal(t, 9, slices)
	})
}

// A queue that starts while there is a backlog sends all jobs again.
func TestTheQueueStartsWhileThereIsABacklog(t *testing.T) {
	inSmallSlices(t, 20, func(b *bench, nth int) {
		if nth == 1 {
			b.process.Ask(b.scheduler, &messages.AwaitJobs{Request: 1, Parent: 1, Ids: []int64{5}})
			b.send(&messages.QueueStarted{Incarnation: 2})
		}
	}, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, nil)
		b.enqueue(1, 2, 3, 4, 5)
		b.Settle()
		kittest.Expect[*messages.AwaitJobsResult](b.process)
		again := b.expectJobsRequest()
		b.queue.Unread()
		b.send(&messages.ListUnfinishedJobsResult{Request: again, Pending: plainJobs(2, 4)})
		require.Equal(t, []int64{2, 4}, b.takePicked())
	})
}
