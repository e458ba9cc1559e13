package queue_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/queue"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/messages"
)

func verdict(id int64, action filter.Verb) *messages.Verdict {
	return &messages.Verdict{Id: id, Rule: "rule-1", Action: int32(action), Reason: "pink bunny"}
}

func decoded(t *testing.T, content []byte) *job.Job {
	t.Helper()
	j, err := job.Decode(content)
	require.NoError(t, err)
	return j
}

// lastReason is the source and the text of the last entry of an opcode's trail.
func lastReason(t *testing.T, op job.Op) (source, text string) {
	t.Helper()
	var input struct {
		Reason [][3]any `json:"reason"`
	}
	require.NoError(t, json.Unmarshal(op.Input, &input))
	last := input.Reason[len(input.Reason)-1]
	return last[0].(string), last[1].(string)
}

// From now on the test answers for the filter engine.
func (b *bench) judgeByHand() { b.filters.Answer(func(any) any { return nil }) }

func (b *bench) judged(request uint64, verdicts ...*messages.Verdict) {
	b.filters.Ask(b.queue, &messages.EvaluateFiltersResult{Request: request, Verdicts: verdicts})
	b.Settle()
}

func (b *bench) changeVerdicts(verdicts ...*messages.Verdict) {
	b.filters.Ask(b.queue, &messages.VerdictsChanged{Verdicts: verdicts})
	b.Settle()
}

func idsOf(jobs []*messages.UnfinishedJob) []int64 {
	var ids []int64
	for _, w := range jobs {
		ids = append(ids, w.Id)
	}
	return ids
}

func TestARejectedJobIsCanceledBeforeItsIdIsTold(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.judge(verdict(1, filter.Reject))
		b.submit(1, 2)
		write := b.storeAsked()
		rejected := decoded(t, write.GetWrite().Files[0].Content)
		require.Equal(t, job.Canceled, rejected.Status())
		require.Equal(t, job.TimestampOf(b.Clock.Now()), rejected.End)
		require.Equal(t, `"rejected by filter rule rule-1: pink bunny"`, string(rejected.Ops[0].Result))
		source, text := lastReason(t, rejected.Ops[0])
		require.Equal(t, "gnt:daemon:luxid:filter", source)
		require.Equal(t, "rejected by filter rule rule-1: pink bunny", text)
		require.Equal(t, job.Queued, decoded(t, write.GetWrite().Files[1].Content).Status())
		b.client.Quiet()

		b.filesDone(write)
		require.Equal(t, []int64{1, 2}, b.submitted(1).Ids)
		require.Equal(t, []int64{2}, idsOf(kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs))
		b.scheduler.Quiet()
		require.Equal(t, int64(1), kittest.Expect[*messages.ForgetJob](b.filters).Id)
		b.filters.Quiet()
		require.Equal(t, int32(job.Canceled), b.rowOf(1).Info.Status)
		b.scheduler.Ask(b.queue, &messages.PickJob{Id: 1})
		b.jobs.Quiet()
		b.archive(2, 1)
		b.filesDone(b.storeAsked())
		require.Equal(t, int64(1), b.archived(2).Archived)
	})
}

// A rejected job does not count as unfinished.
func TestRejectedJobsLeaveRoom(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e)
		b.cluster.Answer(func(any) any { return &clusterconfig.ConfigPublished{Config: configuration} })
		b.start(queue.Limits{Unfinished: 1})
		b.recover(scanOf())
		b.judge(verdict(1, filter.Reject))
		for request := uint64(1); request <= 2; request++ {
			b.submit(request, 1)
			b.commit()
			require.Nil(t, b.submitted(request).Failure)
		}
		b.submit(3, 1)
		require.Equal(t, "JobQueueFull", b.submitted(3).Failure.Class)
	})
}

func TestNothingIsWrittenBeforeItIsJudged(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.judgeByHand()
		b.submit(1, 2)
		question := kittest.Expect[*messages.EvaluateFilters](b.filters)
		require.Equal(t, []int64{1, 2}, idsOf(question.Jobs))
		require.Equal(t, job.Queued, decoded(t, question.Jobs[0].Encoded).Status())
		b.judged(question.Request + 1)
		b.store.Quiet()
		b.judged(question.Request)
		require.Equal(t, []string{"queue/job-1", "queue/job-2"}, filePaths(b.storeAsked()))
		b.judged(question.Request) // twice
		b.store.Quiet()
	})
}

