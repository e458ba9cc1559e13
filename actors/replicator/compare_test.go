package replicator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

// differing are the differences of nodes that answer, by node.
func differing(files map[string]string) (all []*messages.NodeDifferences) {
	for _, name := range []string{"n2", "n3"} {
		d := &messages.NodeDifferences{Name: name, Answers: true}
		if path := files[name]; path != "" {
			d.Files = []*messages.FileDifference{{Path: path, What: messages.FileDifference_DIFFERS}}
		}
		all = append(all, d)
	}
	return all
}

// compared answers the question of a comparison that is due.
func (b *bench) compared(files map[string]string) {
	b.Helper()
	b.Settle()
	b.Send(b.replicator, &messages.NodesCompared{Number: b.peers.question(), Files: 5, Nodes: differing(files)})
}

func (b *bench) filesCompared() *messages.FilesCompared {
	b.client.Ask(b.replicator, &messages.GetNodes{Request: 3})
	return kittest.Expect[*messages.GetNodesResult](b.client).Compared
}

// A file of one node that differs from the others' is replaced without being asked for.
func TestTheMasterRepairsWhatDiffersFromAMajority(t *testing.T) {
	onMaster(t, map[string]string{"queue/job-7": "seven"}, func(t *testing.T, b *bench) {
		require.Nil(t, b.filesCompared())
		b.Advance(20 * time.Second)
		b.compared(map[string]string{"n3": "queue/job-7"})
		offers := b.log.take()
		require.Len(t, offers, 1)
		require.Equal(t, []string{"queue/job-7 observed"}, filePaths(offers[0].entry))
		require.Zero(t, b.filesCompared().Repaired)
		b.log.commit(offers[0].entry)
		b.Settle()
		c := b.filesCompared()
		require.Equal(t, int64(1), c.Repaired)
		require.Equal(t, int64(5), c.Files)
		require.Empty(t, c.Contested)
		require.Len(t, b.Logged("files of other nodes differ from those of a majority; they are replaced by the master's"), 1)
	})
}

// Nothing is changed while the master may be the one that is wrong. It is said when it was so twice: once, the others may only be behind.
func TestContestedFilesAreNotRepaired(t *testing.T) {
	onMaster(t, map[string]string{"queue/job-7": "seven"}, func(t *testing.T, b *bench) {
		logged := func() int {
			return len(b.Logged("files differ between the nodes, and the master does not agree with a majority; nothing was changed"))
		}
		both := map[string]string{"n2": "queue/job-7", "n3": "queue/job-7"}
		b.Advance(20 * time.Second)
		b.compared(both)
		require.Empty(t, b.filesCompared().Contested)
		require.Zero(t, logged())
		for range 2 {
			b.Advance(20 * time.Second)
			b.compared(both)
			c := b.filesCompared().Contested
			require.Len(t, c, 1)
			require.Equal(t, "queue/job-7", c[0].Path)
			require.Equal(t, []string{"n2", "n3"}, c[0].Nodes)
			require.Equal(t, 1, logged(), "once")
		}
		require.Empty(t, b.log.take())
		b.Advance(20 * time.Second)
		b.compared(nil)
		require.Empty(t, b.filesCompared().Contested)
	})
}

// A comparison takes at most one percent of the time. It ends with the mastership, and leaves out what a job writes meanwhile.
func TestComparisonsAreRareAndTheMastersOwn(t *testing.T) {
	onMaster(t, map[string]string{"queue/job-7": "seven"}, func(t *testing.T, b *bench) {
		b.Advance(20 * time.Second)
		b.Settle()
		b.log.commit(entry(self, "queue/job-7", jobIn(7, job.Running)))
		b.Settle()
		b.Send(b.replicator, &messages.NodesCompared{Number: b.peers.question(), Nodes: differing(map[string]string{"n3": "queue/job-7"}), TookUs: 10e6})
		require.Empty(t, b.log.take(), "its process writes it")
		asked := b.peers.question()
		b.Advance(980 * time.Second)
		require.Equal(t, asked, b.peers.question())
		b.Advance(10 * time.Second)
		require.NotEqual(t, asked, b.peers.question())
		asked = b.peers.question()
		b.log.lead("n2")
		b.compared(map[string]string{"n3": "queue/job-1"})
		require.Empty(t, b.log.take())
		b.Advance(time.Hour)
		require.Equal(t, asked, b.peers.question())
		require.Nil(t, b.filesCompared())
	})
}
