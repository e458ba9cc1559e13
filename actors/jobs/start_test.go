package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/rawjson"
	"lockstep/messages"
)

// sendNeverActed ends a process that has not received its launch spec.
func (b *bench) sendNeverActed(id int64) {
	b.Helper()
	b.sendFromProcess(id, func(n uint64) any { return &messages.ProcessGone{Attempt: n, Text: "exit status 3", NeverActed: true} })
}

// sendNotSpawned reports that the process could not be spawned.
func (b *bench) sendNotSpawned(id int64) {
	b.Helper()
	b.sendHandshakeFailed(id, "no such file")
	b.sendFromProcess(id, func(n uint64) any { return &messages.ProcessGone{Attempt: n, Text: "no such file", NeverSpawned: true} })
}

func (b *bench) expectReturned(id int64) {
	b.Helper()
	require.Equal(b, id, kittest.Expect[*messages.JobReturned](b.queue).Id)
	require.Empty(b, b.listActive())
	b.expectQuiet()
}

// startError is the text of GetStartErrorResult.
func (b *bench) startError() string {
	b.Helper()
	b.client.Ask(b.jobs, &messages.GetStartError{Request: 7})
	m := kittest.Expect[*messages.GetStartErrorResult](b.client)
	require.Equal(b, uint64(7), m.Request)
	return m.Text
}

// undone is a queued job whose first start was undone.
func undone(id int64) *job.Job {
	j := jobtest.Queued(id)
	j.Livelock = "undone_1"
	return j
}

// If no process could act on the job, its file names no process, the job goes back
// to the queue, and all starts wait.
func TestAStartThatComesToNothing(t *testing.T) {
	notRecorded := func(b *bench) { b.answerReadJob(jobtest.Queued(1)) }
	recorded := func(b *bench) {
		b.answerReadJob(jobtest.Named(1))
		b.queue.Quiet() // otherwise a later daemon would fail the job
		require.Equal(b, undone(1), b.answerWrite(1, nil))
	}
	for name, c := range map[string]struct {
		breaks func(*bench)
		mends  func(*bench) // restores the job's file
		why    string
	}{
		"there is no program": {func(b *bench) { b.sendNotSpawned(1) }, func(*bench) {}, "no such file"},
		"the process ends before it has a name": {func(b *bench) { b.sendHandshakeFailed(1, "EOF"); b.sendNeverActed(1) },
			func(*bench) {}, "EOF"},
		"its name cannot be written": {func(b *bench) {
			b.sendNamed(1)
			b.answerWrite(1, noDisk)
			b.sendHandshakeFailed(1, "the start was called off")
			b.sendNeverActed(1)
		}, notRecorded, noDisk.Text},
		"its name cannot be made durable": {func(b *bench) { b.sendNamed(1); b.answerWrite(1, noDisk); b.sendNeverActed(1) }, recorded, noDisk.Text},
		"it ends while its name is written": {func(b *bench) {
			b.sendNamed(1)
			b.sendNeverActed(1)
			b.answerWrite(1, nil)
		}, recorded, "exit status 3"},
		"it says nonsense": {func(b *bench) {
			b.sendNamed(1)
			b.sendHandshakeFailed(1, "it said nonsense")
			b.answerWrite(1, nil)
			b.sendNeverActed(1)
		}, recorded, "it said nonsense"},
		"it ends when its permission is on the way": {func(b *bench) {
			b.sendNamed(1)
			b.answerWrite(1, nil)
			b.sendHandshakeFailed(1, "EOF")
			b.sendNeverActed(1)
		}, recorded, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.start(1)
				c.breaks(b)
				require.Equal(t, c.why, b.startError())
				c.mends(b)
				b.expectReturned(1)
				b.takeCalls()

				b.start(2)
				require.Empty(t, b.takeCalls(), "starts wait")
				b.Advance(100 * time.Millisecond)
				require.Equal(t, []string{"start 2"}, b.takeCalls())
				require.Equal(t, c.why, b.startError())
				b.sendNamed(2)
				b.answerWrite(2, nil)
				b.sendConfirmed(2)
				require.Empty(t, b.startError())
			})
		})
	}
}

// After a failure only one start is in flight until one succeeds. The delay doubles with
// each failure, but not with failures during the delay.
func TestStartsThatFailAreTriedOneByOne(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.start(2)
		require.Equal(t, []string{"start 1", "start 2"}, b.takeCalls())
		b.sendNotSpawned(1)
		b.sendNotSpawned(2)
		b.start(3)
		b.start(4)
		b.takeCalls()
		for i, pause := range []time.Duration{100, 200, 400, 800} {
			b.Advance(pause*time.Millisecond - 1)
			require.Empty(t, b.takeCalls())
			b.Advance(1)
			id := int64(3 + i)
			require.Equal(t, []string{fmt.Sprintf("start %d", id)}, b.takeCalls())
			b.start(id + 2)
			require.Empty(t, b.takeCalls())
			b.sendNotSpawned(id)
			b.takeCalls()
		}
		b.Advance(1600 * time.Millisecond)
		require.Equal(t, []string{"start 7"}, b.takeCalls())
		b.start(9)
		b.sendNamed(7)
		b.answerWrite(7, nil)
		b.sendConfirmed(7)
		require.ElementsMatch(t, []string{"confirm 7 with [null]", "start 8", "start 9"}, b.takeCalls())
	})
}

