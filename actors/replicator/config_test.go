package replicator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

func configText(c *messages.ConfigChange) string {
	if c.GetState() != nil {
		return "state"
	}
	r, err := journal.Decode(c.GetRecord())
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("record %d %s", r.Number, r.Method)
}

// state returns the configuration of this node, as its storage has it.
func (b *bench) state() *configstore.Loaded {
	b.Helper()
	b.Settle()
	b.client.Ask(b.configs, &configstore.Load{Request: 1})
	m := kittest.Expect[*configstore.Loaded](b.client)
	require.Nil(b, m.Failure)
	return m
}

func (b *bench) clusterName() string { return b.state().State.Config.Cluster.Value.Name }

// renaming is the record that gives the cluster a name.
func (b *bench) renaming(at *configstore.Loaded, name string) *journal.Record {
	b.Helper()
	after := at.State
	e := at.State.Config.Edit()
	c := at.State.Config.Cluster.Value
	c.Name = name
	e.SetCluster(c)
	var touched []model.Touched
	after.Config, touched = e.Commit(5)
	return journal.NewRecord(at.Number+1, at.State, after, touched, 5, journal.Author{Method: "updateCluster"})
}

// then is the state after a record.
func then(at *configstore.Loaded, r *journal.Record) *configstore.Loaded {
	after := *at
	after.Number, after.State.Config = r.Number, r.After
	return &after
}

func (b *bench) recordEntry(by replication.Applier, at *configstore.Loaded, name string) *messages.LogEntry {
	b.Helper()
	changes, err := replication.RecordChanges([]*journal.Record{b.renaming(at, name)})
	require.NoError(b, err)
	return &messages.LogEntry{Origin: by.Node, Incarnation: by.Incarnation, Number: 1, Changes: changes}
}

// append has the replicator append records, as the actor config does.
func (b *bench) append(records ...*journal.Record) uint64 {
	b.request++
	b.client.Ask(b.replicator, &configstore.AddRecords{Request: b.request, Records: records})
	b.Settle()
	return b.request
}

func (b *bench) appended(request uint64) *configstore.AddRecordsResult {
	b.Helper()
	b.Settle()
	m := kittest.Expect[*configstore.AddRecordsResult](b.client)
	require.Equal(b, request, m.Request)
	return m
}

// A record is answered when a majority has it and it is durable here.
func TestARecordIsAnsweredWhenAMajorityHasItAndTheDisk(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		request := b.append(b.renaming(b.state(), "one"))
		offers := b.log.take()
		require.Len(t, offers, 1)
		require.Equal(t, []string{"record 1 updateCluster"}, filePaths(offers[0].entry))
		require.Equal(t, "c", b.clusterName(), "no other node has it")
		block := b.disk.Block("append-durable config-journal " + paths.ConfigJournalPath)
		b.log.commit(offers[0].entry)
		block.Entered()
		b.client.Quiet()
		require.Zero(t, b.log.applied)
		block.Release()
		require.Equal(t, &configstore.AddRecordsResult{Request: request}, b.appended(request))
		require.Equal(t, "one", b.clusterName())
		b.Advance(time.Minute)
		require.Contains(t, b.content(paths.ConfigPath), `"cluster_name":"one"`)
	})
}

// The records of a request are one entry, all or none. A record that does not fit is refused and changes nothing.
func TestARecordThatDoesNotFitIsRefused(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		at := b.state()
		one := b.renaming(at, "one")
		two := b.renaming(then(at, one), "two")
		other := b.renaming(at, "other")
		first, second, third := b.append(one, two), b.append(other), b.append()
		require.Nil(t, b.appended(third).Failure, "there is nothing to do")
		offers := b.log.take()
		require.Len(t, offers, 1, "the second entry waits until a majority has the first")
		require.Equal(t, []string{"record 1 updateCluster", "record 2 updateCluster"}, filePaths(offers[0].entry))
		b.log.agree()
		b.log.commit(offers[0].entry)
		b.log.agree()
		require.False(t, b.appended(first).Refused)
		require.True(t, b.appended(second).Refused)
		require.Equal(t, "two", b.clusterName())
		require.EqualValues(t, 2, b.state().Number)
	})
}

