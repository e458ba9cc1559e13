package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/paths"
	"lockstep/messages"
)

func (b *bench) adopt(known *job.Job) {
	b.send(&messages.AdoptJob{Id: int64(known.ID), Encoded: job.Encode(known)})
}

func TestAdoptARunningJob(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Running(1))
		require.Empty(t, b.takeCalls())
		b.answerReadJob(jobtest.Running(1))
		require.Equal(t, []string{"adopt 1 pid 100 " + jobtest.Livelock(1)}, b.takeCalls())
		require.Equal(t, []int64{1}, b.listActive())
		require.Equal(t, int64(1), kittest.Expect[*messages.JobProgressed](b.queue).Id, "the queue hears what the file holds now")
		b.queue.Quiet()
		b.sendGone(1, "its process has ended")
		b.answerReadJob(jobtest.Running(1))
		require.Contains(t, string(b.answerWrite(1, nil).Ops[0].Result), "detected death of job 1: its process has ended")
		require.Equal(t, job.Error, b.expectEnded(1).Status())
	})
}

// The lock manager has found the livelock of a job free: its process is probed now.
func TestAnAdoptedProcessIsProbedForTheLockManager(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.send(&messages.AwaitJobCleanup{Id: 1})
		require.Empty(t, b.takeCalls(), "no such job")
		b.adopt(jobtest.Running(1))
		b.answerReadJob(jobtest.Running(1))
		b.takeCalls()
		b.send(&messages.AwaitJobCleanup{Id: 1})
		require.Equal(t, []string{"probe 1"}, b.takeCalls())
	})
}

func TestAdoptAJobThatEndsMeanwhile(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Running(1))
		b.answerReadJob(jobtest.Running(1))
		b.sendGone(1, "its process has ended")
		b.answerReadJob(jobtest.Succeeded(1))
		b.answerWrite(1, nil) // the end that the process wrote may not be durable
		require.Equal(t, job.Success, b.expectEnded(1).Status())
	})
}

// The job has ended, but its process may still have to sync its directory.
func TestAdoptAJobThatHasEnded(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Running(1))
		b.answerReadJob(jobtest.Succeeded(1))
		require.Equal(t, []string{"adopt 1 pid 100 " + jobtest.Livelock(1)}, b.takeCalls())
		b.queue.Quiet()
		b.sendGone(1, "its process has ended")
		b.answerReadJob(jobtest.Succeeded(1))
		b.answerWrite(1, nil)
		require.Equal(t, job.Success, b.expectEnded(1).Status())
		require.Empty(t, b.listActive())
	})
}

// A job whose file names no job process was never confirmed.
func TestAdoptAJobThatWasNeverConfirmed(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Queued(1))
		b.answerReadJob(jobtest.Queued(1))
		require.Equal(t, int64(1), kittest.Expect[*messages.JobReturned](b.queue).Id)
		require.Empty(t, b.takeCalls())
		require.Empty(t, b.listActive())
	})
}

// The livelock's name is on the disk, but the process may not have its permission: it is
// watched like a confirmed one.
func TestAdoptAJobInTheMiddleOfItsStart(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		j := jobtest.Queued(1)
		j.Livelock, j.ProcessID = jobtest.Livelock(1), 100
		b.adopt(jobtest.Queued(1))
		b.answerReadJob(j)
		require.Equal(t, []string{"adopt 1 pid 100 " + jobtest.Livelock(1)}, b.takeCalls())
	})
}

// A process that was killed with the daemon before it began the job fails nothing: the next daemon queues the job again.
func TestAdoptAJobThatItsProcessHasNotBegun(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Named(1))
		b.answerReadJob(jobtest.Named(1))
		b.sendNeverActed(1)
		b.answerReadJob(jobtest.Named(1))
		require.Equal(t, undone(1), b.answerWrite(1, nil))
		require.Equal(t, int64(1), kittest.Expect[*messages.JobProgressed](b.queue).Id)
		m := kittest.Expect[*messages.JobReturned](b.queue)
		require.Equal(t, job.Encode(undone(1)), m.Encoded)
		require.Empty(t, b.listActive())
	})
}

// Without the proof the job fails, and the text says that it may have begun.
func TestAdoptAJobThatItsProcessMayHaveBegun(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Named(1))
		b.answerReadJob(jobtest.Named(1))
		b.sendGone(1, "its process has ended")
		b.answerReadJob(jobtest.Named(1))
		require.Contains(t, string(b.answerWrite(1, nil).Ops[0].Result), "its process has ended; it may have begun")
		require.Equal(t, job.Error, b.expectEnded(1).Status())
	})
}

func TestAdoptAJobThatHasBegunButNamesNoProcess(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		j := jobtest.Queued(1)
		j.Ops[0].Status = job.Running
		b.adopt(j)
		b.answerReadJob(j)
		b.answerReadJob(j)
		require.Contains(t, string(b.answerWrite(1, nil).Ops[0].Result), "it has begun, but names no process")
		require.Equal(t, job.Error, b.expectEnded(1).Status())
		require.Empty(t, b.takeCalls())
	})
}

// An invalid file goes to the quarantine, and the end is written from memory, but not
// before the known process is gone.
func TestAdoptAJobWhoseFileIsNotAJob(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Running(1))
		b.answerRead(1, &messages.ReadFileResult{Content: []byte("nonsense")})
		require.Equal(t, []string{"adopt 1 pid 100 " + jobtest.Livelock(1)}, b.takeCalls())
		b.store.Quiet()
		b.sendGone(1, "ended by SIGKILL")
		b.answerRead(1, &messages.ReadFileResult{Content: []byte("nonsense")})
		r, from := b.expectStoreRequest()
		require.Equal(t, "queue/job-1", r.GetQuarantine().GetPath())
		b.store.Ask(from, kittest.StoreResult(r, &messages.QuarantineFileResult{}))
		require.Equal(t, job.Error, b.answerWrite(1, nil).Status())
		b.expectEnded(1)
	})
}

