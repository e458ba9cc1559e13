package replicator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/act/acttest"
	"lockstep/actors/core/config"
	"lockstep/actors/core/job"
	"lockstep/actors/core/layout"
	"lockstep/actors/core/repl"
	"lockstep/messages"
)

func TestAMasterWithNothingToTellBeginsAtOnce(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.lead("n1")
		require.Empty(t, b.log.take(), "the configuration names it already")
		m := acttest.Expect[*messages.BecomeMaster](b.master)
		require.Equal(t, b.log.term, m.Term)
		require.Zero(t, m.FenceMs)
		acttest.Expect[*messages.StoreStarted](b.client)
		b.Send(b.replicator, &messages.LogLeads{Term: b.log.term})
		b.master.Quiet()
		b.client.Quiet()
	})
}

// A job ended while the daemon was down: the others hear of it before anything else.
func TestANewMasterTellsFirstWhatItsJobsHaveDone(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		former := repl.Self{Node: self.Node, Run: "former"}
		b.log.commit(entry(former, "queue/job-7", jobIn(7, job.Running)), entry(former, "queue/job-8", jobIn(8, job.Running)))
		b.Settle()
		require.NoError(t, b.disk.Replace("run-job", "queue/job-7", []byte(jobIn(7, job.Success))))
		b.master.Unread()
		b.log.lead("n1")
		b.master.Quiet()
		offers := b.log.take()
		require.Len(t, offers, 1)
		require.ElementsMatch(t, []string{"queue/job-7 observed", "queue/job-8 observed"}, paths(offers[0].entry))
		for _, c := range offers[0].entry.Changes {
			require.Equal(t, b.content(c.GetUpdate().Path), string(c.GetUpdate().Content))
		}
		b.write("queue/serial", "10\n")
		require.Empty(t, b.log.take(), "nothing is taken before")
		b.client.Ask(b.replicator, &messages.AskStore{})
		b.client.Quiet()
		b.log.commit(offers[0].entry)
		require.Zero(t, acttest.Expect[*messages.BecomeMaster](b.master).FenceMs, "all jobs are its own")
		running, err := repl.DecodeRunning(b.log.state)
		require.NoError(t, err)
		require.Equal(t, repl.Running{8: "u1"}, running)
		require.Equal(t, jobIn(7, job.Success), b.content("queue/job-7"))
	})
}

func TestAJobsFileThatIsNoneIsNotTold(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.commit(entry(repl.Self{Node: self.Node, Run: "former"}, "queue/job-7", jobIn(7, job.Running)))
		b.Settle()
		require.NoError(t, b.disk.Replace("test", "queue/job-7", []byte("garbage")))
		b.log.lead("n1")
		require.Empty(t, b.log.take())
		acttest.Expect[*messages.BecomeMaster](b.master)
	})
}

// Jobs of a former master may not have ended: nothing is started for a while.
func TestAMasterFencesJobsThatWereStartedElsewhere(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.commit(entry(elsewhere, "queue/job-7", jobIn(7, job.Running)))
		b.Settle()
		b.master.Unread()
		b.log.lead("n1")
		require.Empty(t, b.log.take())
		require.Equal(t, repl.Fence.Milliseconds(), acttest.Expect[*messages.BecomeMaster](b.master).FenceMs)

		b.log.lead("n2")
		b.log.commit(entry(elsewhere, "queue/job-7", jobIn(7, job.Error)))
		b.Settle()
		b.log.lead("n1")
		require.Zero(t, acttest.Expect[*messages.BecomeMaster](b.master).FenceMs)
	})
}

// The configuration names the master, before anybody acts as it.
func TestTheConfigurationNamesTheMaster(t *testing.T) {
	content, err := config.New(config.Identity{ClusterName: "c", NodeName: "n2", NodeUUID: "u2", GroupUUID: "g1"})
	require.NoError(t, err)
	onBench(t, map[string]string{layout.ConfigPath: string(content)}, func(t *testing.T, b *bench) {
		b.log.lead("n1")
		b.master.Quiet()
		offers := b.log.take()
		require.Len(t, offers, 1)
		require.Equal(t, []string{layout.ConfigPath}, paths(offers[0].entry))
		b.log.commit(offers[0].entry)
		acttest.Expect[*messages.BecomeMaster](b.master)
		doc, err := config.DecodeDocument([]byte(b.content(layout.ConfigPath)))
		require.NoError(t, err)
		uuid, err := doc.Find("node", "n1")
		require.NoError(t, err)
		require.Equal(t, self.Node, uuid)
		require.Contains(t, b.content(layout.ConfigPath), `"master_node":"u1"`)
		require.Contains(t, b.content(layout.ConfigPath), "10.0.0.1")
	})
}

// One that cannot be read is a matter for who reads it next, not for the mastership.
func TestAConfigurationThatCannotBeReadDoesNotHoldUpTheMaster(t *testing.T) {
	onBench(t, map[string]string{layout.ConfigPath: "garbage"}, func(t *testing.T, b *bench) {
		b.log.lead("n1")
		require.Empty(t, b.log.take())
		acttest.Expect[*messages.BecomeMaster](b.master)
		require.Len(t, b.Logged("the configuration cannot be told who is the master"), 1)
		require.Equal(t, "garbage", b.content(layout.ConfigPath))
	})
}

// A mastership that is over before it has begun: what it waited for comes too late.
func TestAMastershipThatIsLostWhileItSettles(t *testing.T) {
	former := repl.Self{Node: self.Node, Run: "former"}
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.commit(entry(former, "queue/job-7", jobIn(7, job.Running)))
		b.Settle()
		block := b.disk.Block("read settle queue/job-7")
		b.log.mu.Lock()
		b.log.leader, b.log.term = "n1", 1
		b.log.tellLeader()
		b.log.mu.Unlock()
		block.Entered()
		b.log.lead("n2")
		block.Release()
		require.Empty(t, b.log.take(), "it is not the one to propose any more")
		for _, m := range b.master.Unread() {
			require.IsType(t, &messages.ResignMaster{}, m)
		}

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

// Two terms in a row, without another leader in between.
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