// A recorded job stays as it is when the rules change during its commit; the scheduler
// receives the verdict of the new rules.
func TestRulesThatChangeWhileAGroupIsWritten(t *testing.T) {
	none := &messages.Verdict{Id: 1}
	for name, c := range map[string]struct{ before, after, told *messages.Verdict }{
		"paused meanwhile":      {none, verdict(1, filter.Pause), verdict(1, filter.Pause)},
		"not paused any longer": {verdict(1, filter.Pause), none, nil},
		"paused all the time":   {verdict(1, filter.Pause), verdict(2, filter.Pause), verdict(1, filter.Pause)},
		"limited meanwhile":     {none, verdict(1, filter.RateLimit), verdict(1, filter.RateLimit)},
		"accepted all the time": {none, none, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onReady(t, nil, func(t *testing.T, b *bench) {
				b.judge(c.before)
				b.submit(1, 1)
				b.changeVerdicts(c.after)
				kittest.Expect[*messages.VerdictsChanged](b.scheduler)
				b.commit()
				require.Equal(t, []int64{1}, b.submitted(1).Ids)
				enqueued := kittest.Expect[*messages.EnqueueJobs](b.scheduler)
				require.EqualExportedValues(t, c.told, enqueued.Jobs[0].Verdict)
			})
		})
	}
}

func TestAJobThatIsRejectedWhileItIsWritten(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submit(1, 1)
		b.changeVerdicts(verdict(1, filter.Reject))
		b.scheduler.Unread()
		b.commit()
		require.Equal(t, []int64{1}, b.submitted(1).Ids)
		requireMessages(t, []any{&messages.JobReleased{Id: 1}}, b.scheduler.Unread())
		b.filesDone(b.storeAsked())
		requireMessages(t, []any{&messages.JobReleased{Id: 1, Ended: true, Status: int32(job.Canceled)}}, b.scheduler.Unread())
		require.Equal(t, int32(job.Canceled), b.rowOf(1).Info.Status)
	})
}

func TestAJobThatWasRejectedStaysSo(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.judge(verdict(1, filter.Reject))
		b.submit(1, 1)
		b.changeVerdicts(&messages.Verdict{Id: 1})
		b.scheduler.Unread()
		b.commit()
		b.submitted(1)
		require.Equal(t, int32(job.Canceled), b.rowOf(1).Info.Status)
		b.scheduler.Quiet()
	})
}

func TestAFailedSubmissionIsForgottenByTheRules(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submit(1, 1)
		b.filesDone(b.storeAsked(), "queue/job-1")
		b.filesDone(b.storeAsked())
		require.NotNil(t, b.submitted(1).Failure)
		require.Equal(t, int64(1), kittest.Expect[*messages.ForgetJob](b.filters).Id)
	})
}

func TestQueuedJobsAreRejected(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), running(2), newJob(3), ended(4), newJob(5)}, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, &messages.OrderJob{Request: 1, Id: 3, Kind: messages.OrderJob_SET_PRIORITY, Priority: 5})
		b.Settle()
		changing := b.storeAsked()
		b.scheduler.Unread()
		b.changeVerdicts(verdict(1, filter.Reject), verdict(2, filter.Reject), verdict(3, filter.Reject), verdict(4, filter.Reject), verdict(5, filter.Pause))
		news := b.scheduler.Unread()
		require.IsType(t, &messages.VerdictsChanged{}, news[0])
		requireMessages(t, []any{&messages.JobReleased{Id: 1}}, news[1:])
		write := b.storeAsked()
		require.Equal(t, []string{"queue/job-1"}, filePaths(write))
		require.True(t, write.GetWrite().Durable)
		require.Equal(t, int32(job.Queued), b.rowOf(1).Info.Status, "not before the disk has it")
		b.filesDone(write)
		require.Equal(t, int32(job.Canceled), b.rowOf(1).Info.Status)
		requireMessages(t, []any{&messages.JobReleased{Id: 1, Ended: true, Status: int32(job.Canceled)}}, b.scheduler.Unread())

		b.store.Quiet()
		b.filesDone(changing)
		require.True(t, kittest.Expect[*messages.OrderJobResult](b.client).Done)
		write = b.storeAsked()
		require.Equal(t, []string{"queue/job-3"}, filePaths(write))
		rejected := decoded(t, write.GetWrite().Files[0].Content)
		require.Equal(t, 5, rejected.Ops[0].Priority)
		_, text := lastReason(t, rejected.Ops[0])
		require.Equal(t, "rejected by filter rule rule-1: pink bunny", text)
		b.filesDone(write)
		require.Equal(t, int32(job.Canceled), b.rowOf(3).Info.Status)
		require.Equal(t, int32(job.Running), b.rowOf(2).Info.Status)
		require.Equal(t, int32(job.Success), b.rowOf(4).Info.Status)
		require.Equal(t, int32(job.Queued), b.rowOf(5).Info.Status)
		b.store.Quiet()
	})
}