func TestAdoptAJobWhoseFileIsGone(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Running(1))
		b.answerRead(1, &messages.ReadFileResult{Missing: true})
		b.store.Quiet()
		b.sendGone(1, "ended by SIGKILL")
		b.answerRead(1, &messages.ReadFileResult{Missing: true})
		b.answerReadAt(paths.ArchivePath(1), &messages.ReadFileResult{Failure: noDisk})
		b.Advance(100 * time.Millisecond)
		b.answerRead(1, &messages.ReadFileResult{Missing: true})
		b.answerReadAt(paths.ArchivePath(1), &messages.ReadFileResult{Missing: true})
		require.Equal(t, job.Error, b.answerWrite(1, nil).Status())
		b.expectEnded(1)
	})
}

// An order to adopt a job may arrive after the job has ended and was archived.
func TestAdoptAJobThatIsInTheArchive(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Running(1))
		b.answerRead(1, &messages.ReadFileResult{Missing: true})
		b.sendGone(1, "ended by SIGKILL")
		b.answerRead(1, &messages.ReadFileResult{Missing: true})
		b.answerReadAt(paths.ArchivePath(1), &messages.ReadFileResult{Content: job.Encode(jobtest.Succeeded(1))})
		require.Equal(t, job.Success, b.expectEnded(1).Status())
		b.store.Quiet()
	})
}

// A file that cannot be read may belong to a running job.
func TestAdoptAJobThatCannotBeReadYet(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Running(1))
		b.answerRead(1, &messages.ReadFileResult{Failure: noDisk})
		b.store.Quiet()
		b.queue.Quiet()
		b.Advance(100 * time.Millisecond)
		b.answerReadJob(jobtest.Running(1))
		require.Equal(t, []string{"adopt 1 pid 100 " + jobtest.Livelock(1)}, b.takeCalls())
	})
}

func TestAdoptAJobThatIsInHand(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.adopt(jobtest.Running(1))
		b.start(1)
		require.Empty(t, b.takeCalls())
		b.store.Quiet()
	})
}

func TestSomebodyElsesFileInTheJobsPlace(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.sendGone(1, "")
		b.answerRead(1, &messages.ReadFileResult{Content: job.Encode(jobtest.Succeeded(2))})
		r, from := b.expectStoreRequest()
		require.NotNil(t, r.GetQuarantine())
		b.store.Ask(from, kittest.StoreResult(r, &messages.QuarantineFileResult{Failure: noDisk}))
		require.Equal(t, job.ID(1), b.answerWrite(1, nil).ID)
		require.Equal(t, job.Error, b.expectEnded(1).Status())
	})
}

// A job has ended only when its end is on the disk, however long that takes.
func TestADiskThatRefusesTheEnd(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.sendGone(1, "exit status 3")
		for _, delay := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
			b.answerReadJob(jobtest.Running(1))
			b.answerWrite(1, noDisk)
			b.queue.Quiet()
			b.Advance(delay - 1)
			b.store.Quiet()
			b.Advance(1)
		}
		for range 20 { // the delay is at most 30 s
			b.answerRead(1, &messages.ReadFileResult{Failure: noDisk})
			b.Advance(30 * time.Second)
		}
		require.Equal(t, []int64{1}, b.listActive())
		b.answerReadJob(jobtest.Running(1))
		b.answerWrite(1, nil)
		require.Equal(t, job.Error, b.expectEnded(1).Status())
		require.Empty(t, b.listActive())
	})
}

// The former actor has crashed after it had undone the start. The queue gets the number of that start.
func TestAdoptAJobWhoseStartWasUndone(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Named(1))
		b.answerReadJob(undone(1))
		require.Equal(t, job.Encode(undone(1)), kittest.Expect[*messages.JobReturned](b.queue).Encoded)
	})
}

// Orders to a process that turns out not to have begun the job: they end the job. One that was answered as refused does not.
func TestOrdersToAProcessThatHasNotBegun(t *testing.T) {
	rule := &messages.Verdict{Id: 1, Rule: "r", Reason: "no"}
	for name, c := range map[string]struct {
		order    *messages.OrderJob
		answered bool // before the process has ended, as not done
		result   string
	}{
		"a cancel":         {&messages.OrderJob{Request: 5, Id: 1}, false, ""},
		"a rule":           {&messages.OrderJob{Request: 5, Id: 1, Rejection: rule}, false, `"rejected by filter rule r: no"`},
		"a kill":           {&messages.OrderJob{Request: 5, Id: 1, Kind: messages.OrderJob_KILL}, false, ""},
		"a kill, answered": {&messages.OrderJob{Request: 5, Id: 1, Kind: messages.OrderJob_KILL}, true, ""},
		"refused":          {&messages.OrderJob{Request: 5, Id: 1}, true, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.run(1)
				b.order(c.order)
				if c.answered {
					b.Advance(time.Minute)
					done, _ := b.expectOrderResult(5)
					require.False(t, done)
				}
				b.sendNeverActed(1)
				b.answerReadJob(jobtest.Named(1))
				if c.result == "none" {
					require.Equal(t, undone(1), b.answerWrite(1, nil))
					kittest.Expect[*messages.JobReturned](b.queue)
					return
				}
				require.Equal(t, c.result, string(b.answerWrite(1, nil).Ops[0].Result))
				require.Equal(t, job.Canceled, b.expectEnded(1).Status())
				if !c.answered {
					done, _ := b.expectOrderResult(5)
					require.True(t, done)
				}
			})
		})
	}
}
