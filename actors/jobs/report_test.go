package jobs_test

import (
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/progress"
	"lockstep/messages"
)

// sendBeginOp sends a BeginOp. It returns the failure of the answer, or nil if the request
// went to the scheduler with the client as its sender.
func (b *bench) sendBeginOp(id int64, livelock string) *messages.Failure {
	b.Helper()
	question := &messages.BeginOp{Request: 5, Id: id, Livelock: livelock, Op: 0}
	b.client.Ask(b.jobs, question)
	b.Settle()
	for _, m := range b.client.Unread() {
		require.Equal(b, uint64(5), m.(*messages.BeginOpResult).Request)
		b.scheduler.Quiet()
		return m.(*messages.BeginOpResult).Failure
	}
	m, from := kittest.ExpectFrom[*messages.BeginOp](b.scheduler)
	require.EqualExportedValues(b, question, m)
	require.True(b, from.Equal(b.client.PID))
	return nil
}

func (b *bench) sendReport(id int64, livelock string) bool {
	b.Helper()
	encoded := job.Encode(jobtest.Running(id))
	b.client.Ask(b.jobs, &messages.ProcessReported{Id: id, Livelock: livelock, Encoded: encoded})
	for _, m := range b.queue.Unread() {
		require.EqualExportedValues(b, &messages.JobProgressed{Id: id, Encoded: encoded}, m)
		return true
	}
	return false
}

// Reports are accepted only from the process of this attempt, and only after its name is on
// the disk.
func TestWhoIsHeard(t *testing.T) {
	for name, c := range map[string]struct {
		before   func(*bench)
		livelock string
		heard    bool
	}{
		"a process that runs":          {func(b *bench) { b.run(1) }, jobtest.Livelock(1), true},
		"with its permission":          {func(b *bench) { b.start(1); b.sendNamed(1); b.answerWrite(1, nil) }, jobtest.Livelock(1), true},
		"before its permission":        {func(b *bench) { b.start(1); b.sendNamed(1) }, jobtest.Livelock(1), false},
		"before it has a name":         {func(b *bench) { b.start(1) }, "", false},
		"another process":              {func(b *bench) { b.run(1) }, jobtest.Livelock(2), false},
		"the daemon":                   {func(b *bench) { b.run(1) }, jobtest.Queued(1).Livelock, false},
		"a nameless process":           {func(b *bench) { b.run(1) }, "", false},
		"of an unknown job":            {func(b *bench) {}, jobtest.Livelock(1), false},
		"of a job that waits to start": {func(b *bench) { b.start(2); b.start(3); b.start(1) }, jobtest.Livelock(1), false},
		"of an adopted job":            {func(b *bench) { b.adopt(jobtest.Running(1)); b.answerReadJob(jobtest.Running(1)) }, jobtest.Livelock(1), true},
		"of a job not adopted yet":     {func(b *bench) { b.adopt(jobtest.Running(1)) }, jobtest.Livelock(1), false},
		"of a process that is gone":    {func(b *bench) { b.run(1); b.sendGone(1, "") }, jobtest.Livelock(1), false},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				c.before(b)
				require.Equal(t, c.heard, b.sendReport(1, c.livelock))
				failure := b.sendBeginOp(1, c.livelock)
				if c.heard {
					require.Nil(t, failure)
				} else {
					require.Equal(t, messages.ClassJobLost, failure.Class)
					require.Equal(t, "Job 1 is not running here", failure.Text)
				}
			})
		})
	}
}

// betweenOpcodes is a job whose first opcode has ended, and whose second has not begun.
func betweenOpcodes(id int64) *job.Job {
	j := jobtest.Running(id)
	j.Ops = append(j.Ops, j.Ops[0])
	j.Ops[0].Status, j.Ops[1].Status = job.Success, job.Waiting
	return j
}

// After a lost report the file is read before the next opcode may begin, so that clients
// see the end of the former one.
func TestALostReportIsMadeGoodByTheQuestion(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.client.Ask(b.jobs, &messages.BeginOp{Request: 5, Id: 1, Livelock: jobtest.Livelock(1), Op: 1})
		b.Settle()
		b.scheduler.Quiet()
		b.answerReadJob(betweenOpcodes(1))
		require.Equal(t, job.Encode(betweenOpcodes(1)), kittest.Expect[*messages.JobProgressed](b.queue).Encoded)
		m, from := kittest.ExpectFrom[*messages.BeginOp](b.scheduler)
		require.Equal(t, uint64(5), m.Request)
		require.True(t, from.Equal(b.client.PID))
	})
}

