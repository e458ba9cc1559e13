package queue_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/queue"
	"lockstep/core/job"
	"lockstep/messages"
)

// dependent is a job, as on the disk, whose second opcode depends on others.
func dependent(id int64, on ...int64) *job.Job {
	depends := ""
	for _, b := range on {
		depends += fmt.Sprintf(`[%d, ["success"]], `, b)
	}
	j := newJob(id)
	j.Ops = append(j.Ops, newJob(id).Ops[0])
	j.Ops[1].Input = []byte(depending("[" + depends[:len(depends)-2] + "]"))
	return j
}

// withRecords is a queue directory with these job records.
func withRecords(scan *messages.ScanQueueResult, records map[int64]string) *messages.ScanQueueResult {
	for _, s := range scan.Jobs {
		if content := records[s.Id]; content != "" {
			s.Record = []byte(content)
		}
	}
	return scan
}

// onShared runs a test with a queue in a cluster of several nodes.
func onShared(t *testing.T, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e)
		b.cluster.Answer(func(any) any { return &clusterconfig.ConfigPublished{Config: configuration} })
		c := b.configOf(noLimits)
		c.Shared = true
		b.queue = b.Start("queue", queue.Props(c))
		f(t, b)
	})
}

func writtenRecords(r *messages.AccessStore) map[string]string {
	files := map[string]string{}
	for _, f := range r.GetWrite().GetFiles() {
		files[f.Path] = string(f.Content)
	}
	return files
}

const tenEnded = `{"dependencies":{"10":"success"}}` + "\n"

// The end of a job is recorded durably beside its dependents before the job is archived.
func TestEndsAreRecordedBeforeJobsAreArchived(t *testing.T) {
	started := dependent(13, 10)
	started.Livelock = "/run/livelocks/job_000013_1"
	started.Ops[0].Status = job.Running
	onReady(t, []*job.Job{ended(10), ended(11), dependent(12, 10, 11), started, ended(14), dependent(15, 11)}, func(t *testing.T, b *bench) {
		b.archive(1, 10)
		r := b.storeAsked()
		require.True(t, r.GetWrite().Durable)
		require.Equal(t, map[string]string{"queue/lockstep-12": tenEnded, "queue/lockstep-13": tenEnded}, writtenRecords(r))
		b.store.Quiet()
		b.filesDone(r)
		r = b.storeAsked()
		require.Equal(t, []string{"queue/job-10"}, moved(r))
		b.filesDone(r)
		require.Equal(t, int64(1), b.archived(1).Archived)

		b.archive(2, 0) // all the others
		r = b.storeAsked()
		require.Equal(t, map[string]string{"queue/lockstep-12": `{"dependencies":{"10":"success","11":"success"}}` + "\n",
			"queue/lockstep-15": `{"dependencies":{"11":"success"}}` + "\n"}, writtenRecords(r))
		b.filesDone(r)
		b.filesDone(b.storeAsked())
		require.Equal(t, int64(2), b.archived(2).Archived)

		b.outcome(10)
		requireMessages(t, []any{&messages.GetJobOutcomeResult{Id: 10, Status: int32(job.Success)}}, b.scheduler.Unread())
		b.store.Quiet() // the archive is not asked
	})
}

// A job whose end cannot be recorded is not archived; the other jobs of the batch are.
func TestAnEndThatCannotBeRecorded(t *testing.T) {
	onReady(t, []*job.Job{ended(10), ended(11), dependent(12, 10)}, func(t *testing.T, b *bench) {
		b.archive(1, 0)
		b.filesDone(b.storeAsked(), "queue/lockstep-12")
		r := b.storeAsked()
		require.Equal(t, []string{"queue/job-11"}, moved(r))
		b.filesDone(r)
		answer := b.archived(1)
		require.Equal(t, int64(1), answer.Archived)
		require.Equal(t, "no queue/lockstep-12", answer.Failure.Text)
		b.archive(2, 10)
		r = b.storeAsked()
		require.Equal(t, map[string]string{"queue/lockstep-12": tenEnded}, writtenRecords(r), "tried again")
		b.filesDone(r)
		b.filesDone(b.storeAsked())
		require.Equal(t, int64(1), b.archived(2).Archived)
	})
}