// The log repeats entries after a restart. Records that were applied before have no effect.
func TestTheLogRepeatsRecords(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		at := b.state()
		first := b.recordEntry(elsewhere, at, "one")
		refused := b.recordEntry(elsewhere, at, "other")
		b.log.commit(first, refused)
		second := b.recordEntry(elsewhere, b.state(), "two")
		b.log.commit(second)
		require.Equal(t, "two", b.clusterName())
		for range 2 {
			b.Restart(b.replicator)
			b.log.commit(first, refused, second)
			require.Equal(t, "two", b.clusterName())
			require.EqualValues(t, 2, b.state().Number)
			b.Restart(b.configs)
		}
		require.Equal(t, b.log.index, b.log.applied)
	})
}

// The actor config asks the replicator for the state. The answer has what was requested before.
func TestALoadWaitsForEarlierRecords(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.client.Ask(b.replicator, &configstore.Announce{})
		b.client.Ask(b.replicator, &configstore.Load{Request: 9})
		b.client.Quiet()
		b.become()
		b.client.Ask(b.replicator, &configstore.Announce{})
		require.Equal(t, b.epoch, kittest.Expect[*configstore.Started](b.client).Incarnation)
		request := b.append(b.renaming(b.state(), "one"))
		b.client.Ask(b.replicator, &configstore.Load{Request: 10})
		b.client.Ask(b.replicator, &configstore.Flush{Request: 11})
		b.client.Quiet()
		b.log.agree()
		b.appended(request)
		m := kittest.Expect[*configstore.Loaded](b.client)
		require.EqualValues(t, 10, m.Request)
		require.Equal(t, "one", m.State.Config.Cluster.Value.Name)
		require.Equal(t, &configstore.Flushed{Request: 11}, kittest.Expect[*configstore.Flushed](b.client))
		require.Contains(t, b.content(paths.ConfigPath), `"cluster_name":"one"`)
		b.client.Ask(b.replicator, &configstore.Check{Request: 12})
		require.Equal(t, &configstore.Checked{Request: 12}, kittest.Expect[*configstore.Checked](b.client))
	})
}

// With the leadership the requests end. A proposal that is committed later is in the next state.
func TestARecordAndAChangeOfTheMaster(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.append(b.renaming(b.state(), "one"))
		late := b.log.take()[0]
		b.log.lead("n2")
		b.append(b.renaming(b.state(), "other"))
		require.Empty(t, b.log.take())
		b.log.commit(late.entry)
		b.client.Quiet()
		b.become()
		b.client.Ask(b.replicator, &configstore.Load{Request: 10})
		require.Equal(t, "one", kittest.Expect[*configstore.Loaded](b.client).State.Config.Cluster.Value.Name)
	})
}

// A log that never takes the entry fails the request; later ones are tried.
func TestARecordThatTheLogNeverTakes(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		at := b.state()
		request := b.append(b.renaming(at, "one"))
		offer := b.log.take()[0]
		for range 101 {
			b.Send(b.replicator, &messages.LogRefused{Number: offer.number, Failure: noMajority})
			b.Advance(time.Second)
			b.log.take()
		}
		m := b.appended(request)
		require.Contains(t, m.Failure.Text, noMajority.Text)
		require.Equal(t, "ConfigurationError", m.Failure.Class)
		next := b.append(b.renaming(at, "two"))
		b.log.agree()
		require.False(t, b.appended(next).Refused)
	})
}

// While the disk refuses the journal, the entry is not applied, and the leadership is handed over.
func TestTheDiskRefusesTheJournal(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		request := b.append(b.renaming(b.state(), "one"))
		b.disk.Fail("append-durable config-journal "+paths.ConfigJournalPath, 2)
		b.log.agree()
		require.Equal(t, messages.ChangeNodes_TRANSFER, b.log.taken()[0].What)
		require.Zero(t, b.log.applied)
		b.client.Quiet()
		for range 5 {
			b.Advance(time.Minute)
		}
		require.False(t, b.appended(request).Refused)
		require.Equal(t, b.log.index, b.log.applied)
	})
}

