package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

// Each row is one job on the disk, and what becomes of it when a queue starts.
func TestRecoveryOfOneJob(t *testing.T) {
	begun := newJob(1)
	begun.Ops[0].Status = job.Running
	hasProcess := newJob(1)
	hasProcess.Livelock = "/run/livelocks/job_000001_1"
	cut := append(job.Encode(newJob(1)), "{"...)
	for name, r := range map[string]struct {
		content   []byte
		serial    string
		activeIDs []int64
		place     string
	}{
		"queued":                       {job.Encode(newJob(1)), "1", nil, "pending"},
		"running":                      {job.Encode(running(1)), "1", nil, "adopted"},
		"final":                        {job.Encode(ended(1)), "1", nil, "final"},
		"final and active":             {job.Encode(ended(1)), "1", []int64{1}, "active"},
		"queued and active":            {job.Encode(newJob(1)), "1", []int64{1}, "active"},
		"running and active":           {job.Encode(running(1)), "1", []int64{1}, "active"},
		"queued, but it has a process": {job.Encode(hasProcess), "1", nil, "adopted"},
		"begun without a process":      {job.Encode(begun), "1", nil, "adopted"},
		"above the serial":             {job.Encode(newJob(1)), "0", nil, "quarantined"},
		"cut off":                      {cut, "1", nil, "quarantined"},
		"empty":                        {nil, "1", nil, "quarantined"},
		"another job's":                {job.Encode(newJob(2)), "1", nil, "quarantined"},
		"without opcodes, and started": {job.Encode(&job.Job{ID: 1, Livelock: livelock}), "1", nil, "quarantined"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.recover(&messages.ScanQueueResult{Serial: []byte(r.serial),
					Jobs: []*messages.ScannedJob{{Id: 1, Content: r.content}}}, r.activeIDs...)
				require.Equal(t, r.place, b.placeOf(1))
			})
		})
	}
}

// placeOf says where a job is, according to the messages to the queue's neighbours.
func (b *bench) placeOf(id int64) string {
	b.Helper()
	b.Settle()
	for _, m := range b.store.Unread() {
		require.Equal(b, "queue/job-1", m.(*messages.AccessStore).GetQuarantine().GetPath())
		b.storeAnswers(m.(*messages.AccessStore), &messages.AccessStoreResult{What: &messages.AccessStoreResult_Quarantine{
			Quarantine: &messages.QuarantineFileResult{Path: "queue/quarantine/job-1"}}})
		require.True(b, b.rowOf(id).Unknown)
		return "quarantined"
	}
	adopted := len(b.jobs.Unread()) > 0
	b.filtersStart()
	b.scheduler.Unread()
	b.scheduler.Ask(b.queue, &messages.ListUnfinishedJobs{Request: 1})
	p := kittest.Expect[*messages.ListUnfinishedJobsResult](b.scheduler)
	switch {
	case len(p.Pending) == 1 && !adopted:
		return "pending"
	case len(p.Active) == 1 && adopted:
		return "adopted"
	case len(p.Active) == 1:
		return "active"
	case !b.rowOf(id).Unknown && !adopted:
		return "final"
	}
	return "nowhere"
}

// A job file that cannot be read is read again before the queue accepts requests: its
// job may be running.
func TestAJobFileThatCannotBeReadIsReadAgain(t *testing.T) {
	failed := &messages.ScanQueueResult{Serial: []byte("1\n"),
		Jobs: []*messages.ScannedJob{{Id: 1, Failure: &messages.Failure{Text: "EIO"}}}}
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(failed)
		b.gateway.Quiet()
		b.Advance(time.Second)
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Content: job.Encode(running(1))})
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Missing: true}) // of its record
		kittest.Expect[*messages.QueueStarted](b.gateway)
		require.Equal(t, int64(1), kittest.Expect[*messages.AdoptJob](b.jobs).Id)
		require.False(t, b.rowOf(1).Unknown)
	})
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(failed)
		for range 8 {
			b.Advance(10 * time.Second)
			b.fileRead(b.storeAsked(), &messages.ReadFileResult{Failure: &messages.Failure{Text: "EIO"}})
		}
		kittest.Expect[*messages.QueueStarted](b.gateway)
		b.store.Quiet()
		require.True(t, b.rowOf(1).Unknown)
		require.Len(t, b.Logged("a job file cannot be read; the queue goes on without the job until the next start of the daemon"), 1)
	})
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(failed)
		b.Advance(time.Second)
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Missing: true})
		kittest.Expect[*messages.QueueStarted](b.gateway)
		require.True(t, b.rowOf(1).Unknown)
	})
}

