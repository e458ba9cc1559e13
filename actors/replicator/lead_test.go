package replicator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

func TestAMasterWithNothingToTellBeginsAtOnce(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.lead("n1")
		require.Empty(t, b.log.take(), "the configuration names it already")
		m := kittest.Expect[*messages.BecomeMaster](b.master)
		require.Equal(t, b.log.term, m.Term)
		require.Zero(t, m.FenceMs)
		kittest.Expect[*messages.StoreStarted](b.client)
		b.Send(b.replicator, &messages.LogLeadershipGained{Term: b.log.term})
		b.master.Quiet()
		b.client.Quiet()
	})
}

// If the end of a job is proposed while the files of running jobs are read, its file is
// not proposed.
func TestWhatAFileSaidIsNotProposedAfterTheEnd(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		former := replication.Applier{Node: self.Node, Incarnation: "former"}
		b.log.commit(entry(former, "queue/job-7", jobIn(7, job.Waiting)), entry(former, "queue/job-8", jobIn(8, job.Waiting)))
		b.Settle()
		b.become()
		reading := b.disk.Block("read settle queue/job-8")
		b.ask(&messages.AccessStore{What: &messages.AccessStore_Scan{Scan: &messages.ScanQueue{}}})
		reading.Entered()
		b.Settle()
		b.write("queue/job-7", jobIn(7, job.Error))
		b.Settle()
		reading.Release()
		var told []string
		for _, offer := range b.log.take() {
			told = append(told, filePaths(offer.entry)...)
		}
		require.Equal(t, []string{"queue/job-7", "queue/job-8 observed"}, told)
	})
}

// Jobs have run while the daemon was down. Their files are proposed before the queue
// reads them, and the queue reads what was proposed.
func TestTheOthersHearFirstWhatThisNodesJobsHaveDone(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		former := replication.Applier{Node: self.Node, Incarnation: "former"}
		b.log.commit(entry(former, "queue/job-7", jobIn(7, job.Running)), entry(former, "queue/job-8", jobIn(8, job.Waiting)))
		b.Settle()
		require.NoError(t, b.disk.Replace("run-job", "queue/job-7", []byte(jobIn(7, job.Success))))
		b.become()
		scan := b.ask(&messages.AccessStore{What: &messages.AccessStore_Scan{Scan: &messages.ScanQueue{}}})
		b.client.Quiet()
		offers := b.log.take()
		require.Len(t, offers, 1)
		require.ElementsMatch(t, []string{"queue/job-7 observed", "queue/job-8 observed"}, filePaths(offers[0].entry))
		require.NoError(t, b.disk.Replace("run-job", "queue/job-8", []byte(jobIn(8, job.Success))))
		b.log.commit(offers[0].entry)
		read := map[int64]string{}
		for _, j := range b.answer(scan).GetScan().Jobs {
			read[j.Id] = string(j.Content)
		}
		require.Equal(t, map[int64]string{7: jobIn(7, job.Success), 8: jobIn(8, job.Waiting)}, read)
		running, err := replication.DecodeRunningJobs(b.log.state)
		require.NoError(t, err)
		require.Equal(t, replication.RunningJobs{8: {Node: "u1", Progress: 1}}, running)
		require.Equal(t, jobIn(7, job.Success), b.content("queue/job-7"))
	})
}

// A file that is no job, or that a power loss has set back, is not proposed.
func TestAFileThatIsBehindTheLogIsNotTold(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		former := replication.Applier{Node: self.Node, Incarnation: "former"}
		b.log.commit(entry(former, "queue/job-7", jobIn(7, job.Running)), entry(former, "queue/job-8", jobIn(8, job.Running)))
		b.Settle()
		require.NoError(t, b.disk.Replace("test", "queue/job-7", []byte("garbage")))
		require.NoError(t, b.disk.Replace("test", "queue/job-8", []byte(jobIn(8, job.Waiting))))
		b.become()
		scan := b.ask(&messages.AccessStore{What: &messages.AccessStore_Scan{Scan: &messages.ScanQueue{}}})
		require.Empty(t, b.log.take())
		require.Len(t, b.answer(scan).GetScan().Jobs, 2)
	})
}

// Job processes of a former master may still run: no job is started before the fence is
// over.
func TestAMasterFencesJobsThatWereStartedElsewhere(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.commit(entry(elsewhere, "queue/job-7", jobIn(7, job.Running)))
		b.Settle()
		b.master.Unread()
		b.log.lead("n1")
		require.Empty(t, b.log.take())
		require.Equal(t, replication.Fence.Milliseconds(), kittest.Expect[*messages.BecomeMaster](b.master).FenceMs)

		b.log.lead("n2")
		b.log.commit(entry(elsewhere, "queue/job-7", jobIn(7, job.Error)))
		b.Advance(collected)
		b.log.lead("n1")
		require.Zero(t, kittest.Expect[*messages.BecomeMaster](b.master).FenceMs)
	})
}