// If the cancellation of a rejected job cannot be written, its file is restored. It is
// canceled again if the rule is still in force; otherwise it is pending as before.
func TestARejectionThatCannotBeWritten(t *testing.T) {
	for name, lifted := range map[string]bool{"the rule stays": false, "the rule goes": true} {
		t.Run(name, func(t *testing.T) {
			onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
				b.changeVerdicts(verdict(1, filter.Reject))
				b.filesDone(b.storeAsked(), "queue/job-1")
				require.Len(t, b.Logged("the end of a pending job cannot be written; the job stays pending"), 1)
				back := b.storeAsked()
				require.Equal(t, job.Encode(newJob(1)), back.GetWrite().Files[0].Content)
				if lifted {
					b.changeVerdicts(&messages.Verdict{Id: 1})
				}
				b.scheduler.Unread()
				b.filesDone(back)
				if lifted {
					requireMessages(t, []any{&messages.EnqueueJobs{Jobs: []*messages.UnfinishedJob{waiting(newJob(1))}}}, b.scheduler.Unread())
					b.store.Quiet()
					return
				}
				b.filesDone(b.storeAsked())
				require.Equal(t, int32(job.Canceled), b.rowOf(1).Info.Status)
			})
		})
	}
}

func TestAJobIsPausedJustAfterItsChoice(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		b.changeVerdicts(verdict(1, filter.Pause))
		b.scheduler.Unread()
		b.scheduler.Ask(b.queue, &messages.PickJob{Id: 1})
		w := waiting(newJob(1))
		w.Verdict = verdict(1, filter.Pause)
		requireMessages(t, []any{&messages.JobReleased{Id: 1}, &messages.EnqueueJobs{Jobs: []*messages.UnfinishedJob{w}}}, b.scheduler.Unread())
		b.jobs.Quiet()
	})
}

// A filter engine that has started is asked about all unfinished jobs, with those that
// are being committed, and the open question is repeated.
func TestFiltersStarted(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), running(2), ended(3), newJob(4)}, func(t *testing.T, b *bench) {
		b.judgeByHand()
		b.client.Ask(b.queue, &messages.OrderJob{Request: 1, Id: 4}) // not ended before it is written
		b.submit(2, 2)
		question := kittest.Expect[*messages.EvaluateFilters](b.filters)
		b.filtersStart()
		all := kittest.Expect[*messages.EvaluateFilters](b.filters)
		require.Zero(t, all.Request)
		require.Equal(t, []int64{1, 2, 4, 5, 6}, idsOf(all.Jobs))
		require.Equal(t, job.Encode(running(2)), all.Jobs[1].Encoded)
		require.EqualExportedValues(t, question, kittest.Expect[*messages.EvaluateFilters](b.filters))
		b.filters.Quiet()

		b.judged(question.Request, verdict(6, filter.Reject))
		b.filtersStart()
		all = kittest.Expect[*messages.EvaluateFilters](b.filters)
		require.Equal(t, []int64{1, 2, 4, 5}, idsOf(all.Jobs), "what is rejected has no use for rules")
		b.filters.Quiet()
	})
}

// The rules may have changed between two filter engines. Verdicts that only the former
// one has sent are dropped.
func TestVerdictsOfAFormerFilterEngineAreForgotten(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), newJob(2)}, func(t *testing.T, b *bench) {
		b.changeVerdicts(verdict(1, filter.Pause), verdict(2, filter.Pause))
		b.scheduler.Unread()
		b.judge(verdict(2, filter.Pause))
		b.filtersStart()
		requireMessages(t, []any{&messages.VerdictsChanged{Verdicts: []*messages.Verdict{verdict(2, filter.Pause), {Id: 1}}}}, b.scheduler.Unread())
		b.scheduler.Ask(b.queue, &messages.ListUnfinishedJobs{Request: 1})
		p := kittest.Expect[*messages.ListUnfinishedJobsResult](b.scheduler)
		require.Nil(t, p.Pending[0].Verdict)
		require.EqualExportedValues(t, verdict(2, filter.Pause), p.Pending[1].Verdict)
	})
}

