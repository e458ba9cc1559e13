package replication_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/replication"
	"lockstep/messages"
)

// A daemon restarts while its jobs run, or after they have ended. Its log repeats all entries since its last snapshot,
// from the submission on. The content that the process has written must survive, because no other node has the end of
// the job.
func TestTheLogOfAFormerDaemonDoesNotUndoWhatAProcessHasWritten(t *testing.T) {
	former, now := replication.Applier{Node: "u1", Incarnation: "former"}, replication.Applier{Node: "u1", Incarnation: "now"}
	livelock := "/run/livelocks/job_000007_1"
	log := []*messages.LogEntry{
		updateChange(former, "queue/job-7", jobAs(7, daemonLock, job.Queued, 1)),
		updateChange(former, "queue/job-7", jobAs(7, livelock, job.Queued, 2)),
		observed(former, 7, jobAs(7, livelock, job.Running, 3)),
	}
	for name, written := range map[string]string{
		"it runs":            string(jobAs(7, livelock, job.Running, 3)),
		"it runs, and wrote": string(jobAs(7, livelock, job.Running, 4)),
		"it ended meanwhile": string(jobAs(7, livelock, job.Success, 5)),
	} {
		t.Run(name, func(t *testing.T) {
			whole := files{"queue/job-7": written}
			whole.apply(now, log)
			require.Equal(t, written, whole["queue/job-7"])
			single := files{"queue/job-7": written}
			for _, e := range log {
				single.apply(now, []*messages.LogEntry{e})
				require.Equal(t, written, single["queue/job-7"], "its process would find its name gone")
			}
		})
	}
}

// A log that is repeated quarantines a job again. The path may have the file of a job with a process by now, which stays, or the
// content of another job, which a power loss has left there.
func TestAQuarantineThatIsRepeated(t *testing.T) {
	const livelock = "/run/livelocks/job_000007_1"
	quarantined := &messages.LogEntry{Origin: "u1", Incarnation: "former", Changes: replication.RenameChanges(
		&messages.MoveFiles{Files: []*messages.MoveFile{{From: "queue/job-7", To: "queue/quarantine/job-7"}}})}
	for name, c := range map[string]struct {
		local []byte
		stays bool
	}{
		"damaged":                {[]byte("garbage"), false},
		"a job without process":  {jobAs(7, daemonLock, job.Queued, 0), false},
		"a job with a process":   {jobAs(7, livelock, job.Running, 0), true},
		"another job, a process": {jobAs(8, "/run/livelocks/job_000008_1", job.Running, 0), false},
	} {
		disk := files{"queue/job-7": string(c.local)}
		disk.apply(replication.Applier{Node: "u1", Incarnation: "now"}, []*messages.LogEntry{quarantined})
		_, stays := disk["queue/job-7"]
		require.Equal(t, c.stays, stays, name)
	}
}

// A log that repeats applied entries changes nothing, also on the nodes that have started the jobs.
func TestToApplyEntriesAgainIsHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		for node := range nodes {
			h.again(node)
		}
	})
}

// The job was submitted to another master, and started by this node later. The log repeats the submission, too.
func TestTheLogOfAFormerMasterDoesNotUndoWhatAProcessHasWritten(t *testing.T) {
	other, former, now := replication.Applier{Node: "u2", Incarnation: "other"}, replication.Applier{Node: "u1", Incarnation: "former"}, replication.Applier{Node: "u1", Incarnation: "now"}
	livelock := "/run/livelocks/job_000007_1"
	log := []*messages.LogEntry{
		updateChange(other, "queue/job-7", jobAs(7, daemonLock, job.Queued, 1)),
		updateChange(former, "queue/job-7", jobAs(7, livelock, job.Queued, 2)),
		observed(former, 7, jobAs(7, livelock, job.Running, 3)),
	}
	for name, written := range map[string]string{
		"it runs":            string(jobAs(7, livelock, job.Running, 4)),
		"it ended meanwhile": string(jobAs(7, livelock, job.Success, 5)),
	} {
		t.Run(name, func(t *testing.T) {
			f := files{"queue/job-7": written}
			f.apply(now, log)
			require.Equal(t, written, f["queue/job-7"])
			// A later change by another master counts.
			failed := jobAs(7, livelock, job.Error, 6)
			f.apply(now, []*messages.LogEntry{updateChange(other, "queue/job-7", failed)})
			require.Equal(t, string(failed), f["queue/job-7"])
		})
	}
}
