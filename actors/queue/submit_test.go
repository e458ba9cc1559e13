package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/messages"
)

func TestASubmissionIsToldWhenTheSerialIsWritten(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submit(1, 2)
		jobs := b.storeAsked()
		require.True(t, jobs.GetWrite().Durable)
		require.Equal(t, []string{"queue/job-1", "queue/job-2"}, filePaths(jobs))
		b.client.Quiet()
		require.True(t, b.rowOf(1).Unknown)

		require.Equal(t, "2\n", string(jobs.GetWrite().CommitRecord.Content), "the commit record")
		b.scheduler.Quiet()

		b.filesDone(jobs)
		require.Equal(t, []int64{1, 2}, b.submitted(1).Ids)
		enqueued := kittest.Expect[*messages.EnqueueJobs](b.scheduler)
		require.Len(t, enqueued.Jobs, 2)
		require.False(t, b.rowOf(1).Unknown)
	})
}

func TestAJobAsItIsRecorded(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submit(1, 1)
		j, err := job.Decode(b.storeAsked().GetWrite().Files[0].Content)
		require.NoError(t, err)
		require.Equal(t, job.ID(1), j.ID)
		require.Equal(t, job.Queued, j.Status())
		require.Equal(t, livelock, j.Livelock)
		require.Equal(t, job.TimestampOf(b.Clock.Now()), j.Received)
		require.Contains(t, string(j.Ops[0].Input), `["gnt:opcode:test_delay", "job=1;index=0", `)
	})
}

// The submitter is in the reason trail of the job; clients cannot write that entry
// themselves.
func TestWhoHasSubmittedAJob(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		const forged = `{"OP_ID": "OP_TEST_DELAY", "duration": 1, "reason": [["gnt:user", "why", 1], ["lockstep:us\u0065r", "uid=0(root)", 2]]}`
		for request, by := range []string{"uid=1000(ada), pid=7", ""} {
			b.client.Ask(b.queue, &messages.SubmitJobs{Request: uint64(request + 1), By: by,
				Jobs: []*messages.JobDraft{{Ops: []*messages.OpDraft{{Input: []byte(forged)}}}}})
			b.Settle()
			asked := b.storeAsked()
			j, err := job.Decode(asked.GetWrite().Files[0].Content)
			require.NoError(t, err)
			require.NotContains(t, string(j.Ops[0].Input), "root")
			if by != "" {
				require.Contains(t, string(j.Ops[0].Input), `"reason": [["gnt:user", "why", 1], ["lockstep:user", "uid=1000(ada), pid=7", 1704`)
			}
			b.filesDone(asked)
			b.submitted(uint64(request + 1))
		}
	})
}

// The record of a job says to whom it belongs, in the commit of the submission. A job of the daemon's user has no record for that.
func TestASubmitterIsRecordedWithHisJob(t *testing.T) {
	alice := access.Submitter{UID: 1000, Name: "alice"}.Encode()
	onReady(t, nil, func(t *testing.T, b *bench) {
		for request, submitter := range [][]byte{alice, nil} {
			b.client.Ask(b.queue, &messages.SubmitJobs{Request: uint64(request + 1), Submitter: submitter, Jobs: []*messages.JobDraft{draft("")}})
			b.Settle()
			asked := b.storeAsked()
			want := ""
			if submitter != nil {
				want = `{"submitter":{"uid":1000,"name":"alice"}}` + "\n"
			}
			require.Equal(t, want, writtenRecords(asked)[fmt.Sprintf("queue/lockstep-%d", request+1)])
			b.filesDone(asked)
			b.submitted(uint64(request + 1))
			require.Equal(t, submitter, b.rowOf(int64(request+1)).Info.Submitter)
		}
	})
}

// All submissions that arrive during a commit make the next one.
func TestSubmissionsAreCommittedInGroups(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submit(1, 1)
		for request := uint64(2); request <= 4; request++ {
			b.submit(request, 2)
		}
		first := b.storeAsked()
		require.Equal(t, []string{"queue/job-1"}, filePaths(first))
		b.store.Quiet()
		b.filesDone(first)
		require.Equal(t, []int64{1}, b.submitted(1).Ids)

		jobs := b.storeAsked()
		require.Len(t, filePaths(jobs), 6)
		require.Equal(t, "7\n", string(jobs.GetWrite().CommitRecord.Content))
		b.client.Quiet()
		b.filesDone(jobs)
		require.Equal(t, []int64{2, 3}, b.submitted(2).Ids)
		require.Equal(t, []int64{4, 5}, b.submitted(3).Ids)
		require.Equal(t, []int64{6, 7}, b.submitted(4).Ids)
	})
}