// The configuration changes between the moment at which it is loaded and the record that names the master.
func TestTheRecordThatNamesTheMasterIsRefused(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.lead("n2")
		b.log.commit(b.recordEntry(elsewhere, b.state(), "one"))
		e := b.state().State.Config.Edit()
		c := b.state().State.Config.Cluster.Value
		c.MasterNode = "another"
		e.SetCluster(c)
		b.log.commit(stateEntry(b.withConfig(e)))
		b.log.lead("n1")
		first := b.log.take()[0]
		require.Equal(t, []string{"record 2 becomeMaster"}, filePaths(first.entry))
		b.log.commit(b.recordEntry(elsewhere, b.state(), "two"), first.entry)
		b.master.Unread()
		again := b.log.take()
		require.Len(t, again, 1)
		require.Equal(t, []string{"record 3 becomeMaster"}, filePaths(again[0].entry))
		b.log.commit(again[0].entry)
		kittest.Expect[*messages.BecomeMaster](b.master)
		require.Equal(t, "two", b.clusterName())
		require.Equal(t, self.Node, b.state().State.Config.Cluster.Value.MasterNode)
	})
}

// withConfig returns the files of this node's state with another configuration.
func (b *bench) withConfig(e *model.Edit) journal.Contents {
	b.Helper()
	b.client.Ask(b.configs, &configstore.Export{Request: 1})
	contents := kittest.Expect[*configstore.Exported](b.client).Contents
	c, _ := e.Commit(6)
	contents.Config = c.JSON()
	return contents
}

func stateEntry(c journal.Contents) *messages.LogEntry {
	return &messages.LogEntry{Origin: elsewhere.Node, Incarnation: elsewhere.Incarnation, Number: 1, Changes: []*messages.FileChange{replication.StateChange(c)}}
}

// A former version has whole files in its log and in its snapshots.
func TestAFileOfAFormerVersion(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.commit(b.recordEntry(elsewhere, b.state(), "one"))
		old := strings.ReplaceAll(configuration(t), `"cluster_name":"c"`, `"cluster_name":"old"`)
		b.log.commit(entry(elsewhere, paths.ConfigPath, old))
		require.Equal(t, "old", b.clusterName())
		require.Zero(t, b.state().Number)
		b.log.commit(b.recordEntry(elsewhere, b.state(), "two"))
		require.Equal(t, "two", b.clusterName())
		b.Send(b.replicator, part(1, true, map[string]string{paths.ConfigPath: old, "queue/serial": "20\n"}))
		b.Settle()
		require.Equal(t, []uint64{1}, b.log.restored)
		require.Equal(t, "old", b.clusterName())
		require.Zero(t, b.state().Number)
	})
}

// A snapshot has the state of its sender, whose config.data can be older. Its files may come in different parts.
func TestASnapshotHasTheConfiguration(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		request := b.append(b.renaming(b.state(), "one"))
		b.log.agree()
		b.appended(request)
		require.NotContains(t, b.content(paths.ConfigPath), `"one"`)
		b.client.Ask(b.replicator, &messages.GetCommittedFiles{})
		sent := map[string]string{}
		for _, f := range kittest.Expect[*messages.GetCommittedFilesResult](b.client).Files {
			sent[f.Path] = string(f.Content)
		}
		require.Len(t, sent, 3)

		request = b.append(b.renaming(b.state(), "two"))
		b.log.agree()
		b.appended(request)
		b.log.lead("n2")
		extra := sent[paths.ConfigExtraPath]
		delete(sent, paths.ConfigExtraPath)
		b.disk.Fail("replace config-extra "+paths.ConfigExtraPath, 1)
		b.Send(b.replicator, part(1, false, sent))
		b.Settle()
		require.Equal(t, "two", b.clusterName(), "the snapshot is not complete")
		b.Send(b.replicator, part(2, true, map[string]string{paths.ConfigExtraPath: extra, "queue/serial": "20\n"}))
		b.Settle()
		require.Equal(t, []uint64{1}, b.log.restored, "the disk has refused a file")
		b.Advance(time.Hour)
		require.Equal(t, []uint64{1, 2}, b.log.restored)
		require.Equal(t, "one", b.clusterName())
		require.EqualValues(t, 1, b.state().Number)
		b.log.commit(b.recordEntry(elsewhere, b.state(), "three"))
		require.Equal(t, "three", b.clusterName())
	})
}