// The result of a read that a newer report has superseded does not answer the request.
func TestAQuestionWaitsForTheLatestLook(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.report(jobtest.Running(1))
		b.client.Ask(b.jobs, &messages.BeginOp{Request: 5, Id: 1, Livelock: jobtest.Livelock(1), Op: 1})
		first, from := b.expectStoreRequest()
		b.send(&messages.ProcessReported{Id: 1, Livelock: jobtest.Livelock(1)})
		second, _ := b.expectStoreRequest()
		b.store.Ask(from, kittest.StoreResult(first, &messages.ReadFileResult{Content: job.Encode(betweenOpcodes(1))}))
		third, _ := b.expectStoreRequest()
		b.scheduler.Quiet()
		for _, r := range []*messages.AccessStore{second, third} {
			b.store.Ask(from, kittest.StoreResult(r, &messages.ReadFileResult{Content: job.Encode(betweenOpcodes(1))}))
		}
		require.Equal(t, uint64(5), kittest.Expect[*messages.BeginOp](b.scheduler).Request)
		require.Len(t, b.queue.Unread(), 2)
	})
}

// The job was canceled after the request: its file is final already.
func TestAnOpcodeOfAJobThatHasEndedDoesNotBegin(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.report(jobtest.Running(1))
		b.client.Ask(b.jobs, &messages.BeginOp{Request: 5, Id: 1, Livelock: jobtest.Livelock(1), Op: 1})
		b.answerReadJob(canceled(1))
		require.Equal(t, messages.ClassJobLost, kittest.Expect[*messages.BeginOpResult](b.client).Failure.Class)
		b.scheduler.Quiet()
	})
}

func TestAFileThatCannotBeReadPermitsNothing(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.client.Ask(b.jobs, &messages.BeginOp{Request: 5, Id: 1, Livelock: jobtest.Livelock(1), Op: 1})
		b.answerRead(1, &messages.ReadFileResult{Failure: noDisk})
		require.Equal(t, noDisk.Text, kittest.Expect[*messages.BeginOpResult](b.client).Failure.Text)
		b.scheduler.Quiet()
	})
}

// The file is read again, because the process may have written what it reported after the
// first read.
func TestAReportThatCrossesWithTheAdoption(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Running(1))
		read, from := b.expectStoreRequest()
		require.False(t, b.sendReport(1, jobtest.Livelock(1)))
		b.store.Ask(from, kittest.StoreResult(read, &messages.ReadFileResult{Content: job.Encode(jobtest.Running(1))}))
		b.answerReadJob(betweenOpcodes(1))
		require.Equal(t, job.Encode(betweenOpcodes(1)), kittest.Expect[*messages.JobProgressed](b.queue).Encoded)
	})
}

func TestALongFileThatCannotBeReadIsReadAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.send(&messages.ProcessReported{Id: 1, Livelock: jobtest.Livelock(1)})
		b.answerRead(1, &messages.ReadFileResult{Failure: noDisk})
		b.queue.Quiet()
		b.Advance(time.Second)
		b.answerReadJob(betweenOpcodes(1))
		require.Equal(t, job.Encode(betweenOpcodes(1)), kittest.Expect[*messages.JobProgressed](b.queue).Encoded)
		b.Advance(time.Minute)
		b.store.Quiet()
	})
}

// An open request does not delay the end of a process.
func TestAQuestionOfAProcessThatIsGone(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.run(1)
		n.report(jobtest.Running(1))
		n.replicator.Unread()
		n.client.Ask(n.jobs, &messages.BeginOp{Request: 5, Id: 1, Livelock: jobtest.Livelock(1), Op: 1})
		look, from := n.expectStoreRequest()
		n.sendGone(1, "exit status 0")
		n.answerReadJob(jobtest.Succeeded(1))
		end, asker := kittest.ExpectFrom[*messages.ReplicateJobFile](n.replicator)
		n.store.Ask(from, kittest.StoreResult(look, &messages.ReadFileResult{Content: job.Encode(betweenOpcodes(1))}))
		n.replicator.Quiet()
		n.replicator.Ask(asker, &messages.ReplicateJobFileResult{Request: end.Request})
		n.queue.Unread()
		require.Empty(t, n.listActive())
		n.scheduler.Quiet()
	})
}

// Of two reads of a long file the later one is passed on last.
func TestAnOldLookIsDropped(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.send(&messages.ProcessReported{Id: 1, Livelock: jobtest.Livelock(1)})
		first, from := b.expectStoreRequest()
		b.send(&messages.ProcessReported{Id: 1, Livelock: jobtest.Livelock(1)})
		b.answerReadJob(betweenOpcodes(1))
		b.store.Ask(from, kittest.StoreResult(first, &messages.ReadFileResult{Content: job.Encode(jobtest.Running(1))}))
		require.Equal(t, job.Encode(betweenOpcodes(1)), kittest.Expect[*messages.JobProgressed](b.queue).Encoded)
		b.queue.Quiet()
	})
}