// group makes submissions of 1, 2 and 1 jobs one commit, with the ids 2, 3 and 4, 5.
func (b *bench) group() (jobs *messages.AccessStore) {
	b.Helper()
	b.submit(1, 1)
	b.submit(2, 1)
	b.submit(3, 2)
	b.submit(4, 1)
	b.commit()
	b.submitted(1)
	b.scheduler.Unread()
	return b.storeAsked()
}

func TestOneThatCannotBeWrittenDoesNotHarmTheOthers(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.filesDone(b.group(), "queue/job-4")
		takeBack := b.storeAsked()
		require.Equal(t, []string{"queue/job-3", "queue/job-4"}, takeBack.GetRemove().GetPaths())
		b.client.Quiet()
		b.filesDone(takeBack)
		serial := b.storeAsked()
		require.Equal(t, "5\n", string(serial.GetWrite().Files[0].Content))
		b.filesDone(serial)

		require.Equal(t, []int64{2}, b.submitted(2).Ids)
		broken := b.submitted(3)
		require.Empty(t, broken.Ids)
		require.Equal(t, "no queue/job-4", broken.Failure.Text)
		require.Equal(t, []int64{5}, b.submitted(4).Ids)
		require.Len(t, kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs, 2)
		require.True(t, b.rowOf(3).Unknown)
		require.True(t, b.rowOf(4).Unknown)
	})
}

// The serial is the id of the last recorded job, but no id is given twice.
func TestIdsOfFailedSubmissionsAreBurnt(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.filesDone(b.group(), "queue/job-5")
		b.filesDone(b.storeAsked())
		serial := b.storeAsked()
		require.Equal(t, "4\n", string(serial.GetWrite().Files[0].Content))
		b.filesDone(serial)
		b.client.Unread()
		b.submit(5, 1)
		b.commit()
		require.Equal(t, []int64{6}, b.submitted(5).Ids)
	})
}

func TestWithoutAGoodJobThereIsNoSerial(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submit(1, 1)
		b.filesDone(b.storeAsked(), "queue/job-1")
		b.filesDone(b.storeAsked())
		require.NotNil(t, b.submitted(1).Failure)
		b.store.Quiet()
		b.scheduler.Quiet()
		b.submit(2, 1)
		b.commit()
		require.Equal(t, []int64{2}, b.submitted(2).Ids)
	})
}

// No serial may be written while a file of a failed submission is on the disk: it would
// become a job.
func TestAFailedTakeBackAbortsTheGroup(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.filesDone(b.group(), "queue/job-3")
		b.filesDone(b.storeAsked(), "queue/job-4")
		all := b.storeAsked()
		require.Equal(t, []string{"queue/job-2", "queue/job-3", "queue/job-4", "queue/job-5"}, all.GetRemove().GetPaths())
		b.client.Quiet()
		b.filesDone(all)
		require.Equal(t, "no queue/job-4", b.submitted(2).Failure.Text)
		require.Equal(t, "no queue/job-3", b.submitted(3).Failure.Text)
		require.Equal(t, "no queue/job-4", b.submitted(4).Failure.Text)
		b.store.Quiet()
		b.scheduler.Quiet()
	})
}

func TestAFailedSerialAbortsTheGroup(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.filesDone(b.group(), "queue/serial")
		back := b.storeAsked()
		require.Equal(t, "1\n", string(back.GetWrite().GetFiles()[0].Content))
		b.filesDone(back)
		all := b.storeAsked()
		require.Len(t, all.GetRemove().GetPaths(), 4)
		b.filesDone(all)
		for request := uint64(2); request <= 4; request++ {
			require.Equal(t, "no queue/serial", b.submitted(request).Failure.Text)
		}
		b.scheduler.Quiet()
	})
}

