package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/handshake"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/rawjson"
	"lockstep/messages"
)

// The life of a job, step by step.
func TestAJobRuns(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		require.Equal(t, []string{"start 1"}, b.takeCalls())
		require.Equal(t, []int64{1}, b.listActive())
		b.store.Quiet()

		b.sendNamed(1)
		require.Empty(t, b.takeCalls(), "nobody may act before the name is durable")
		j := b.answerWrite(1, nil)
		require.Equal(t, jobtest.Livelock(1), j.Livelock)
		require.Equal(t, 100, j.ProcessID)
		require.Equal(t, job.Queued, j.Status())
		require.Equal(t, []string{"confirm 1 with [null]"}, b.takeCalls())

		b.sendConfirmed(1)
		b.queue.Quiet()
		b.sendGone(1, "exit status 0")
		b.answerReadJob(jobtest.Succeeded(1))
		require.Equal(t, job.Success, b.expectEnded(1).Status())
		require.Empty(t, b.listActive())
		require.Empty(t, b.takeCalls())
		b.store.Quiet()
		b.queue.Quiet()
	})
}

// The end of the process ends the job in any status. how is the reason in the file.
func TestTheProcessGoes(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*bench)
		file   *job.Job
		how    string
	}{
		"before it has taken its permission": {
			func(b *bench) { b.start(1); b.sendNamed(1); b.answerWrite(1, nil) },
			jobtest.Running(1), `detected death of job 1: exit status 3`},
		"while it runs": {
			func(b *bench) { b.run(1) }, jobtest.Running(1), `detected death of job 1: exit status 3`},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				c.before(b)
				b.sendGone(1, "exit status 3")
				b.answerReadJob(c.file)
				written := b.answerWrite(1, nil)
				require.Equal(t, job.Error, written.Status())
				require.Equal(t, string(rawjson.Quote(c.how)), string(written.Ops[0].Result))
				require.Equal(t, job.TimestampOf(b.Clock.Now()), written.End)
				require.Equal(t, written, b.expectEnded(1))
				require.Empty(t, b.listActive())
				b.queue.Quiet()
			})
		})
	}
}

// The end that the process wrote stands, whatever its exit status. It is made durable
// before it is reported, because the process may not have done so.
func TestTheFileIsTheTruth(t *testing.T) {
	for how, inOrder := range map[string]bool{handshake.CleanExit: true, "ended by SIGKILL": false} {
		onBench(t, func(t *testing.T, b *bench) {
			b.run(1)
			b.sendGone(1, how)
			b.answerReadJob(jobtest.Succeeded(1))
			if !inOrder {
				b.queue.Quiet()
				require.Equal(t, jobtest.Succeeded(1), b.answerWrite(1, nil))
			}
			require.Equal(t, job.Success, b.expectEnded(1).Status())
		})
	}
}

// A failed write of an end may have succeeded, and may not be durable.
func TestAnEndThatCouldNotBeWritten(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.sendGone(1, handshake.CleanExit)
		b.answerReadJob(jobtest.Running(1))
		end := b.answerWrite(1, noDisk)
		b.queue.Quiet()
		b.Advance(100 * time.Millisecond)
		b.answerReadJob(end)
		b.queue.Quiet()
		require.Equal(t, end, b.answerWrite(1, nil))
		b.expectEnded(1)
	})
}

func TestOpcodesThatHaveSucceededStaySo(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		j := jobtest.Running(1)
		j.Ops = append(j.Ops, j.Ops[0], j.Ops[0])
		j.Ops[0].Status, j.Ops[0].Result = job.Success, []byte(`"done"`)
		j.Ops[2].Status = job.Queued
		b.run(1)
		b.sendGone(1, "")
		b.answerReadJob(j)
		b.answerWrite(1, nil)
		end := b.expectEnded(1)
		require.Equal(t, []job.Status{job.Success, job.Error, job.Error},
			[]job.Status{end.Ops[0].Status, end.Ops[1].Status, end.Ops[2].Status})
		require.Equal(t, `"done"`, string(end.Ops[0].Result))
	})
}

func TestWhatCannotBeWrittenIsAbandoned(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.sendNamed(1)
		b.answerWrite(1, noDisk)
		require.Equal(t, []string{"start 1", "abandon 1"}, b.takeCalls())
		b.queue.Quiet() // the process is alive
		require.Equal(t, []int64{1}, b.listActive())
	})
}

