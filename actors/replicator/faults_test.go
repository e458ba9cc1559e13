package replicator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// The lock manager quarantines its own files, which other nodes do not have.
func TestAFileThatIsNotSharedIsQuarantinedHere(t *testing.T) {
	onMaster(t, map[string]string{paths.LocksPath: "bad"}, func(t *testing.T, b *bench) {
		request := b.ask(&messages.AccessStore{What: &messages.AccessStore_Quarantine{Quarantine: &messages.QuarantineFile{Path: paths.LocksPath}}})
		require.Empty(t, b.log.take())
		q := b.answer(request).GetQuarantine()
		require.Equal(t, "queue/quarantine/locks.data", q.Path)
		require.Equal(t, "bad", b.content(q.Path))
	})
}

// An observation that has waited is older than a later write of the daemon. If it were
// proposed after that write, it would undo the end of the job on the other nodes.
func TestAnObservationIsNotProposedAfterALaterWrite(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.begin()
		b.observe(0, jobIn(7, job.Waiting))
		b.observe(0, jobIn(7, job.Running)) // waits
		end := b.write("queue/job-7", jobIn(7, job.Error))
		last := ""
		for offers := b.log.take(); len(offers) > 0; offers = b.log.take() {
			for _, o := range offers {
				last = observed(o)
				b.log.commit(o.entry)
			}
		}
		b.written(end)
		require.Equal(t, jobIn(7, job.Error), last, "what the other nodes are left with")
	})
}

// The file of a job that was started after the comparison is not repaired: its process
// writes it.
func TestTheFileOfAJobThatHasBegunSinceIsNotRepaired(t *testing.T) {
	onMaster(t, map[string]string{"queue/job-7": jobIn(7, job.Queued)}, func(t *testing.T, b *bench) {
		b.client.Ask(b.replicator, &messages.CheckNodes{Request: 9, Repair: true})
		b.Settle()
		b.log.commit(entry(self, "queue/job-7", jobIn(7, job.Waiting)))
		b.Send(b.replicator, &messages.NodesCompared{Number: b.peers.question(),
			Nodes: []*messages.NodeDifferences{{Name: "n2", Answers: true, Files: []*messages.FileDifference{{Path: "queue/job-7", What: messages.FileDifference_DIFFERS}}}}})
		b.Settle()
		require.NoError(t, b.disk.Replace("run-job", "queue/job-7", []byte(jobIn(7, job.Running))))
		b.log.agree()
		require.Equal(t, jobIn(7, job.Running), b.content("queue/job-7"), "what the process has written is lost")
	})
}

// The entries of a batch take effect in their order, however long the disk takes for
// each.
func TestABatchKeepsItsOrderOverRenames(t *testing.T) {
	onBench(t, map[string]string{"queue/job-7": "v1", "queue/archive/0/job-1": "v1"}, func(t *testing.T, b *bench) {
		block := b.disk.Block("rename test queue/job-7")
		b.log.commit(renaming(elsewhere, "queue/job-7", "queue/archive/0/job-7"), removing(elsewhere, "queue/archive/0/job-7"))
		block.Entered()
		b.Settle()
		block.Release()
		b.Settle()
		require.Equal(t, uint64(2), b.log.applied)
		require.NotContains(t, b.disk.Names(), "queue/archive/0/job-7", "the removal came after the renaming")
	})
}

// Two files of the same name are quarantined at the same time.
func TestFilesOfTheSameNameAreQuarantinedUnderDifferentOnes(t *testing.T) {
	onMaster(t, map[string]string{"queue/job-7": "live", "queue/archive/0/job-7": "archived"}, func(t *testing.T, b *bench) {
		for _, file := range []string{"queue/job-7", "queue/archive/0/job-7"} {
			b.ask(&messages.AccessStore{What: &messages.AccessStore_Quarantine{Quarantine: &messages.QuarantineFile{Path: file}}})
		}
		b.log.agree()
		one, two := kittest.Expect[*messages.AccessStoreResult](b.client).GetQuarantine(), kittest.Expect[*messages.AccessStoreResult](b.client).GetQuarantine()
		require.NotEqual(t, one.Path, two.Path)
		require.Equal(t, "live", b.content(one.Path))
		require.Equal(t, "archived", b.content(two.Path))
	})
}

// After a new snapshot has begun, a refused part of the former one is not written again.
func TestASnapshotThatBeginsAgainForgetsTheFormerOne(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.disk.Fail("replace restore queue/job-8", 1)
		b.Send(b.replicator, part(1, true, map[string]string{"queue/serial": "20\n", "queue/job-8": "old"}))
		b.Settle()
		b.Send(b.replicator, part(1, true, map[string]string{"queue/serial": "30\n", "queue/job-9": "new"}))
		b.Settle()
		require.Equal(t, []uint64{1}, b.log.restored)
		b.Advance(time.Hour)
		require.Equal(t, []uint64{1}, b.log.restored)
		require.Equal(t, "30\n", b.content("queue/serial"))
		require.Contains(t, b.disk.Names(), "queue/job-9")
	})
}

// Entries may be applied twice, also if a name was freed and used again.
func TestABrokenFileIsNotReplacedByItsSuccessorWhenABatchIsRepeated(t *testing.T) {
	onBench(t, map[string]string{"queue/job-7": "bad"}, func(t *testing.T, b *bench) {
		b.disk.Fail("replace apply queue/job-8", 1)
		b.log.commit(renaming(elsewhere, "queue/job-7", "queue/quarantine/job-7"), entry(elsewhere, "queue/job-7", "good"), entry(elsewhere, "queue/job-8", "v1"))
		b.Advance(time.Minute)
		require.Equal(t, "v1", b.content("queue/job-8"))
		require.Equal(t, "good", b.content("queue/job-7"))
		require.Equal(t, "bad", b.content("queue/quarantine/job-7"))
	})
}

// Archived jobs and their directories are in no snapshot.
func TestAnArchiveDirectoryThatIsNotHereHoldsNothingUp(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.commit(removing(elsewhere, "queue/archive/3/job-30012"))
		b.Advance(time.Minute)
		require.Equal(t, uint64(1), b.log.applied, "the removal of a file that is not here")
	})
}

// A listing waits for the proposals before it, and not for later ones: on a busy master
// there are always some.
func TestAListingIsNotHeldUpByLaterWrites(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.write("queue/job-1", "v1")
		before := b.log.take()[0]
		list := b.ask(&messages.AccessStore{What: &messages.AccessStore_List{List: &messages.ListDir{Op: "test", Dir: paths.QueueDir}}})
		b.write("queue/job-2", "v1")
		b.log.commit(before.entry)
		b.Settle()
		answered := false
		for _, m := range b.client.Unread() {
			answered = answered || m.(*messages.AccessStoreResult).Request == list
		}
		require.True(t, answered)
	})
}