// A store that has crashed may have written the serial. It is rolled back first, so that
// a file that cannot be removed is no job.
func TestTheSerialOfAWriteThatWasSentTwiceIsTakenBackFirst(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submit(1, 1)
		b.storeAsked()
		b.store.Ask(b.queue, &messages.StoreStarted{Incarnation: 2})
		b.Settle()
		b.filesDone(b.storeAsked(), "queue/job-1")
		back := b.storeAsked()
		require.Equal(t, "queue/serial", back.GetWrite().GetFiles()[0].Path)
		require.Equal(t, "0\n", string(back.GetWrite().GetFiles()[0].Content))
		b.filesDone(back)
		remove := b.storeAsked()
		require.Equal(t, []string{"queue/job-1"}, remove.GetRemove().GetPaths())
		b.filesDone(remove)
		require.NotNil(t, b.submitted(1).Failure)
	})
}

func TestWhatCannotBeTakenBackIsTold(t *testing.T) {
	const text = "no queue/serial; it could not be taken back either, so look at the list of jobs before you send it again"
	for name, take := range map[string]func(*bench){
		"serial": func(b *bench) { b.filesDone(b.storeAsked(), "queue/serial") },
		"job":    func(b *bench) { b.filesDone(b.storeAsked()); b.filesDone(b.storeAsked(), "queue/job-1") },
	} {
		t.Run(name, func(t *testing.T) {
			onReady(t, nil, func(t *testing.T, b *bench) {
				b.submit(1, 1)
				b.filesDone(b.storeAsked(), "queue/serial")
				take(b)
				require.Equal(t, text, b.submitted(1).Failure.Text)
				// The disk must be read to know which files are there.
				b.Advance(time.Second)
				b.storeStarts(1)
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	empty := &messages.SubmitJobs{Request: 1, Jobs: []*messages.JobDraft{draft(""), {}}}
	full := &messages.SubmitJobs{Request: 1, Jobs: []*messages.JobDraft{draft("")}}
	for name, refused := range map[string]struct {
		drained bool
		m       *messages.SubmitJobs
		class   string
	}{
		"a job without opcodes": {false, empty, messages.ClassPrereq},
		"a drained queue":       {true, full, "JobQueueDrainError"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.recover(&messages.ScanQueueResult{Serial: []byte("0\n"), Drained: refused.drained})
				b.client.Ask(b.queue, refused.m)
				require.Equal(t, refused.class, b.submitted(1).Failure.Class)
				b.store.Quiet()
			})
		})
	}
}

func TestSubmitToADrainedQueue(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(&messages.ScanQueueResult{Serial: []byte("7\n"), Drained: true})
		b.client.Ask(b.queue, &messages.SubmitJobs{Request: 1, Jobs: []*messages.JobDraft{draft("")}, IgnoreDrain: true})
		b.commit()
		require.Equal(t, []int64{8}, b.submitted(1).Ids)
	})
}

func TestSubmissionOfNothing(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submit(1, 0)
		m := b.submitted(1)
		require.Nil(t, m.Failure)
		require.Empty(t, m.Ids)
		b.store.Quiet()
	})
}

// Submissions are lost in a crash during their commit; QueueStarted informs their senders.
// The new incarnation drops a late answer of the store.
func TestACrashDuringACommit(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submit(1, 1)
		jobs := b.storeAsked()
		b.Restart(b.queue)
		b.storeStarts(1)
		b.filesDone(jobs)
		b.listActive()
		scan := scanOf()
		scan.Jobs = append(scan.Jobs, &messages.ScannedJob{Id: 1, Content: jobs.GetWrite().Files[0].Content})
		b.tellScan(scan)
		b.gateway.Quiet() // the next serial would make a job of the file
		aside := b.storeAsked()
		require.Equal(t, "queue/job-1", aside.GetQuarantine().Path)
		b.storeAnswers(aside, &messages.AccessStoreResult{What: &messages.AccessStoreResult_Quarantine{
			Quarantine: &messages.QuarantineFileResult{Path: "queue/quarantine/job-1"}}})
		require.Equal(t, uint64(2), kittest.Expect[*messages.QueueStarted](b.gateway).Incarnation)
		b.client.Quiet()
		require.True(t, b.rowOf(1).Unknown)
	})
}