// failing are the files that cannot be written, as the jobs actor says.
func (b *bench) failing() []*messages.FailingWrite {
	b.Helper()
	b.client.Ask(b.jobs, &messages.GetFailingWrites{Request: 9})
	m := kittest.Expect[*messages.GetFailingWritesResult](b.client)
	require.Equal(b, uint64(9), m.Request)
	return m.Writes
}

// A process that cannot write its file says so at each attempt. This is known until the file is written or the job ends, and
// its beginning and its end have one line each in the log.
func TestAProcessThatCannotWriteItsFile(t *testing.T) {
	const began, ended = "job process cannot write its job file; it tries again until it can", "job file can be written again"
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		report := func() {
			b.client.Ask(b.jobs, &messages.ProcessReported{Id: 1, Livelock: jobtest.Livelock(1), Encoded: job.Encode(jobtest.Running(1)),
				WriteError: "run-job: write queue/job-1: no space left on device", FailingSinceUs: 77})
			b.Settle()
		}
		report()
		report()
		all := b.failing()
		require.Len(t, all, 1)
		require.EqualExportedValues(t, &messages.FailingWrite{Id: 1, Text: "run-job: write queue/job-1: no space left on device", SinceUs: 77, ByProcess: true}, all[0])
		require.Len(t, b.Logged(began), 1)
		b.client.Ask(b.jobs, &messages.ProcessReported{Id: 1, Livelock: jobtest.Livelock(1), Encoded: job.Encode(jobtest.Running(1))})
		b.Settle()
		require.Empty(t, b.failing())
		require.Len(t, b.Logged(ended), 1)
		report()
		require.Len(t, b.Logged(began), 2)
	})
}

// A client is a process of a job only if it has the name of the lock file of the process that runs.
func TestWhichClientIsAProcessOfAJob(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*bench)
		file   string
		want   int64
	}{
		"of a job that runs":           {func(b *bench) { b.run(1) }, path.Base(jobtest.Livelock(1)), 1},
		"the name of another":          {func(b *bench) { b.run(1) }, path.Base(jobtest.Livelock(2)), 0},
		"the daemon's name":            {func(b *bench) { b.run(1) }, path.Base(jobtest.Queued(1).Livelock), 0},
		"no name":                      {func(b *bench) { b.run(1) }, "", 0},
		"before its permission":        {func(b *bench) { b.start(1); b.sendNamed(1) }, path.Base(jobtest.Livelock(1)), 0},
		"of an unknown job":            {func(b *bench) {}, path.Base(jobtest.Livelock(1)), 0},
		"of a job that waits to start": {func(b *bench) { b.start(2); b.start(3); b.start(1) }, path.Base(jobtest.Livelock(1)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				c.before(b)
				b.client.Ask(b.jobs, &messages.IdentifyJob{Request: 5, Id: 1, Name: c.file})
				require.EqualExportedValues(t, &messages.IdentifyJobResult{Request: 5, Id: c.want}, kittest.Expect[*messages.IdentifyJobResult](b.client))
			})
		})
	}
}

// The progress of a command is passed on to the queue twice a second at most, and with each content of the file. What was passed on is
// passed on again, for another incarnation of the queue. Nothing is read for it, and nothing is written. That of another process is not heard.
func TestTheProgressOfACommand(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		report := func(encoded []byte, p *messages.CommandProgress) {
			for attempt := range int64(2) {
				b.client.Ask(b.jobs, &messages.ProcessReported{Id: 1, Livelock: jobtest.Livelock(1 + attempt), Encoded: encoded,
					Unchanged: encoded == nil, Progress: p})
				encoded, p = nil, &messages.CommandProgress{Text: "of another process"}
			}
			b.Settle()
			b.store.Quiet()
		}
		passed := func(encoded []byte, p *messages.CommandProgress) {
			t.Helper()
			require.EqualExportedValues(t, &messages.JobProgressed{Id: 1, Encoded: encoded, Progress: p}, kittest.Expect[*messages.JobProgressed](b.queue))
			b.queue.Quiet()
		}
		half := &messages.CommandProgress{Percent: 50, Text: "half", SinceUs: 1, UpdatedUs: 2}
		most := &messages.CommandProgress{Percent: 90, Text: "most", SinceUs: 1, UpdatedUs: 3}
		running := job.Encode(jobtest.Running(1))
		report(nil, nil)
		b.queue.Quiet()
		report(nil, half)
		passed(nil, half)
		for range 1000 { // as no process of ours does
			report(nil, half)
		}
		report(nil, most)
		b.queue.Quiet()
		report(running, most)
		passed(running, most)
		b.Advance(progress.Pause)
		passed(nil, most)
		b.Advance(time.Minute)
		b.queue.Quiet()
		report(nil, most)
		passed(nil, most)
		report(nil, nil)
		b.Advance(progress.Pause)
		passed(nil, nil)
		b.Advance(time.Minute)
		report(nil, nil)
		b.queue.Quiet()
	})
}