// Without waiting jobs there is no start error.
func TestTroubleIsForgottenWithTheLastJob(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.sendNotSpawned(1)
		b.expectReturned(1)
		require.NotEmpty(t, b.startError())
		b.Advance(time.Second)
		require.Empty(t, b.startError())
	})
}

// While the file names a process, the job is not returned to the queue.
func TestAJobIsGivenBackWhenItsFileIsAsBefore(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.sendNamed(1)
		b.answerWrite(1, noDisk)
		b.sendNeverActed(1)
		b.answerRead(1, &messages.ReadFileResult{Failure: noDisk})
		b.Advance(100 * time.Millisecond)
		b.answerReadJob(jobtest.Named(1))
		b.answerWrite(1, noDisk)
		b.queue.Quiet()
		b.start(2)
		require.Contains(t, b.takeCalls(), "start 2", "others are started meanwhile")
		b.Advance(200 * time.Millisecond)
		b.answerReadJob(jobtest.Queued(1))
		require.Equal(t, int64(1), kittest.Expect[*messages.JobReturned](b.queue).Id)
	})
}

// A cancel during a failing start cancels a job on which no process has acted. It comes before the end of the process, or while the file is
// read to return the job to the queue.
func TestACancelDuringAStartThatFails(t *testing.T) {
	for name, kind := range map[string]messages.OrderJob_Kind{"cancel": messages.OrderJob_CANCEL, "kill": messages.OrderJob_KILL} {
		for when, late := range map[string]bool{"before the end": false, "after the end": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				onBench(t, func(t *testing.T, b *bench) {
					b.start(1)
					b.sendNamed(1)
					b.answerWrite(1, noDisk)
					order := func() {
						b.client.Ask(b.jobs, &messages.OrderJob{Request: 5, Id: 1, Kind: kind})
						b.Settle()
					}
					if late {
						b.sendNeverActed(1)
						order()
						b.answerReadJob(jobtest.Queued(1))
					} else {
						order()
						b.sendNeverActed(1)
					}
					b.answerReadJob(jobtest.Queued(1))
					require.Equal(t, job.Canceled, b.answerWrite(1, nil).Status())
					b.expectEnded(1)
					m := kittest.Expect[*messages.OrderJobResult](b.client)
					require.True(t, m.Done)
					require.Equal(t, "Dequeued job 1", m.Text)
				})
			})
		}
	}
}

// An acknowledged priority outlives a failed start.
func TestAPriorityOutlivesAStartThatCannotBeMade(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.send(&messages.OrderJob{Id: 1, Kind: messages.OrderJob_SET_PRIORITY, Priority: -7})
		b.sendNotSpawned(1)
		kittest.Expect[*messages.JobReturned](b.queue)
		require.Equal(t, int32(-7), kittest.Expect[*messages.OrderJob](b.queue).Priority)
	})
}

// A job that cannot be started does not block the others for ever.
func TestAJobThatAloneCannotBeStarted(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for try := range int64(4) {
			b.start(1)
			b.sendHandshakeFailed(1, "EOF")
			b.sendNeverActed(1)
			b.expectReturned(1)
			b.Advance(3 * time.Second)
			b.run(10 + try)
			b.sendGone(10+try, "exit status 0")
			b.answerReadJob(jobtest.Succeeded(10 + try))
			b.expectEnded(10 + try)
		}
		b.start(1)
		b.sendHandshakeFailed(1, "EOF")
		b.sendNeverActed(1)
		b.answerReadJob(jobtest.Queued(1))
		end := b.answerWrite(1, nil)
		require.Equal(t, string(rawjson.Quote("job 1 failed to start: EOF (5 times, while processes were started)")), string(end.Ops[0].Result))
		b.expectEnded(1)
		require.Empty(t, b.listActive())
	})
}

// A job does not fail while no other job is started, or after many failures in a short
// time.
func TestAJobThatCannotBeStartedLikeOthers(t *testing.T) {
	for name, c := range map[string]struct {
		pause  time.Duration
		others bool
	}{"no other is started": {time.Minute, false}, "in a short time": {100 * time.Millisecond, true}} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				for try := range int64(20) {
					b.start(1)
					b.sendHandshakeFailed(1, "EOF")
					b.sendNeverActed(1)
					b.expectReturned(1)
					b.Advance(c.pause)
					if c.others {
						b.run(10 + try)
						b.sendGone(10+try, "exit status 0")
						b.answerReadJob(jobtest.Succeeded(10 + try))
						b.expectEnded(10 + try)
					}
				}
			})
		})
	}
}
