package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

// draftOf is a job to submit with these opcodes.
func draftOf(inputs ...string) *messages.JobDraft {
	d := &messages.JobDraft{}
	for _, input := range inputs {
		d.Ops = append(d.Ops, &messages.OpDraft{Input: []byte(input)})
	}
	return d
}

func depending(depends string) string {
	return `{"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "depends": ` + depends + `, "reason": []}`
}

func TestRelativeDependenciesAreRecordedAsAbsolute(t *testing.T) {
	onReady(t, []*job.Job{newJob(6)}, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, &messages.SubmitJobs{Request: 1, Jobs: []*messages.JobDraft{
			draftOf(depending(`[[-1, ["success"]]]`)),
			draftOf(depending(`null`), depending(`[[-1, []], [-2, ["error"]], [3, []]]`)),
			draftOf(depending(`[[-9, []]]`)), // 0 is accepted (queue.md 1.5)
		}})
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Missing: true}) // job 3 is neither in the queue nor archived
		write := b.storeAsked()
		var stored []*job.Job
		for _, f := range write.GetWrite().Files {
			stored = append(stored, decoded(t, f.Content))
		}
		require.Contains(t, string(stored[0].Ops[0].Input), `"depends": [[6, ["success"]]]`)
		require.Contains(t, string(stored[1].Ops[0].Input), `"depends": null`)
		require.Contains(t, string(stored[1].Ops[1].Input), `"depends": [[7, []], [6, ["error"]], [3, []]]`)
		require.Contains(t, string(stored[2].Ops[0].Input), `"depends": [[0, []]]`)
		b.filesDone(write)
		require.Equal(t, []int64{7, 8, 9}, b.submitted(1).Ids)
		for i, w := range kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs {
			require.Equal(t, job.Encode(stored[i]), w.Encoded)
		}
	})
}

func TestADependencyThatReachesBeyondTheFirstJob(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		b.submit(1, 1) // is being committed: the others make a group
		b.client.Ask(b.queue, &messages.SubmitJobs{Request: 2, Jobs: []*messages.JobDraft{
			draft(""), draftOf(depending(`[[-5, []]]`)), draft(""),
		}})
		b.submit(3, 1)
		b.commit()
		b.submitted(1)
		b.filesDone(b.storeAsked())
		takeBack := b.storeAsked()
		require.Equal(t, []string{"queue/job-3", "queue/job-4", "queue/job-5"}, takeBack.GetRemove().GetPaths())
		b.filesDone(takeBack)
		b.filesDone(b.storeAsked())
		failed := b.submitted(2)
		require.Empty(t, failed.Ids)
		require.Equal(t, messages.ClassPrereq, failed.Failure.Class)
		require.Equal(t, "wrong_input", failed.Failure.Code)
		require.Contains(t, failed.Failure.Text, "a dependency reaches back beyond the first job: 5 before job 4")
		require.Equal(t, []int64{6}, b.submitted(3).Ids)
	})
}

// doomed is an unrunnable job as it is written.
func (b *bench) doomed(m *messages.EndUnrunnableJob) *job.Job {
	b.Helper()
	b.scheduler.Ask(b.queue, m)
	write := b.storeAsked()
	require.Equal(b, "doom-job", write.GetWrite().Files[0].Op)
	requireMessages(b.T, []any{&messages.JobReleased{Id: m.Id}}, b.scheduler.Unread())
	j := decoded(b.T, write.GetWrite().Files[0].Content)
	b.filesDone(write)
	requireMessages(b.T, []any{&messages.JobReleased{Id: m.Id, Ended: true, Status: int32(j.Status())}}, b.scheduler.Unread())
	require.Equal(b, int32(j.Status()), b.rowOf(m.Id).Info.Status)
	return j
}

func TestADoomedJob(t *testing.T) {
	for name, c := range map[string]struct {
		canceled bool
		status   job.Status
		result   string
	}{
		"fails":       {false, job.Error, `["OpExecError", ["Dependency error: job 7 ended badly"]]`},
		"is canceled": {true, job.Canceled, `"Job canceled: job 7 ended badly"`},
	} {
		t.Run(name, func(t *testing.T) {
			onReady(t, []*job.Job{newJob(8)}, func(t *testing.T, b *bench) {
				b.watch(b.client, 1, 8)
				j := b.doomed(&messages.EndUnrunnableJob{Id: 8, Canceled: c.canceled, Text: "job 7 ended badly"})
				require.Equal(t, c.status, j.Status())
				require.JSONEq(t, c.result, string(j.Ops[0].Result))
				require.Equal(t, job.TimestampOf(b.Clock.Now()), j.End)
				source, text := lastReason(t, j.Ops[0])
				require.Equal(t, "gnt:daemon:luxid:dependency", source)
				require.Equal(t, "job 7 ended badly", text)
				require.Equal(t, int32(c.status), kittest.Expect[*messages.JobChanged](b.client).Info.Status)
			})
		})
	}
}