// Nodes whose configuration differs get the master's whole state. No record comes between the state and its proposal.
func TestTheConfigurationOfAllNodesIsRepaired(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		at := b.state()
		one := b.renaming(at, "one")
		first := b.append(one)
		b.client.Ask(b.replicator, &messages.CheckNodes{Request: 9, Repair: true})
		b.Settle()
		b.Send(b.replicator, &messages.NodesCompared{Number: b.peers.question(), Nodes: []*messages.NodeDifferences{{Name: "n2", Answers: true,
			Files: []*messages.FileDifference{{Path: paths.ConfigPath, What: messages.FileDifference_DIFFERS}, {Path: paths.ConfigExtraPath, What: messages.FileDifference_DIFFERS}}}}})
		b.Settle()
		second := b.append(b.renaming(then(at, one), "two"))
		var order []string
		for offers := b.log.take(); len(offers) > 0; offers = b.log.take() {
			for _, o := range offers {
				order = append(order, filePaths(o.entry)...)
				b.log.commit(o.entry)
			}
		}
		require.Equal(t, []string{"record 1 updateCluster", "state", "record 2 updateCluster"}, order)
		require.False(t, b.appended(first).Refused)
		require.False(t, b.appended(second).Refused)
		require.EqualValues(t, 2, kittest.Expect[*messages.CheckNodesResult](b.client).Nodes[0].Repaired)
		require.Equal(t, "two", b.clusterName())
	})
}

// Another program changes config.data of the master. Changes are refused until an operator decides; the foreign content is
// adopted on all nodes.
func TestAForeignFileOfTheMaster(t *testing.T) {
	for _, adopt := range []bool{true, false} {
		onMaster(t, nil, func(t *testing.T, b *bench) {
			at := b.state()
			one := b.renaming(at, "one")
			first := b.append(one)
			foreign := strings.ReplaceAll(configuration(t), `"cluster_name":"c"`, `"cluster_name":"foreign"`)
			require.NoError(t, b.disk.Replace("test", paths.ConfigPath, []byte(foreign)))
			b.client.Ask(b.configs, &configstore.Flush{Request: 1})
			b.Settle()
			require.NotNil(t, kittest.Expect[*configstore.Flushed](b.client).Failure)
			b.log.agree()
			require.Nil(t, b.appended(first).Failure, "it was accepted before this node knew of it")
			next := b.renaming(then(at, one), "two")
			require.Contains(t, b.appended(b.append(next)).Failure.Text, "was changed by another program")
			require.Empty(t, b.log.take())
			if !adopt {
				b.client.Ask(b.replicator, &configstore.Discard{Request: 7})
				require.Nil(t, kittest.Expect[*configstore.ForeignResolved](b.client).Failure)
				second := b.append(next)
				b.log.agree()
				require.False(t, b.appended(second).Refused)
				require.Equal(t, "two", b.clusterName())
				return
			}
			b.client.Ask(b.replicator, &configstore.Adopt{Request: 7})
			offers := b.log.take()
			require.Len(t, offers, 1)
			require.Equal(t, []string{"state"}, filePaths(offers[0].entry))
			b.log.commit(offers[0].entry)
			require.Equal(t, &configstore.ForeignResolved{Request: 7, Foreign: true}, kittest.Expect[*configstore.ForeignResolved](b.client))
			require.Equal(t, "foreign", b.clusterName())
			require.EqualValues(t, 1, b.state().Number)
			second := b.append(next)
			b.log.agree()
			require.True(t, b.appended(second).Refused, "it was decided on another state")
		})
	}
}
