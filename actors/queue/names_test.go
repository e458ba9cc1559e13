package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

func draftNamed(name string) *messages.JobDraft {
	d := draft("")
	d.Name = name
	return d
}

// The name is in the same durable write as the job and the serial, and nowhere in the job file.
func TestANameIsSubmittedWithItsJob(t *testing.T) {
	onReady(t, []*job.Job{ended(1)}, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, &messages.SubmitJobs{Request: 1, By: "uid=7(bob), pid=9", Jobs: []*messages.JobDraft{draftNamed("nightly"), draft("")}})
		b.Settle()
		r := b.storeAsked()
		require.True(t, r.GetWrite().Durable)
		require.NotNil(t, r.GetWrite().CommitRecord)
		require.Equal(t, []string{"queue/job-2", "queue/lockstep-2", "queue/job-3"}, filePaths(r))
		require.Equal(t, `{"name":"nightly"}`+"\n", string(r.GetWrite().Files[1].Content))
		require.NotContains(t, string(r.GetWrite().Files[0].Content), "nightly")
		b.filesDone(r)
		require.Equal(t, []int64{2, 3}, b.submitted(1).Ids)
		require.Equal(t, "nightly", b.rowOf(2).Info.Name)
		require.Equal(t, "uid=7(bob)", b.rowOf(2).Info.User)
		require.Empty(t, b.rowOf(3).Info.Name)
		enqueued := kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs
		require.Equal(t, []string{"nightly", ""}, []string{enqueued[0].Name, enqueued[1].Name}, "the scheduler learns durations by name")
	})
}

func TestANameSurvivesTheQueue(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(withRecords(scanOf(newJob(1), ended(2)), map[int64]string{1: `{"name": "nightly"}`, 2: `{"name": 5}`}))
		require.Equal(t, "nightly", b.rowOf(1).Info.Name)
		require.Empty(t, b.rowOf(2).Info.Name, "a name of a later version counts as none")
	})
}

// A repeated submission with another name is another submission.
func TestARepeatHasTheSameNames(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		submit := func(request uint64, name string) {
			d := draftNamed(name)
			d.Ops[0].Input = []byte(`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "reason": [["lockstep:request", "r", 1]]}`)
			b.client.Ask(b.queue, &messages.SubmitJobs{Request: request, Jobs: []*messages.JobDraft{d}})
			b.Settle()
		}
		submit(1, "nightly")
		submit(2, "weekly")
		require.NotNil(t, b.submitted(2).Failure, "while the first is being committed")
		b.commit()
		require.Equal(t, []int64{1}, b.submitted(1).Ids)
		submit(3, "weekly")
		require.NotNil(t, b.submitted(3).Failure)
		submit(4, "nightly")
		require.Equal(t, []int64{1}, b.submitted(4).Ids)
	})
}

func (b *bench) cancel(id int64, kind messages.OrderJob_Kind) {
	b.client.Ask(b.queue, &messages.OrderJob{Request: 5, Id: id, Kind: kind, By: "uid=0(root), pid=4711"})
	b.Settle()
}

const byRoot = `{"canceled_by":"uid=0(root), pid=4711"}` + "\n"

func TestTheAuthorOfACancelIsRecordedWithIt(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		b.cancel(1, messages.OrderJob_CANCEL)
		r := b.storeAsked()
		require.Equal(t, byRoot, writtenRecords(r)["queue/lockstep-1"])
		b.filesDone(r)
		require.True(t, kittest.Expect[*messages.OrderJobResult](b.client).Done)
		require.Equal(t, "canceled by root", b.rowOf(1).Info.Result)
	})
}

// The author of an order to a job process is durable before the order is given. If it cannot be, the order is given
// nevertheless.
func TestTheAuthorOfAKillIsRecordedFirst(t *testing.T) {
	for name, failed := range map[string][]string{"written": nil, "the disk is full": {"queue/lockstep-1"}} {
		t.Run(name, func(t *testing.T) {
			onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
				b.cancel(1, messages.OrderJob_KILL)
				r := b.storeAsked()
				require.True(t, r.GetWrite().Durable)
				require.Equal(t, map[string]string{"queue/lockstep-1": byRoot}, writtenRecords(r))
				b.jobs.Quiet()
				b.filesDone(r, failed...)
				require.Equal(t, messages.OrderJob_KILL, kittest.Expect[*messages.OrderJob](b.jobs).Kind)

				j := running(1)
				j.FailUnfinished(job.ErrorResult("OpExecError", "Ended on request"), job.Timestamp{Sec: 9})
				b.jobs.Ask(b.queue, &messages.JobEnded{Id: 1, Encoded: job.Encode(j)})
				require.Equal(t, "killed by root", b.rowOf(1).Info.Result)
			})
		})
	}
}

// A running job refuses a cancel without kill, and its later end has nothing to do with that.
func TestARefusedCancelHasNoConsequence(t *testing.T) {
	onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
		b.cancel(1, messages.OrderJob_CANCEL)
		b.filesDone(b.storeAsked())
		kittest.Expect[*messages.OrderJob](b.jobs)
		j := running(1)
		j.FailUnfinished(job.ErrorResult("OpExecError", "command failed", map[string]any{"exit_status": 3}), job.Timestamp{Sec: 9})
		b.jobs.Ask(b.queue, &messages.JobEnded{Id: 1, Encoded: job.Encode(j)})
		require.Equal(t, "exit 3", b.rowOf(1).Info.Result)
	})
}

func TestTheCauseOfAnUnrunnableJobIsRecorded(t *testing.T) {
	onReady(t, []*job.Job{newJob(8)}, func(t *testing.T, b *bench) {
		b.doomed(&messages.EndUnrunnableJob{Id: 8, Text: "job 7 ended badly", Cause: 7, Status: int32(job.Error)})
		require.Equal(t, "not run: job 7 failed", b.rowOf(8).Info.Result)
	})
}
