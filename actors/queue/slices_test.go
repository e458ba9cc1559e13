package queue_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/queue"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/messages"
)

// inSmallSlices is onReady with a queue that makes one job between two messages. atSlice is called before the nth message for the next slice
// is handled, from 1.
func inSmallSlices(t *testing.T, atSlice func(b *bench, nth int), f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e)
		b.cluster.Answer(func(any) any { return &clusterconfig.ConfigPublished{Config: configuration} })
		nth := 0
		b.Panics.Watch(func(_ string, m any) {
			if strings.HasSuffix(fmt.Sprintf("%T", m), "queue.proceed") {
				nth++
				atSlice(b, nth)
			}
		})
		c := b.configOf(noLimits)
		c.SliceWork = 1
		b.queue = b.Start("queue", queue.Props(c))
		b.recover(scanOf())
		for _, p := range []*kittest.Probe{b.store, b.scheduler, b.jobs, b.gateway, b.filters, b.locks} {
			p.Unread()
		}
		f(t, b)
		b.checkCounters()
	})
}

func TestMessagesComeBetweenTheSlicesOfASubmission(t *testing.T) {
	slices := 0
	inSmallSlices(t, func(b *bench, nth int) {
		if slices = nth; nth == 1 {
			b.gateway.Ask(b.queue, &messages.GetQueueStatus{Request: 5})
			b.client.Ask(b.queue, &messages.SubmitJobs{Request: 2, Jobs: []*messages.JobDraft{draft("")}})
		}
	}, func(t *testing.T, b *bench) {
		b.submit(1, 10)
		require.Zero(t, kittest.Expect[*messages.GetQueueStatusResult](b.gateway).Serial, "no job had its id")
		require.Equal(t, 18, slices, "each job is checked, then built; the first of both at once")
		first := b.storeAsked()
		require.Len(t, filePaths(first), 10)
		require.Equal(t, "10\n", string(first.GetWrite().CommitRecord.Content))
		b.client.Quiet()
		b.filesDone(first)
		require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, b.submitted(1).Ids)
		b.commit()
		require.Equal(t, []int64{11}, b.submitted(2).Ids)
	})
}

// The whole submission is on the disk, or nothing of it.
func TestTheQueueCrashesBetweenTheSlicesOfASubmission(t *testing.T) {
	for _, nth := range []int{1, 4, 7} {
		inSmallSlices(t, func(*bench, int) {}, func(t *testing.T, b *bench) {
			b.Panics.Arm(kittest.DeliveryKind{Actor: "above-queue/queue", Message: "*queue.proceed"}, nth, kittest.Before)
			b.submit(1, 5)
			require.True(t, b.Panics.Fired())
			b.store.Quiet()
			b.client.Quiet()
			b.Advance(kittest.Backoff)
			b.recover(scanOf())
			b.client.Ask(b.queue, &messages.CheckSubmission{Request: 1})
			require.Equal(t, uint64(1), kittest.Expect[*messages.CheckSubmissionResult](b.client).Request)
			b.store.Unread()
			b.scheduler.Unread()
			b.submit(2, 1)
			b.commit()
			require.Equal(t, []int64{1}, b.submitted(2).Ids)
		})
	}
}

// A filter engine that starts while jobs are built is asked about them once.
func TestTheFilterEngineStartsWhileASubmissionIsBuilt(t *testing.T) {
	inSmallSlices(t, func(b *bench, nth int) {
		if nth == 6 {
			b.filters.Ask(b.queue, &messages.FiltersStarted{Incarnation: 2})
		}
	}, func(t *testing.T, b *bench) {
		var asked []int
		b.filters.Answer(func(m any) any {
			question, asks := m.(*messages.EvaluateFilters)
			if !asks {
				return nil
			}
			asked = append(asked, len(question.Jobs))
			return &messages.EvaluateFiltersResult{Request: question.Request}
		})
		b.submit(1, 5)
		b.commit()
		require.Len(t, b.submitted(1).Ids, 5)
		require.Equal(t, []int{0, 5}, asked)
	})
}

func TestARejectedSubmissionInSlices(t *testing.T) {
	inSmallSlices(t, func(*bench, int) {}, func(t *testing.T, b *bench) {
		var verdicts []*messages.Verdict
		for _, id := range []int64{1, 2, 4} {
			verdicts = append(verdicts, &messages.Verdict{Id: id, Rule: "r", Action: int32(filter.Reject)})
		}
		b.judge(verdicts...)
		b.submit(1, 4)
		b.commit()
		require.Len(t, b.submitted(1).Ids, 4)
		for id, want := range []job.Status{job.Canceled, job.Canceled, job.Queued, job.Canceled} {
			require.EqualValues(t, want, b.rowOf(int64(id+1)).Info.Status)
		}
		require.Len(t, kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs, 1)
	})
}

// A submission that no process can run is answered without its commit, and takes no ids from the others.
func TestARefusedSubmissionLeavesItsCommit(t *testing.T) {
	bare := &messages.OpDraft{Input: []byte(`{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": [["n1", "shared"]]}`)}
	inSmallSlices(t, func(*bench, int) {}, func(t *testing.T, b *bench) {
		b.submit(1, 1)
		b.client.Ask(b.queue, &messages.SubmitJobs{Request: 2, Jobs: []*messages.JobDraft{draft(""), {Ops: []*messages.OpDraft{bare}}}})
		b.submit(3, 2)
		b.commit()
		require.Equal(t, []int64{1}, b.submitted(1).Ids)
		require.Contains(t, b.submitted(2).Failure.GetText(), "is the name of a free lock")
		b.commit()
		require.Equal(t, []int64{2, 3}, b.submitted(3).Ids)
		b.client.Ask(b.queue, &messages.SubmitJobs{Request: 4, Jobs: []*messages.JobDraft{{Ops: []*messages.OpDraft{bare}}}})
		b.Settle()
		require.NotNil(t, b.submitted(4).Failure, "a commit of it alone")
		b.store.Quiet()
		b.submit(5, 1)
		b.commit()
		require.Equal(t, []int64{4}, b.submitted(5).Ids)
	})
}