func TestAQuarantineIsReported(t *testing.T) {
	for _, f := range []*messages.Failure{nil, messages.GenericFailure("EIO")} {
		onBench(t, func(t *testing.T, b *bench) {
			b.recover(&messages.ScanQueueResult{Serial: []byte("1\n"), Jobs: []*messages.ScannedJob{{Id: 1}}})
			b.storeAnswers(b.storeAsked(), &messages.AccessStoreResult{What: &messages.AccessStoreResult_Quarantine{
				Quarantine: &messages.QuarantineFileResult{Path: "queue/quarantine/job-1", Failure: f}}})
			if f == nil {
				require.Len(t, b.Logged("a file of a job was quarantined"), 1)
			} else {
				require.Len(t, b.Logged("a file of a job cannot be used, and cannot be quarantined"), 1)
			}
		})
	}
}

func TestWhoIsToldOfTheRecovery(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(scanOf())
		require.Equal(t, uint64(1), kittest.Expect[*messages.QueueStarted](b.gateway).Incarnation)
		kittest.Expect[*messages.QueueStarted](b.scheduler)
	})
}

// Requests during the recovery are handled after it, in order.
func TestMessagesDuringRecoveryAreDeferred(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.submit(1, 1)
		b.client.Ask(b.queue, &messages.ListJobs{Request: 2, Ids: []int64{1, 2}})
		b.submit(3, 1)
		b.jobs.Ask(b.queue, &messages.JobEnded{Id: 2, Encoded: job.Encode(ended(2))})
		b.client.Ask(b.queue, &messages.ListJobs{Request: 4, Ids: []int64{2}})
		b.client.Quiet()
		b.recover(scanOf(running(2)))

		before := kittest.Expect[*messages.ListJobsResult](b.client)
		require.Equal(t, uint64(2), before.Request)
		require.Equal(t, int32(job.Running), before.Rows[1].Info.Status)
		after := kittest.Expect[*messages.ListJobsResult](b.client)
		require.Equal(t, uint64(4), after.Request)
		require.Equal(t, int32(job.Success), after.Rows[0].Info.Status)
		b.commit()
		require.Equal(t, []int64{3}, b.submitted(1).Ids)
		b.commit()
		require.Equal(t, []int64{4}, b.submitted(3).Ids)
	})
}

// A jobs actor may crash before it has listed the active jobs. The next one announces
// itself and is asked again. After the recovery it is given the jobs that it lacks.
func TestAJobsActorThatRestartsDuringRecovery(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.storeStarts(1)
		kittest.Expect[*messages.ListActiveJobs](b.jobs) // lost
		b.jobs.Ask(b.queue, &messages.JobsActorStarted{Incarnation: 2})
		b.listActive()
		b.tellScan(scanOf(running(1)))
		for range 2 { // by the recovery, and by JobsActorStarted
			require.Equal(t, int64(1), kittest.Expect[*messages.AdoptJob](b.jobs).Id)
		}
		b.jobs.Quiet()
	})
}

func TestHandsOfAnotherQuestionAreIgnored(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.storeStarts(1)
		b.jobs.Ask(b.queue, &messages.ListActiveJobsResult{Request: 77, Ids: []int64{1}})
		b.listActive()
		b.tellScan(scanOf(newJob(1)))
		require.Equal(t, "pending", b.placeOf(1))
		b.jobs.Ask(b.queue, &messages.ListActiveJobsResult{Request: 1, Ids: []int64{1}}) // twice, and late
		require.Equal(t, "pending", b.placeOf(1))
	})
}

// The disk is read after the jobs actor has listed the active jobs. In the other order a
// job that starts and ends in between would be read in its former status, and started
// again.
func TestTheDiskIsReadAfterTheActiveJobsAreListed(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.storeStarts(1)
		b.store.Quiet()
		b.listActive()
		require.NotNil(t, b.storeAsked().GetScan())
	})
}

func TestRecoveryThatCannotGoOnIsTriedAgain(t *testing.T) {
	for name, scan := range map[string]*messages.ScanQueueResult{
		"unreadable directory": {Failure: messages.GenericFailure("EIO")},
		"missing serial":       {},
		"strange serial":       {Serial: []byte("seven\n")},
		"negative serial":      {Serial: []byte("-1\n")},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.submit(1, 1)
				b.recover(scan)
				require.Len(t, b.Logged("actor panicked"), 1)
				b.client.Quiet() // a restart loses the question
				b.gateway.Quiet()
				b.Advance(kittest.Backoff)
				b.recover(scanOf())
				kittest.Expect[*messages.QueueStarted](b.gateway)
			})
		})
	}
}