func TestABrokenHandshakeIsAbandoned(t *testing.T) {
	for name, before := range map[string]func(*bench){
		"spawning": func(b *bench) { b.start(1) },
		"saving":   func(b *bench) { b.start(1); b.sendNamed(1) },
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				before(b)
				b.sendHandshakeFailed(1, "it said nonsense")
				require.Equal(t, []string{"start 1", "abandon 1"}, b.takeCalls())
				b.sendHandshakeFailed(1, "again")
				require.Empty(t, b.takeCalls())
			})
		})
	}
}

// After the permission only the end of the process ends the job.
func TestAFailureAfterThePermissionIsNotTheEnd(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.sendNamed(1)
		b.answerWrite(1, nil)
		b.takeCalls()
		b.sendHandshakeFailed(1, "it did not answer")
		require.Empty(t, b.takeCalls())
		b.sendGone(1, handshake.CleanExit)
		b.answerReadJob(jobtest.Succeeded(1))
		require.Equal(t, job.Success, b.expectEnded(1).Status())
	})
}

// Messages of another attempt are ignored.
func TestNewsOfAnotherAttempt(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		for _, m := range []any{
			&messages.ProcessNamed{Attempt: 7, Livelock: "other"}, &messages.ProcessConfirmed{Attempt: 7},
			&messages.HandshakeFailed{Attempt: 7}, &messages.ProcessGone{Attempt: 7},
		} {
			b.sendFromProcess(1, func(uint64) any { return m })
		}
		require.Equal(t, []string{"start 1"}, b.takeCalls())
		b.store.Quiet()
		b.sendNamed(1)
		require.Equal(t, jobtest.Livelock(1), b.answerWrite(1, nil).Livelock)
	})
}

func TestNewsThatComesTwice(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.start(1)
		b.sendNamed(1)
		b.sendNamed(1)
		b.answerWrite(1, nil)
		b.sendConfirmed(1)
		b.sendConfirmed(1)
		require.Equal(t, []string{"start 1", "confirm 1 with [null]"}, b.takeCalls())
		b.sendGone(1, handshake.CleanExit)
		b.sendGone(1, handshake.CleanExit)
		b.answerReadJob(jobtest.Succeeded(1))
		b.expectEnded(1)
		b.store.Quiet()
		b.queue.Quiet()
	})
}

func TestStartsInFlightAreLimited(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for id := int64(1); id <= 5; id++ {
			b.start(id)
		}
		require.Equal(t, []string{"start 1", "start 2"}, b.takeCalls())
		require.Equal(t, []int64{1, 2, 3, 4, 5}, b.listActive())

		b.sendNamed(2)
		b.answerWrite(2, nil)
		require.Equal(t, []string{"confirm 2 with [null]"}, b.takeCalls())
		b.sendConfirmed(2)
		require.Equal(t, []string{"start 3"}, b.takeCalls())

		b.sendNamed(1)
		b.answerWrite(1, nil)
		b.takeCalls()
		b.sendGone(1, "exit status 3") // this also shows that the process was confirmed
		require.Equal(t, []string{"start 4"}, b.takeCalls())
		b.answerReadJob(jobtest.Running(1))
		b.answerWrite(1, nil)
		b.expectEnded(1)
		require.Empty(t, b.takeCalls())

		b.Crash(b.port.last[3].to)
		require.Equal(t, []string{"abandon 3", "start 5"}, b.takeCalls())
	})
}

func TestAdoptionsAreNotLimited(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.start(2)
		b.takeCalls()
		for id := int64(3); id <= 6; id++ {
			b.send(&messages.AdoptJob{Id: id, Encoded: job.Encode(jobtest.Running(id))})
			b.answerReadJob(jobtest.Running(id))
		}
		require.Len(t, b.takeCalls(), 4)
	})
}

// A restart of the store does not affect the handshake: requests are repeated.
func TestTheStoreRestartsDuringAHandshake(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.sendNamed(1)
		first, _ := b.expectStoreRequest()
		b.send(&messages.StoreStarted{Incarnation: 2})
		second, from := b.expectStoreRequest()
		require.Equal(t, first.Request, second.Request)
		require.Equal(t, uint64(2), second.Incarnation)
		for range 2 {
			b.store.Ask(from, kittest.StoreResult(second, &messages.ChangeFilesResult{}))
		}
		require.Equal(t, []string{"start 1", "confirm 1 with [null]"}, b.takeCalls())
		b.expectQuiet()
	})
}

// expectQuiet expects no further message to any probe.
func (b *bench) expectQuiet() {
	b.Helper()
	for _, p := range []*kittest.Probe{b.store, b.queue, b.client} {
		p.Quiet()
	}
}
