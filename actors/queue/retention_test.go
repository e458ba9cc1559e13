package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/queue"
	"lockstep/core/job"
	"lockstep/messages"
)

func (b *bench) settings(text string) {
	b.cluster.Ask(b.queue, &clusterconfig.ConfigPublished{Config: configuration, Settings: []byte(text)})
	b.Settle()
}

// Jobs that ended some time ago are archived without a request; the last ones of each name stay. Without the setting
// nothing is archived.
func TestOldJobsAreArchived(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		named := map[int64]string{2: `{"name": "nightly"}`, 3: `{"name": "nightly"}`}
		b.recover(withRecords(scanOf(ended(1), ended(2), ended(3), ended(4), newJob(5)), named))
		b.Advance(time.Hour)
		b.store.Quiet()

		b.settings(`{"archive_after": 60, "keep_last": 1}`)
		b.store.Quiet() // not while the settings are taken
		b.Advance(2 * time.Second)
		r := b.storeAsked()
		require.ElementsMatch(t, []string{"queue/job-1", "queue/job-2", "queue/job-4"}, moved(r))
		b.filesDone(r)
		r = b.storeAsked()
		require.Equal(t, []string{"queue/lockstep-2"}, moved(r), "the record goes with its job")
		b.filesDone(r)
		require.True(t, b.rowOf(1).Unknown)
		require.False(t, b.rowOf(3).Unknown)
		b.client.Ask(b.queue, &messages.GetQueueStatus{Request: 1})
		b.Settle()
		require.Equal(t, int64(3), b.client.Unread()[0].(*messages.GetQueueStatusResult).AutoArchived)

		b.settings(`{"archive_after": 60}`)
		b.Advance(10 * time.Second)
		r = b.storeAsked()
		require.Equal(t, []string{"queue/job-3"}, moved(r))
		b.filesDone(r)
		b.filesDone(b.storeAsked())
		b.settings(``)
		b.Advance(time.Hour)
		b.store.Quiet()
	})
}

// A client may send a named submission again, so its jobs stay for ten minutes after it, however early they are due. Those of others go.
func TestJobsOfNamedSubmissionsStayWhileTheseMayBeRepeated(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		named := ended(1, `{"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "reason": [["lockstep:request", "n", 1]]}`)
		other := ended(2)
		for _, j := range []*job.Job{named, other} {
			j.Received = job.Timestamp{Sec: b.Clock.Now().Unix()}
			j.End = j.Received
		}
		b.recover(scanOf(named, other))
		b.settings(`{"archive_after": 1}`)
		b.Advance(20 * time.Second)
		r := b.storeAsked()
		require.Equal(t, []string{"queue/job-2"}, moved(r))
		b.filesDone(r)
		b.store.Quiet()
		b.Advance(9 * time.Minute)
		b.store.Quiet()
		b.Advance(time.Minute)
		require.Equal(t, []string{"queue/job-1"}, moved(b.storeAsked()))
	})
}

// Without the setting the daemon's option counts; 0 as the setting archives nothing.
func TestTheSettingWinsOverTheOption(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e)
		b.cluster.Answer(func(any) any {
			return &clusterconfig.ConfigPublished{Config: configuration, Settings: []byte(`{"archive_after": 0}`)}
		})
		c := b.configOf(noLimits)
		c.ArchiveAfter = time.Minute
		b.queue = b.Start("queue", queue.Props(c))
		b.recover(scanOf(ended(1)))
		b.Advance(time.Hour)
		b.store.Quiet()
		b.settings(``)
		b.Advance(2 * time.Second)
		require.Equal(t, []string{"queue/job-1"}, moved(b.storeAsked()))
	})
}

// A tick archives at most a batch, and a job that cannot be archived is tried again.
func TestOldJobsAreArchivedInPieces(t *testing.T) {
	var all []*job.Job
	for id := range int64(150) {
		all = append(all, ended(id+1))
	}
	onReady(t, all, func(t *testing.T, b *bench) {
		b.settings(`{"archive_after": 60}`)
		b.Advance(2 * time.Second)
		r := b.storeAsked()
		require.Len(t, moved(r), 100)
		b.filesDone(r)
		b.store.Quiet()
		b.Advance(2 * time.Second)
		r = b.storeAsked()
		require.Len(t, moved(r), 50)
		failed := moved(r)[0]
		b.filesDone(r, failed)
		b.Advance(10 * time.Second)
		r = b.storeAsked()
		require.Equal(t, []string{failed}, moved(r))
		b.filesDone(r)
		b.Advance(time.Hour)
		b.store.Quiet()
	})
}

// A job whose file may be in the archive already is archived again, although it has become the last one of its name, and
// although nothing is archived without a request by then.
func TestAJobThatIsHalfwayInTheArchiveIsNotKept(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		named := map[int64]string{1: `{"name": "nightly"}`, 2: `{"name": "nightly"}`, 3: `{"name": "other"}`}
		b.recover(withRecords(scanOf(ended(1), ended(2), ended(3)), named))
		b.Advance(time.Hour)
		b.settings(`{"archive_after": 60, "keep_last": 1}`)
		b.Advance(2 * time.Second)
		due := b.storeAsked()
		require.Equal(t, []string{"queue/job-1"}, moved(due))
		for request, id := range []int64{2, 3} {
			b.archive(uint64(request), id)
			r := b.storeAsked()
			if id == 2 {
				b.filesDone(r)
				b.filesDone(b.storeAsked())
				require.Equal(t, int64(1), b.archived(uint64(request)).Archived)
				continue
			}
			b.filesDone(r, "queue/job-3")
			require.NotNil(t, b.archived(uint64(request)).Failure)
		}
		b.filesDone(due, "queue/job-1")
		b.settings(`{"archive_after": 60, "keep_last": 2}`)
		b.Advance(10 * time.Second)
		r := b.storeAsked()
		require.ElementsMatch(t, []string{"queue/job-1", "queue/job-3"}, moved(r))
		b.filesDone(r, "queue/job-1")
		b.filesDone(b.storeAsked())
		b.settings(`{"archive_after": 0}`)
		b.Advance(10 * time.Second)
		r = b.storeAsked()
		require.Equal(t, []string{"queue/job-1"}, moved(r))
		b.filesDone(r)
		b.filesDone(b.storeAsked())
		require.True(t, b.rowOf(1).Unknown)
		b.store.Quiet()
	})
}

// After a crash in the middle of a batch the next incarnation goes on.
func TestARestartArchivesTheRest(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.cluster.Answer(func(any) any {
			return &clusterconfig.ConfigPublished{Config: configuration, Settings: []byte(`{"archive_after": 60}`)}
		})
		b.settings(`{"archive_after": 60}`)
		b.recover(scanOf(ended(1), ended(2)))
		b.Advance(2 * time.Second)
		require.Len(t, moved(b.storeAsked()), 2) // no answer
		b.Restart(b.queue)
		b.recover(scanOf(ended(2)))
		b.Advance(2 * time.Second)
		r := b.storeAsked()
		require.Equal(t, []string{"queue/job-2"}, moved(r))
		b.filesDone(r)
	})
}