// The configuration names the master before the master part starts.
func TestTheConfigurationNamesTheMaster(t *testing.T) {
	content, err := config.New(config.Identity{ClusterName: "c", NodeName: "n2", NodeUUID: "u2", GroupUUID: "g1"})
	require.NoError(t, err)
	onBench(t, map[string]string{paths.ConfigPath: string(content.JSON())}, func(t *testing.T, b *bench) {
		b.log.lead("n1")
		b.master.Quiet()
		offers := b.log.take()
		require.Len(t, offers, 1)
		require.Equal(t, []string{"record 1 becomeMaster"}, filePaths(offers[0].entry))
		b.log.commit(offers[0].entry)
		kittest.Expect[*messages.BecomeMaster](b.master)
		b.Advance(time.Second)
		node, found := config.ResourcesOf(configtest.Decode(t, []byte(b.content(paths.ConfigPath)))).Node("n1")
		require.True(t, found)
		require.Equal(t, self.Node, node.UUID)
		require.Contains(t, b.content(paths.ConfigPath), `"master_node":"u1"`)
		require.Contains(t, b.content(paths.ConfigPath), "10.0.0.1")
	})
}

// A configuration that cannot be decoded does not prevent the mastership.
func TestAConfigurationThatCannotBeReadDoesNotHoldUpTheMaster(t *testing.T) {
	onBench(t, map[string]string{paths.ConfigPath: "garbage"}, func(t *testing.T, b *bench) {
		b.log.lead("n1")
		require.Empty(t, b.log.take())
		kittest.Expect[*messages.BecomeMaster](b.master)
		require.Len(t, b.Logged("writing this node as the master into the configuration failed; the node becomes the master, and the configuration still names another"), 1)
		require.Equal(t, "garbage", b.content(paths.ConfigPath))
	})
}

// A mastership ends before it has begun: the answers that it waited for are ignored.
func TestAMastershipThatIsLostBeforeItBegins(t *testing.T) {
	content, err := config.New(config.Identity{ClusterName: "c", NodeName: "n2", NodeUUID: "u2", GroupUUID: "g1"})
	require.NoError(t, err)
	onBench(t, map[string]string{paths.ConfigPath: string(content.JSON())}, func(t *testing.T, b *bench) {
		block := b.disk.Block("append-durable config-journal " + paths.ConfigJournalPath)
		b.log.commit(b.recordEntry(elsewhere, b.state(), "while it is written, the configuration cannot be loaded"))
		b.log.mu.Lock()
		b.log.leader, b.log.term = "n1", 1
		b.log.tellLeader()
		b.log.mu.Unlock()
		block.Entered()
		b.log.lead("n2")
		block.Release()
		b.Settle()
		require.Empty(t, b.log.take(), "it does not lead any longer")
		b.log.lead("n1")
		late := b.log.take()[0]
		b.log.lead("n2")
		b.log.commit(late.entry)
		b.Settle()
		for _, m := range b.master.Unread() {
			require.IsType(t, &messages.ResignMaster{}, m)
		}
	})
}

// This node leads in two terms in a row, without another leader between them.
func TestANewTermBeginsANewMastership(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.write("queue/job-7", "v1")
		lost := b.log.take()[0]
		former := b.epoch
		m := b.become()
		require.Equal(t, b.log.term, m.Term)
		require.Greater(t, b.epoch, former)
		b.log.commit(lost.entry)
		b.client.Quiet()
		b.Send(b.replicator, &messages.LogRefused{Number: lost.number, Failure: noMajority})
		b.Advance(time.Second)
		require.Empty(t, b.log.take())
	})
}

// The replicator is the store to its clients, so it also says what its node's store cannot write.
func TestTheReplicatorSaysWhatItsStoreCannotWrite(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		failing := func() []*messages.FailingWrite {
			b.client.Ask(b.replicator, &messages.GetFailingWrites{Request: 4})
			return kittest.Expect[*messages.GetFailingWritesResult](b.client).Writes
		}
		require.Empty(t, failing())
		b.become()
		b.disk.Fail("replace apply queue/job-8", 1)
		b.write("queue/job-8", "x")
		b.log.agree()
		b.Settle()
		require.Len(t, failing(), 1)
		b.Advance(time.Minute)
		require.Empty(t, failing(), "the write was repeated")
	})
}
