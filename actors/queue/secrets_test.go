package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

const secret = `{"password":"hunter2"}`

// submitSecret commits job 1, whose second opcode of two has a secret, and
// returns the file.
func (b *bench) submitSecret() string {
	b.Helper()
	m := &messages.SubmitJobs{Request: 1, Jobs: []*messages.JobDraft{draft("")}}
	m.Jobs[0].Ops = append(m.Jobs[0].Ops, draft(secret).Ops[0])
	b.client.Ask(b.queue, m)
	jobs := b.storeAsked()
	b.filesDone(jobs)
	b.submitted(1)
	return string(jobs.GetWrite().Files[0].Content)
}

func (b *bench) picked(id int64) *messages.StartJob {
	b.Helper()
	b.scheduler.Ask(b.queue, &messages.PickJob{Id: id})
	return kittest.Expect[*messages.StartJob](b.jobs)
}

func TestSecretsAreHandedToTheProcessOnly(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		require.NotContains(t, b.submitSecret(), "hunter2")
		require.NotContains(t, b.rowOf(1).String(), "hunter2")
		start := b.picked(1)
		require.NotContains(t, string(start.Encoded), "hunter2")
		require.JSONEq(t, `[null, {"secrets": `+secret+`}]`, string(start.Launch))
	})
}

func TestAJobWithoutSecretsGetsNone(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submit(1, 1)
		b.commit()
		require.JSONEq(t, `[null]`, string(b.picked(1).Launch))
	})
}

// A job whose start has failed before the confirmation is started again, with the same
// secrets.
func TestSecretsAreKeptUntilTheJobEnds(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submitSecret()
		b.picked(1)
		b.jobs.Ask(b.queue, &messages.JobReturned{Id: 1})
		require.Contains(t, string(b.picked(1).Launch), "hunter2")
	})
}

// A daemon was killed before the process began the job. The next one has no secrets; the process fails the opcode that wants them.
func TestAnAdoptedJobThatIsQueuedAgainHasNoSecrets(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		named := newJob(1)
		named.Livelock = "/run/livelocks/job_000001_17"
		undone := named.Clone()
		undone.Livelock = "undone_1"
		b.Restart(b.queue)
		b.recover(&messages.ScanQueueResult{Serial: []byte("1\n"), Jobs: []*messages.ScannedJob{{Id: 1, Content: job.Encode(named)}}})
		kittest.Expect[*messages.AdoptJob](b.jobs)
		b.jobs.Ask(b.queue, &messages.JobReturned{Id: 1, Encoded: job.Encode(undone)})
		start := b.picked(1)
		require.JSONEq(t, `[null]`, string(start.Launch))
		require.Equal(t, job.Encode(undone), start.Encoded, "it has the number of the start that was undone")
	})
}

func TestSecretsSurviveTheQueuesCrash(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		file := b.submitSecret()
		b.Restart(b.queue)
		b.recover(&messages.ScanQueueResult{Serial: []byte("1\n"), Jobs: []*messages.ScannedJob{{Id: 1, Content: []byte(file)}}})
		require.Contains(t, string(b.picked(1).Launch), "hunter2")
	})
}

// Ids of jobs that were never recorded may be given again after a crash: the new job
// must not get the secrets of the old one.
func TestSecretsOfAFailedSubmissionAreNotKept(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, &messages.SubmitJobs{Request: 1, Jobs: []*messages.JobDraft{draft(secret)}})
		b.filesDone(b.storeAsked(), "queue/serial")
		b.filesDone(b.storeAsked()) // the serial is restored
		b.filesDone(b.storeAsked())
		require.NotNil(t, b.submitted(1).Failure)
		b.Restart(b.queue)
		b.recover(scanOf())
		b.submit(2, 1)
		b.commit()
		require.Equal(t, []int64{1}, b.submitted(2).Ids)
		require.NotContains(t, string(b.picked(1).Launch), "hunter2")
	})
}

func TestSecretsAreForgottenAtTheEnd(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submitSecret()
		b.picked(1)
		b.jobs.Ask(b.queue, &messages.JobEnded{Id: 1, Encoded: job.Encode(ended(1))})
		b.Settle()
		// After a restart with a disk that lacks the job, its id is given again.
		b.Restart(b.queue)
		b.recover(scanOf())
		b.submit(2, 1)
		b.commit()
		require.NotContains(t, string(b.picked(1).Launch), "hunter2")
	})
}

// The job file may have been edited: secrets of fewer opcodes than the job has are
// accepted.
func TestSecretsOfFewerOpcodes(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submitSecret()
		b.Restart(b.queue)
		longer := newJob(1)
		longer.Ops = append(longer.Ops, newJob(1).Ops[0], newJob(1).Ops[0])
		b.recover(scanOf(longer))
		require.JSONEq(t, `[null, {"secrets": `+secret+`}, null]`, string(b.picked(1).Launch))
	})
}