// If the end of an unrunnable job cannot be written, the job returns to the scheduler,
// which finds out again that it is unrunnable.
func TestADoomThatCannotBeWritten(t *testing.T) {
	onReady(t, []*job.Job{newJob(8)}, func(t *testing.T, b *bench) {
		b.scheduler.Ask(b.queue, &messages.EndUnrunnableJob{Id: 8, Text: "x"})
		b.filesDone(b.storeAsked(), "queue/job-8")
		require.Len(t, b.Logged("the end of a pending job cannot be written; the job stays pending"), 1)
		b.filesDone(b.storeAsked())
		requireMessages(t, []any{&messages.JobReleased{Id: 8}, &messages.EnqueueJobs{Jobs: []*messages.UnfinishedJob{waiting(newJob(8))}}}, b.scheduler.Unread())
		require.Equal(t, job.Error, b.doomed(&messages.EndUnrunnableJob{Id: 8, Text: "x"}).Status())
	})
}

// Only a pending job is ended as unrunnable. A job in another stage returns to the
// scheduler or has ended.
func TestOnlyPendingJobsAreDoomed(t *testing.T) {
	onReady(t, []*job.Job{running(1), ended(2), newJob(3)}, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, &messages.OrderJob{Request: 1, Id: 3, Kind: messages.OrderJob_SET_PRIORITY, Priority: 5})
		b.storeAsked()
		for id := int64(1); id <= 4; id++ {
			b.scheduler.Ask(b.queue, &messages.EndUnrunnableJob{Id: id, Text: "x"})
		}
		b.store.Quiet()
	})
}

func (b *bench) outcome(id int64) {
	b.scheduler.Ask(b.queue, &messages.GetJobOutcome{Id: id})
	b.Settle()
}

func TestOutcomesThatAreKnown(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), running(2), ended(3)}, func(t *testing.T, b *bench) {
		for id, want := range map[int64]any{
			1: nil, 2: nil, // their ends will be reported
			3:  &messages.GetJobOutcomeResult{Id: 3, Status: int32(job.Success)},
			4:  &messages.GetJobOutcomeResult{Id: 4, Missing: true},
			0:  &messages.GetJobOutcomeResult{Id: 0, Missing: true},
			-5: &messages.GetJobOutcomeResult{Id: -5, Missing: true},
		} {
			b.outcome(id)
			if want == nil {
				b.scheduler.Quiet()
			} else {
				requireMessages(t, []any{want}, b.scheduler.Unread())
			}
		}
		b.store.Quiet()
	})
}

// A job that is being archived has ended; its end is not reported again.
func TestTheOutcomeOfAJobThatIsBeingArchived(t *testing.T) {
	onReady(t, []*job.Job{ended(1)}, func(t *testing.T, b *bench) {
		b.archive(1, 1)
		move := b.storeAsked()
		b.outcome(1)
		requireMessages(t, []any{&messages.GetJobOutcomeResult{Id: 1, Status: int32(job.Success)}}, b.scheduler.Unread())
		b.filesDone(move)
		b.outcome(1)
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Content: job.Encode(ended(1))})
		requireMessages(t, []any{&messages.GetJobOutcomeResult{Id: 1, Status: int32(job.Success)}}, b.scheduler.Unread())
	})
}

func TestOutcomesOfArchivedJobs(t *testing.T) {
	canceled := newJob(12)
	canceled.CancelUnstarted(nil, job.Timestamp{Sec: 5})
	for name, c := range map[string]struct {
		read *messages.ReadFileResult
		want *messages.GetJobOutcomeResult
	}{
		"archived":              {&messages.ReadFileResult{Content: job.Encode(ended(12))}, &messages.GetJobOutcomeResult{Id: 12, Status: int32(job.Success)}},
		"canceled and archived": {&messages.ReadFileResult{Content: job.Encode(canceled)}, &messages.GetJobOutcomeResult{Id: 12, Status: int32(job.Canceled)}},
		"never recorded":        {&messages.ReadFileResult{Missing: true}, &messages.GetJobOutcomeResult{Id: 12, Missing: true}},
		"no job":                {&messages.ReadFileResult{Content: []byte("{")}, &messages.GetJobOutcomeResult{Id: 12, Missing: true}},
		"not ended":             {&messages.ReadFileResult{Content: job.Encode(running(12))}, &messages.GetJobOutcomeResult{Id: 12, Missing: true}},
	} {
		t.Run(name, func(t *testing.T) {
			onReady(t, []*job.Job{newJob(20000)}, func(t *testing.T, b *bench) {
				b.outcome(12)
				r := b.storeAsked()
				require.Equal(t, "queue/archive/0/job-12", r.GetRead().GetPath())
				b.fileRead(r, c.read)
				requireMessages(t, []any{c.want}, b.scheduler.Unread())
			})
		})
	}
}