// A scheduler without the verdicts would start paused jobs.
func TestThePopulationWaitsForTheVerdicts(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.judgeByHand()
		b.recover(scanOf(newJob(1), newJob(2), running(3)))
		question := kittest.Expect[*messages.EvaluateFilters](b.filters)
		b.scheduler.Unread()
		for epoch := uint64(4); epoch <= 5; epoch++ {
			b.scheduler.Ask(b.queue, &messages.ListUnfinishedJobs{Request: epoch})
		}
		b.scheduler.Quiet()
		b.judged(question.Request, verdict(1, filter.Reject), verdict(2, filter.Pause), verdict(3, filter.Pause))
		p := kittest.Expect[*messages.ListUnfinishedJobsResult](b.scheduler)
		require.Equal(t, uint64(5), p.Request)
		require.Equal(t, []int64{2}, idsOf(p.Pending))
		require.EqualExportedValues(t, verdict(2, filter.Pause), p.Pending[0].Verdict)
		require.EqualExportedValues(t, verdict(3, filter.Pause), p.Active[0].Verdict)
		require.Equal(t, []string{"queue/job-1"}, filePaths(b.storeAsked()))
	})
}

// An answer to a former incarnation is about other jobs, and is ignored.
func TestVerdictsDuringRecoveryAreNotTaken(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.judgeByHand()
		b.judged(0)
		b.changeVerdicts(verdict(1, filter.Pause))
		b.recover(scanOf(newJob(1)))
		b.scheduler.Unread()
		b.scheduler.Ask(b.queue, &messages.ListUnfinishedJobs{Request: 1})
		b.scheduler.Quiet()
		b.judged(0)
		require.Nil(t, kittest.Expect[*messages.ListUnfinishedJobsResult](b.scheduler).Pending[0].Verdict)
	})
}

func TestAnAnswerToAFormerIncarnationIsNotTakenForThisOnes(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.judgeByHand()
		b.submit(1, 1)
		former := kittest.Expect[*messages.EvaluateFilters](b.filters)
		b.Restart(b.queue)
		b.recover(scanOf())
		b.filters.Unread()
		b.submit(2, 1)
		b.judged(former.Request)
		b.store.Quiet()
		question := kittest.Expect[*messages.EvaluateFilters](b.filters)
		b.judged(question.Request, verdict(1, filter.Reject))
		require.Equal(t, job.Canceled, decoded(t, b.storeAsked().GetWrite().Files[0].Content).Status())
	})
}

func TestWhoEndsIsForgottenByTheRules(t *testing.T) {
	onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
		b.jobs.Ask(b.queue, &messages.JobEnded{Id: 1, Encoded: job.Encode(ended(1))})
		require.Equal(t, int64(1), kittest.Expect[*messages.ForgetJob](b.filters).Id)
		require.Equal(t, int64(1), kittest.Expect[*messages.JobCleanedUp](b.locks).Id)
	})
}

// The filter engine, and with it the author of a rule, is answered when the starts of the jobs that the rule pauses or rejects are called off.
// Of one that executes an opcode no more is asked.
func TestARuleIsTakenWhenStartsAreCalledOff(t *testing.T) {
	begun := jobtest.Running(3, jobtest.Delay(), jobtest.Delay())
	begun.Ops[0].Status, begun.Ops[1].Status = job.Success, job.Waiting
	onReady(t, []*job.Job{newJob(1), newJob(2), begun, newJob(4)}, func(t *testing.T, b *bench) {
		b.picked(1)
		b.picked(2)
		b.filters.Unread()
		b.filters.Ask(b.queue, &messages.VerdictsChanged{Request: 9, Verdicts: []*messages.Verdict{
			verdict(1, filter.Pause), verdict(2, filter.Reject), verdict(3, filter.Reject), verdict(4, filter.Pause)}})
		b.Settle()
		request := b.expectCallOff(1, 2, 3)
		b.filters.Quiet()
		b.jobs.Ask(b.queue, &messages.JobReturned{Id: 1})
		b.calledOff(request)
		require.Equal(t, uint64(9), kittest.Expect[*messages.VerdictsTaken](b.filters).Request)
	})
}

// Filters that have started again, or a queue that has, call off the starts of paused jobs too before the author of a rule has the answer.
func TestAllVerdictsAreTakenWhenStartsAreCalledOff(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), newJob(2)}, func(t *testing.T, b *bench) {
		b.judgeByHand()
		b.picked(1)
		b.filters.Unread()
		b.filters.Ask(b.queue, &messages.FiltersStarted{Incarnation: 2})
		b.filters.Ask(b.queue, &messages.EvaluateFiltersResult{Taken: 7, Verdicts: []*messages.Verdict{verdict(1, filter.Pause), verdict(2, filter.Pause)}})
		b.Settle()
		request := b.expectCallOff(1)
		kittest.Expect[*messages.EvaluateFilters](b.filters)
		b.filters.Quiet()
		b.jobs.Ask(b.queue, &messages.JobReturned{Id: 1})
		b.calledOff(request)
		require.Equal(t, uint64(7), kittest.Expect[*messages.VerdictsTaken](b.filters).Request)
	})
}