// The file of a running job was removed by hand before a queue started. Its job's actor writes the file again at the end of the job, and the
// job is in the queue again. The end of a job that is archived changes nothing.
func TestAnEndBringsAJobBack(t *testing.T) {
	for name, r := range map[string]struct {
		file  *messages.ReadFileResult
		known bool
	}{
		"written again": {&messages.ReadFileResult{Content: job.Encode(ended(1))}, true},
		"archived":      {&messages.ReadFileResult{Missing: true}, false},
		"unreadable":    {&messages.ReadFileResult{Failure: messages.GenericFailure("EIO")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.recover(&messages.ScanQueueResult{Serial: []byte("1\n")}, 1)
				b.jobs.Ask(b.queue, &messages.JobEnded{Id: 1, Encoded: job.Encode(ended(1))})
				read := b.storeAsked()
				require.Equal(t, "queue/job-1", read.GetRead().GetPath())
				b.fileRead(read, r.file)
				if r.known { // the record is not lost
					read = b.storeAsked()
					require.Equal(t, "queue/lockstep-1", read.GetRead().GetPath())
					b.fileRead(read, &messages.ReadFileResult{Content: []byte(`{"name": "nightly"}`)})
					require.Equal(t, "nightly", b.rowOf(1).Info.Name)
				}
				require.Equal(t, !r.known, b.rowOf(1).Unknown)
				if r.known {
					require.Equal(t, "final", b.placeOf(1))
				}
			})
		})
	}
}

// A jobs actor that has reported the end of a try before the queue restarted gets the job to adopt, and reports it again: the first report
// is not heard, so that only one of the two makes the job pending. If the job is still active for the jobs actor, its report is heard.
func TestEndsOfTriesDuringARecovery(t *testing.T) {
	tried := running(1)
	tried.Livelock = "/run/livelocks/job_000001_1"
	tried.Ops[0].Input = []byte(`{"OP_ID": "OP_RUN_COMMAND", "argv": ["false"], "retry": 1}`)
	tried.Ops[0].EndTry([]byte(`["OpExecError", ["exit", {"exit_status": 1}]]`), job.Timestamp{Sec: 1})
	content := job.Encode(tried)
	for name, c := range map[string]struct {
		activeIDs []int64
		heard     bool
	}{
		"before the answer of the jobs actor": {nil, false},
		"after it":                            {[]int64{1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.storeStarts(1)
				report := func() { b.jobs.Ask(b.queue, &messages.JobTryEnded{Id: 1, Encoded: content}) }
				if !c.heard {
					report()
				}
				b.listActive(c.activeIDs...)
				if c.heard {
					report()
				}
				b.tellScan(&messages.ScanQueueResult{Serial: []byte("1"), Jobs: []*messages.ScannedJob{{Id: 1, Content: content}}})
				b.Settle()
				if c.heard {
					write := kittest.Expect[*messages.AccessStore](b.store).GetWrite()
					require.Equal(t, "end-try", write.GetCommitRecord().GetOp())
					b.jobs.Quiet()
					return
				}
				require.Empty(t, b.store.Unread())
				require.Equal(t, int64(1), kittest.Expect[*messages.AdoptJob](b.jobs).Id)
			})
		})
	}
}

// A daemon that has died between the writes of the record and of the file of a lost try has not used up another one.
func TestALostTryThatIsRecordedAlready(t *testing.T) {
	lost := running(1)
	lost.Livelock = "/run/livelocks/job_000001_1"
	lost.Ops[0].Input = []byte(`{"OP_ID": "OP_RUN_COMMAND", "argv": ["false"], "retry": {"times": 1, "on": ["lost"]}}`)
	for name, c := range map[string]struct {
		record string
		again  []int32
	}{
		"the try of this start":   {`{"tries": [{"start": 1, "op": 0}]}`, []int32{0}},
		"a try of another start":  {`{"tries": [{"start": 2, "op": 0}]}`, nil},
		"the first try runs yet":  {`{}`, []int32{0}},
		"tries of another opcode": {`{"tries": [{"start": 2, "op": 1}]}`, []int32{0}},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.recover(&messages.ScanQueueResult{Serial: []byte("1"),
					Jobs: []*messages.ScannedJob{{Id: 1, Content: job.Encode(lost), Record: []byte(c.record)}}})
				require.Equal(t, c.again, kittest.Expect[*messages.AdoptJob](b.jobs).RetryLost)
			})
		})
	}
}