// A job that has ended has no dependencies any longer.
func TestNothingIsRecordedForThoseThatHaveEnded(t *testing.T) {
	over := dependent(12, 10)
	over.CancelUnstarted(nil, job.Timestamp{Sec: 5})
	onReady(t, []*job.Job{ended(10), over, dependent(13, 10)}, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, &messages.OrderJob{Request: 1, Id: 13})
		b.filesDone(b.storeAsked())
		b.archive(2, 10)
		require.Equal(t, []string{"queue/job-10"}, moved(b.storeAsked()))
	})
}

// The record is archived after its job, which the queue has until both are moved.
func TestARecordIsArchivedWithItsJob(t *testing.T) {
	over := dependent(12, 10)
	over.CancelUnstarted(nil, job.Timestamp{Sec: 5})
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(withRecords(scanOf(over, ended(13)), map[int64]string{12: tenEnded}))
		b.archive(1, 0)
		r := b.storeAsked()
		require.Equal(t, []string{"queue/job-12", "queue/job-13"}, moved(r))
		b.filesDone(r)
		r = b.storeAsked()
		require.Equal(t, []string{"queue/lockstep-12"}, moved(r))
		require.Equal(t, "queue/archive/0/lockstep-12", r.GetMove().Files[0].To)
		b.client.Quiet()
		require.False(t, b.rowOf(12).Unknown)
		require.False(t, b.rowOf(13).Unknown)
		b.filesDone(r)
		require.Equal(t, int64(2), b.archived(1).Archived)
	})
}

// Keys of a later version are kept.
func TestARecordIsAddedTo(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(withRecords(scanOf(ended(11), dependent(12, 10, 11)), map[int64]string{12: `{"dependencies":{"10":"success"},"later":[7]}`}))
		b.archive(1, 11)
		require.JSONEq(t, `{"dependencies":{"10":"success","11":"success"},"later":[7]}`, writtenRecords(b.storeAsked())["queue/lockstep-12"])
	})
}

// A job is submitted while its dependency is archived or being archived.
func TestASubmissionThatDependsOnAnArchivedJob(t *testing.T) {
	depends := &messages.SubmitJobs{Request: 2, Jobs: []*messages.JobDraft{draftOf(depending(`[[10, ["success"]]]`))}}
	t.Run("archived", func(t *testing.T) {
		onReady(t, []*job.Job{newJob(20)}, func(t *testing.T, b *bench) {
			b.client.Ask(b.queue, depends)
			b.fileRead(b.storeAsked(), &messages.ReadFileResult{Content: job.Encode(ended(10))})
			r := b.storeAsked()
			require.Equal(t, "queue/serial", r.GetWrite().GetCommitRecord().GetPath())
			require.Equal(t, tenEnded, writtenRecords(r)["queue/lockstep-21"])
			b.filesDone(r, "queue/lockstep-21")
			takeBack := b.storeAsked()
			require.Equal(t, []string{"queue/job-21", "queue/lockstep-21"}, takeBack.GetRemove().GetPaths())
			b.filesDone(takeBack)
			require.NotNil(t, b.submitted(2).Failure)
		})
	})
	t.Run("being archived", func(t *testing.T) {
		onReady(t, []*job.Job{ended(10)}, func(t *testing.T, b *bench) {
			b.archive(1, 10)
			move := b.storeAsked()
			b.client.Ask(b.queue, depends)
			require.Equal(t, tenEnded, writtenRecords(b.storeAsked())["queue/lockstep-11"])
			b.filesDone(move)
		})
	})
	t.Run("archived while it is committed", func(t *testing.T) {
		onReady(t, []*job.Job{ended(10)}, func(t *testing.T, b *bench) {
			b.client.Ask(b.queue, depends)
			write := b.storeAsked()
			require.NotContains(t, writtenRecords(write), "queue/lockstep-11")
			b.archive(1, 10)
			b.store.Quiet()
			b.filesDone(write)
			r := b.storeAsked()
			require.Equal(t, map[string]string{"queue/lockstep-11": tenEnded}, writtenRecords(r))
			b.filesDone(r)
			require.Equal(t, []string{"queue/job-10"}, moved(b.storeAsked()))
		})
	})
	t.Run("archived while it is taken back", func(t *testing.T) {
		onReady(t, []*job.Job{ended(10)}, func(t *testing.T, b *bench) {
			b.client.Ask(b.queue, depends)
			write := b.storeAsked()
			b.archive(1, 10)
			b.filesDone(write, "queue/job-11")
			b.filesDone(b.storeAsked())
			require.Equal(t, []string{"queue/job-10"}, moved(b.storeAsked()))
		})
	})
}

