package queue_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/queue"
	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/opcode"
	"lockstep/core/record"
	"lockstep/core/runas"
	"lockstep/messages"
)

var alice = access.Submitter{UID: 1000, Name: "alice"}

func commandJob(id int64, opIDs ...string) *job.Job {
	inputs := make([]json.RawMessage, len(opIDs))
	for i, op := range opIDs {
		inputs[i] = json.RawMessage(`{"OP_ID": "` + op + `", "argv": ["true"], "node": "n1"}`)
	}
	return job.New(job.ID(id), inputs, make([]int, len(inputs)), job.Timestamp{Sec: 1}, "")
}

// onRecords runs a test with a queue that has recovered jobs with the content of their records.
func onRecords(t *testing.T, policy runas.Policy, records map[int64]string, jobs []*job.Job, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e)
		b.cluster.Answer(func(any) any { return &clusterconfig.ConfigPublished{Config: configuration} })
		c := b.configOf(noLimits)
		c.RunAs = policy
		b.queue = b.Start("queue", queue.Props(c))
		b.recover(withRecords(scanOf(jobs...), records))
		b.store.Unread()
		b.jobs.Unread()
		f(t, b)
	})
}

func (b *bench) startedSpecs(id int64) (*messages.StartJob, []jobproc.LaunchSpec) {
	b.Helper()
	start := b.picked(id)
	var specs []jobproc.LaunchSpec
	require.NoError(b, json.Unmarshal(start.Launch, &specs))
	return start, specs
}

// A launch spec names the user of the command: the submitter of the record, or that of the declaration.
func TestALaunchSpecNamesTheUser(t *testing.T) {
	ofAlice := string(record.Record{}.WithSubmitter(alice.Encode()).Encode())
	jobs := []*job.Job{commandJob(1, "OP_RUN_COMMAND", "OP_WWW", "OP_SITE_PING", "OP_OWN", "OP_TEST_DELAY"), commandJob(2, "OP_RUN_COMMAND")}
	onRecords(t, runas.Policy{}, map[int64]string{1: ofAlice}, jobs, func(t *testing.T, b *bench) {
		www, own := site, site
		www.Name, www.User = "OP_WWW", "www-data"
		own.Name, own.User = "OP_OWN", opcode.AsSubmitter
		b.withSite(site, www, own)
		start, specs := b.startedSpecs(1)
		require.JSONEq(t, `[{"uid": 1000, "name": "alice"}, {"uid": -1, "name": "www-data"}]`, string(start.RunAs))
		user := &jobproc.User{UID: 1000, Name: "alice"}
		for i, want := range []*jobproc.User{user, {UID: jobproc.NoUID, Name: "www-data"}, nil, user, nil} {
			require.Equal(t, want, specs[i].RunAs, "opcode %d", i)
			require.Nil(t, specs[i].Account)
		}
		require.Equal(t, "alice", b.rowOf(1).Info.RunAs)

		start, specs = b.startedSpecs(2)
		require.Empty(t, start.RunAs, "a job without a submitter is the daemon's user's")
		require.Nil(t, specs[0].RunAs)
		require.Empty(t, b.rowOf(2).Info.RunAs)
	})
}

// A damaged record is that of an unknown submitter: the command does not run as root, also not after the job's process has ended before
// it began. The file stays, as the proof of that for the next daemon.
func TestAJobWithADamagedRecordRunsAsNoUser(t *testing.T) {
	for name, content := range map[string]string{"no JSON": "{", "no object": "[]", "without uid": `{"submitter": {"name": "root"}}`,
		"another type": `{"submitter": 0}`} {
		t.Run(name, func(t *testing.T) {
			records, jobs := map[int64]string{1: content, 2: content}, []*job.Job{commandJob(1, "OP_RUN_COMMAND"), running(2)}
			onRecords(t, runas.Policy{}, records, jobs, func(t *testing.T, b *bench) {
				for range 2 {
					start, specs := b.startedSpecs(1)
					require.Empty(t, start.RunAs)
					require.Contains(t, string(specs[0].FailureResult), "OpPrereqError")
					require.Contains(t, string(specs[0].FailureResult), "so its commands run as no user")
					b.jobs.Ask(b.queue, &messages.JobReturned{Id: 1})
				}
				b.store.Quiet()
			})
			onRecords(t, runas.Policy{DaemonUID: 1000, AsDaemon: true}, records, jobs, func(t *testing.T, b *bench) {
				_, specs := b.startedSpecs(1)
				require.Nil(t, specs[0].FailureResult, "a daemon that is not root runs it as itself, as all others")
			})
		})
	}
}

// A job that says that its record names a submitter, and has no record, runs as no user either, once it has not ended.
func TestAJobWithALostRecordRunsAsNoUser(t *testing.T) {
	marked := func(j *job.Job) *job.Job {
		j.AppendReason(func(int) string { return job.SubmitterSource }, func(int) string { return "uid=1000" }, job.Timestamp{Sec: 1})
		return j
	}
	onRecords(t, runas.Policy{}, nil, []*job.Job{marked(commandJob(1, "OP_RUN_COMMAND")), commandJob(2, "OP_RUN_COMMAND"), marked(ended(3))}, func(t *testing.T, b *bench) {
		start, specs := b.startedSpecs(1)
		require.Empty(t, start.RunAs)
		require.Contains(t, string(specs[0].FailureResult), "it is not known who has submitted the job, so its commands run as no user")
		_, specs = b.startedSpecs(2)
		require.Nil(t, specs[0].FailureResult, "it is the daemon's user's")
		require.NotContains(t, string(b.rowOf(3).Info.Submitter), "-1")
		b.store.Quiet()
	})
}

// A job that cannot be started for a while is not a candidate before that time, and can be canceled meanwhile.
func TestAJobThatReturnsForAWhile(t *testing.T) {
	returned := func(b *bench) {
		b.picked(1)
		b.scheduler.Unread()
		b.jobs.Ask(b.queue, &messages.JobReturned{Id: 1, RetryAfterMs: 2000})
		require.Equal(b, int64(1), kittest.Expect[*messages.JobReleased](b.scheduler).Id)
		b.scheduler.Quiet()
	}
	t.Run("it becomes a candidate", func(t *testing.T) {
		onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
			returned(b)
			b.Advance(2*time.Second - 1)
			b.scheduler.Quiet()
			b.Advance(1)
			require.Equal(t, int64(1), kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs[0].Id)
			b.picked(1)
		})
	})
	t.Run("the scheduler starts again", func(t *testing.T) {
		onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
			returned(b)
			b.scheduler.Ask(b.queue, &messages.ListUnfinishedJobs{Request: 5})
			require.Len(t, kittest.Expect[*messages.ListUnfinishedJobsResult](b.scheduler).Pending, 1)
			b.Advance(2 * time.Second)
			b.scheduler.Quiet() // it has the job
		})
	})
	t.Run("it is canceled", func(t *testing.T) {
		onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
			returned(b)
			b.client.Ask(b.queue, &messages.OrderJob{Request: 2, Id: 1, Kind: messages.OrderJob_CANCEL})
			b.filesDone(b.storeAsked())
			require.True(t, kittest.Expect[*messages.OrderJobResult](b.client).Done)
			b.scheduler.Unread()
			b.Advance(2 * time.Second)
			b.scheduler.Quiet()
		})
	})
}