func TestAnArchivedJobThatCannotBeReadIsReadAgain(t *testing.T) {
	onReady(t, []*job.Job{newJob(20)}, func(t *testing.T, b *bench) {
		b.outcome(12)
		for range 3 {
			b.fileRead(b.storeAsked(), &messages.ReadFileResult{Failure: messages.GenericFailure("EIO")})
			b.scheduler.Quiet()
			b.store.Quiet()
			b.Advance(time.Second)
		}
		require.Len(t, b.Logged("an archived job that others depend on cannot be read; it is read again"), 3)
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Content: job.Encode(ended(12))})
		requireMessages(t, []any{&messages.GetJobOutcomeResult{Id: 12, Status: int32(job.Success)}}, b.scheduler.Unread())
	})
}

func TestWhoseJobIsOver(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), running(2), ended(3)}, func(t *testing.T, b *bench) {
		for id, over := range map[int64]bool{1: true, 2: false, 3: true, 4: true} {
			b.locks.Ask(b.queue, &messages.AwaitJobCleanup{Id: id})
			if over {
				require.Equal(t, id, kittest.Expect[*messages.JobCleanedUp](b.locks).Id)
			}
			b.locks.Quiet()
			if !over { // its process is looked at, so that a call of cleanupLocks waits for no timer
				require.Equal(t, id, kittest.Expect[*messages.AwaitJobCleanup](b.jobs).Id)
			}
		}
		b.jobs.Ask(b.queue, &messages.JobEnded{Id: 2, Encoded: job.Encode(ended(2))})
		require.Equal(t, int64(2), kittest.Expect[*messages.JobCleanedUp](b.locks).Id)
	})
}

func (b *bench) showWait(id int64, wait messages.StartWait) {
	b.scheduler.Ask(b.queue, &messages.StartWaitChanged{Id: id, Wait: wait})
	b.Settle()
}

const (
	noWait   = messages.StartWait_NOT_WAITING
	forJobs  = messages.StartWait_FOR_JOBS
	forLocks = messages.StartWait_FOR_LOCKS
)

// A job that waits for dependencies or locks is shown as waiting; on the disk it is queued.
func TestAWaitingJobIsShownSo(t *testing.T) {
	for _, wait := range []messages.StartWait{forJobs, forLocks} {
		onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
			b.watch(b.client, 1, 1)
			b.showWait(1, wait)
			require.Equal(t, wait, b.rowOf(1).Info.Wait)
			changed := kittest.Expect[*messages.JobChanged](b.client)
			require.Equal(t, wait, changed.Info.Wait)
			require.Equal(t, int32(job.Queued), changed.Info.Status)
			require.Equal(t, job.Encode(newJob(1)), changed.Encoded)
			b.showWait(1, wait)
			b.client.Quiet()
			b.showWait(1, noWait)
			require.Equal(t, noWait, kittest.Expect[*messages.JobChanged](b.client).Info.Wait)
			b.store.Quiet()
		})
	}
}

func TestOnlyPendingJobsAreShownAsWaiting(t *testing.T) {
	onReady(t, []*job.Job{running(1), ended(2)}, func(t *testing.T, b *bench) {
		for id := int64(1); id <= 3; id++ {
			b.showWait(id, forLocks)
		}
		require.Equal(t, noWait, b.rowOf(1).Info.Wait)
		require.Equal(t, noWait, b.rowOf(2).Info.Wait)
	})
}

// A new scheduler is told what pending jobs are shown to wait for, and reports what has changed.
func TestANewSchedulerKnowsWhatIsShown(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), newJob(2), newJob(3)}, func(t *testing.T, b *bench) {
		b.showWait(1, forJobs)
		b.showWait(2, forLocks)
		b.scheduler.Ask(b.queue, &messages.ListUnfinishedJobs{Request: 2})
		got := map[int64]messages.StartWait{}
		for _, w := range kittest.Expect[*messages.ListUnfinishedJobsResult](b.scheduler).Pending {
			got[w.Id] = w.Wait
		}
		require.Equal(t, map[int64]messages.StartWait{1: forJobs, 2: forLocks, 3: noWait}, got)
		b.showWait(1, noWait)
		require.Equal(t, noWait, b.rowOf(1).Info.Wait)
	})
}