// At its start the queue records the ends of jobs that an earlier version has archived,
// also for dependencies of later opcodes.
func TestOldEndsAreRecordedAtTheStart(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(withRecords(scanOf(dependent(12, 8, 9, 10), dependent(13, 10)), map[int64]string{12: tenEnded}))
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Content: job.Encode(ended(8))})
		r := b.storeAsked()
		require.Equal(t, map[string]string{"queue/lockstep-12": `{"dependencies":{"10":"success","8":"success"}}` + "\n"}, writtenRecords(r))
		b.filesDone(r)
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Missing: true}) // 9
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Content: job.Encode(ended(10))})
		require.Equal(t, map[string]string{"queue/lockstep-13": tenEnded}, writtenRecords(b.storeAsked()))
	})
}

// In a cluster this node may lack a job that another node has archived: dependents of
// that job wait.
func TestAnOutcomeThatThisNodeDoesNotKnow(t *testing.T) {
	onShared(t, func(t *testing.T, b *bench) {
		b.recover(scanOf(newJob(20)))
		b.scheduler.Unread()
		b.outcome(10)
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Missing: true})
		requireMessages(t, []any{&messages.GetJobOutcomeResult{Id: 10, Unknown: true}}, b.scheduler.Unread())
		b.outcome(21)
		requireMessages(t, []any{&messages.GetJobOutcomeResult{Id: 21, Missing: true}}, b.scheduler.Unread())
	})
	onShared(t, func(t *testing.T, b *bench) {
		b.recover(withRecords(scanOf(dependent(12, 10)), map[int64]string{12: tenEnded}))
		b.scheduler.Unread()
		b.outcome(10)
		requireMessages(t, []any{&messages.GetJobOutcomeResult{Id: 10, Status: int32(job.Success)}}, b.scheduler.Unread())
		b.store.Quiet()
	})
}

// The record of an archived job is moved to the archive and every other record without a
// job is removed, before the queue accepts requests.
func TestOrphans(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		scan := scanOf(newJob(20))
		scan.Orphans = []int64{7, 8, 21}
		b.recover(scan)
		for range 3 {
			r := b.storeAsked()
			b.fileRead(r, &messages.ReadFileResult{Missing: r.GetRead().Path != "queue/archive/0/job-7", Content: job.Encode(ended(7))})
		}
		b.gateway.Quiet()
		var done []string
		for range 3 {
			r := b.storeAsked()
			done = append(done, fmt.Sprint(moved(r), r.GetRemove().GetPaths()))
			b.filesDone(r)
		}
		require.Equal(t, []string{"[queue/lockstep-7] []", "[] [queue/lockstep-8]", "[] [queue/lockstep-21]"}, done)
		kittest.Expect[*messages.QueueStarted](b.gateway)
	})
}

// The record of a submission without a commit record is quarantined with its job, and so
// is a file that is no record beside a job that has ended.
func TestRecordsThatAreSetAside(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		scan := withRecords(scanOf(ended(20), newJob(21)), map[int64]string{20: "{", 21: tenEnded})
		scan.Serial = []byte("20\n")
		b.recover(scan)
		for _, path := range []string{"queue/job-21", "queue/lockstep-21", "queue/lockstep-20"} {
			r := b.storeAsked()
			require.Equal(t, path, r.GetQuarantine().GetPath())
			b.storeAnswers(r, &messages.AccessStoreResult{What: &messages.AccessStoreResult_Quarantine{Quarantine: &messages.QuarantineFileResult{Path: "queue/quarantine/x"}}})
		}
		require.False(t, b.rowOf(20).Unknown)
	})
}
