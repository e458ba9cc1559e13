package replicator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

func (b *bench) nodes(m *messages.GetNodes) *messages.GetNodesResult {
	b.client.Ask(b.replicator, m)
	return kittest.Expect[*messages.GetNodesResult](b.client)
}

func TestWhoTheNodesAre(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		require.Len(t, b.told, 1)
		n := b.nodes(&messages.GetNodes{Request: 3})
		require.Equal(t, uint64(3), n.Request)
		require.Equal(t, "n1", n.Self)
		require.Empty(t, n.Master)
		require.Len(t, n.Members, 3)
		b.log.lead("n2")
		n = b.nodes(&messages.GetNodes{})
		require.Equal(t, "n2 at 10.0.0.2:1815", n.Master+" at "+n.MasterAddress)
		require.False(t, n.IsMaster)
		b.become()
		n = b.nodes(&messages.GetNodes{})
		require.Equal(t, "n1 at 10.0.0.1:1815", n.Master+" at "+n.MasterAddress)
		require.True(t, n.IsMaster)
		b.Send(b.replicator, &messages.LogMembersChanged{Members: members("n1")})
		require.Len(t, b.nodes(&messages.GetNodes{}).Members, 1)
		require.Len(t, b.told, 2)
	})
}

func TestAllNodesAreAskedHowTheyAre(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.client.Ask(b.replicator, &messages.GetNodes{Request: 4, WithStates: true})
		b.client.Quiet()
		states := []*messages.NodeState{{Name: "n1", Answers: true}, {Name: "n2"}, {Name: "n3"}}
		b.Send(b.replicator, &messages.NodeStatesCollected{Number: b.peers.question() + 1, States: states})
		b.client.Quiet()
		b.Send(b.replicator, &messages.NodeStatesCollected{Number: b.peers.question(), States: states})
		n := kittest.Expect[*messages.GetNodesResult](b.client)
		require.Equal(t, uint64(4), n.Request)
		require.Len(t, n.States, 3)
		b.Send(b.replicator, &messages.NodeStatesCollected{Number: b.peers.question(), States: states})
		b.client.Quiet()
	})
}

func (b *bench) change(m *messages.ChangeNodes) { b.client.Ask(b.replicator, m); b.Settle() }

func TestOnlyTheMasterChangesTheMembership(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.change(&messages.ChangeNodes{Request: 1, What: messages.ChangeNodes_REMOVE, Name: "n3"})
		require.Contains(t, kittest.Expect[*messages.ChangeNodesResult](b.client).Failure.Text, "does not know who is")
		b.log.lead("n2")
		b.change(&messages.ChangeNodes{Request: 1, What: messages.ChangeNodes_TRANSFER})
		f := kittest.Expect[*messages.ChangeNodesResult](b.client).Failure
		require.Equal(t, "NotMaster", f.Class)
		require.Contains(t, f.Text, "n2 is")
		require.Empty(t, b.log.taken())
	})
}

func TestChangesOfTheMembership(t *testing.T) {
	for name, c := range map[string]struct {
		voters  []string
		change  *messages.ChangeNodes
		refused string
	}{
		"remove":                    {[]string{"n1", "n2", "n3"}, &messages.ChangeNodes{What: messages.ChangeNodes_REMOVE, Name: "n3"}, ""},
		"remove an unknown one":     {[]string{"n1", "n2", "n3"}, &messages.ChangeNodes{What: messages.ChangeNodes_REMOVE, Name: "n4"}, "There is no node n4"},
		"remove the last voter":     {[]string{"n1"}, &messages.ChangeNodes{What: messages.ChangeNodes_REMOVE, Name: "n1"}, "the only one with a vote"},
		"remove the master":         {[]string{"n1", "n2", "n3"}, &messages.ChangeNodes{What: messages.ChangeNodes_REMOVE, Name: "n1"}, "promote another one first"},
		"add":                       {[]string{"n1"}, &messages.ChangeNodes{What: messages.ChangeNodes_ADD_VOTER, Name: "n2", Address: "10.0.0.2:1"}, ""},
		"transfer to any node":      {[]string{"n1", "n2"}, &messages.ChangeNodes{What: messages.ChangeNodes_TRANSFER}, ""},
		"transfer to one":           {[]string{"n1", "n2"}, &messages.ChangeNodes{What: messages.ChangeNodes_TRANSFER, Name: "n2"}, ""},
		"transfer to an unknown":    {[]string{"n1", "n2"}, &messages.ChangeNodes{What: messages.ChangeNodes_TRANSFER, Name: "n4"}, "There is no node n4"},
		"transfer to one unvoting":  {[]string{"n1"}, &messages.ChangeNodes{What: messages.ChangeNodes_TRANSFER, Name: "n9"}, "a copy without a vote"},
		"remove one that votes not": {[]string{"n1"}, &messages.ChangeNodes{What: messages.ChangeNodes_REMOVE, Name: "n9"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onMaster(t, nil, func(t *testing.T, b *bench) {
				b.Send(b.replicator, &messages.LogMembersChanged{Members: append(members(c.voters...), &messages.Member{Name: "n9"})})
				m := proto.Clone(c.change).(*messages.ChangeNodes)
				m.Request = 6
				b.change(m)
				changes := b.log.taken()
				if c.refused != "" {
					require.Empty(t, changes)
					require.Contains(t, kittest.Expect[*messages.ChangeNodesResult](b.client).Failure.Text, c.refused)
					return
				}
				b.client.Quiet()
				require.Len(t, changes, 1)
				require.Equal(t, m.Name+" "+m.Address+" "+m.What.String(), changes[0].Name+" "+changes[0].Address+" "+changes[0].What.String())
				b.Send(b.replicator, &messages.LogChangeResult{Number: changes[0].number, Failure: noMajority})
				a := kittest.Expect[*messages.ChangeNodesResult](b.client)
				require.Equal(t, uint64(6), a.Request)
				require.Equal(t, noMajority.Text, a.Failure.Text)
			})
		})
	}
}

func (b *bench) admit(m *messages.AdmitNode) *messages.AdmitNodeResult {
	b.Helper()
	b.client.Ask(b.replicator, m)
	a := kittest.Expect[*messages.AdmitNodeResult](b.client)
	require.Equal(b, m.Request, a.Request)
	return a
}

func TestANodeIsAdmittedStepByStep(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		wish := &messages.AdmitNode{Request: 1, Name: "n4", Address: "10.0.0.4:1815", Voting: true, Fresh: true}
		require.Equal(t, "NotMaster", b.admit(wish).Failure.Class)
		b.become()
		b.Send(b.replicator, &messages.LogMembersChanged{Members: members("n1", "n2")})
		a := b.admit(wish)
		require.False(t, a.Member || a.Voter)
		changes := b.log.taken()
		require.Len(t, changes, 1)
		require.Equal(t, messages.ChangeNodes_ADD_NONVOTER, changes[0].What)
		b.admit(wish)
		require.Empty(t, b.log.taken(), "one change at a time")

		b.Send(b.replicator, &messages.LogMembersChanged{Members: append(members("n1", "n2"), &messages.Member{Name: "n4", Address: wish.Address})})
		b.Send(b.replicator, &messages.LogChangeResult{Number: changes[0].number})
		a = b.admit(wish)
		require.True(t, a.Member && !a.Voter)
		require.Empty(t, b.log.taken(), "it has not caught up")
		wish = proto.Clone(wish).(*messages.AdmitNode)
		wish.Fresh, wish.Applied = false, 1
		require.True(t, b.admit(wish).Member)
		changes = b.log.taken()
		require.Equal(t, messages.ChangeNodes_ADD_VOTER, changes[0].What)
		b.Send(b.replicator, &messages.LogChangeResult{Number: changes[0].number})
		b.Send(b.replicator, &messages.LogMembersChanged{Members: members("n1", "n2", "n4")})
		a = b.admit(wish)
		require.True(t, a.Member && a.Voter)
		require.Empty(t, b.log.taken())
		b.client.Quiet()
	})
}

// A node with a log that is not a member was removed. Its request is refused.
func TestARemovedNodeStaysOut(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		a := b.admit(&messages.AdmitNode{Name: "n9", Address: addressOf("n9"), Voting: true})
		require.False(t, a.Member)
		require.Contains(t, a.Failure.GetText(), "n9 was removed")
		require.Empty(t, b.log.taken())
	})
}

// The node has lost its log, so it must not count as a voter.
func TestAVoterWithoutItsLogIsRemovedFirst(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		a := b.admit(&messages.AdmitNode{Name: "n3", Address: addressOf("n3"), Voting: true, Fresh: true})
		require.False(t, a.Member, "it may not start yet")
		changes := b.log.taken()
		require.Equal(t, messages.ChangeNodes_REMOVE, changes[0].What)
		require.Equal(t, "n3", changes[0].Name)
	})
}

// Two nodes are given a vote together; an expired join request does not count.
func TestVotesAreHandedOutInPairs(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.Send(b.replicator, &messages.LogMembersChanged{Members: append(members("n1"),
			&messages.Member{Name: "n2", Address: addressOf("n2")}, &messages.Member{Name: "n3", Address: addressOf("n3")})})
		second := &messages.AdmitNode{Name: "n2", Address: addressOf("n2"), Voting: true, Applied: 1}
		third := &messages.AdmitNode{Name: "n3", Address: addressOf("n3"), Voting: true, Applied: 1}
		b.admit(second)
		require.Empty(t, b.log.taken())
		b.Advance(time.Minute)
		b.admit(third)
		require.Empty(t, b.log.taken(), "n2 may be gone")
		b.admit(second)
		changes := b.log.taken()
		require.Len(t, changes, 1)
		require.Equal(t, "n2", changes[0].Name)
		require.Equal(t, messages.ChangeNodes_ADD_VOTER, changes[0].What)
	})
}

func TestTheNodesAreCompared(t *testing.T) {
	onMaster(t, map[string]string{"queue/job-7": "seven"}, func(t *testing.T, b *bench) {
		b.log.commit(entry(self, "queue/job-8", jobIn(8, job.Running)), entry(elsewhere, "queue/job-10", jobIn(10, job.Running)))
		b.Settle()
		b.client.Ask(b.replicator, &messages.CheckNodes{Request: 9, Repair: true})
		b.Settle()
		require.ElementsMatch(t, []string{"queue/job-8", "queue/job-10"}, b.peers.leaveOut)
		require.Len(t, b.peers.nodes, 2, "not itself")
		differs := []*messages.FileDifference{{Path: "queue/job-7", What: messages.FileDifference_DIFFERS}, {Path: "queue/job-1", What: messages.FileDifference_EXTRA}}
		b.Send(b.replicator, &messages.NodesCompared{Number: b.peers.question(), Files: 5,
			Nodes: []*messages.NodeDifferences{{Name: "n2", Answers: true, Files: differs}, {Name: "n3", Error: "no answer"}}})
		offers := b.log.take()
		require.Len(t, offers, 2, "each as soon as it is read")
		require.ElementsMatch(t, []string{"queue/job-7 observed", "remove queue/job-1"}, append(filePaths(offers[0].entry), filePaths(offers[1].entry)...))
		b.client.Quiet()
		b.log.commit(offers[0].entry, offers[1].entry)
		checked := kittest.Expect[*messages.CheckNodesResult](b.client)
		require.Equal(t, uint64(9), checked.Request)
		require.Equal(t, int64(5), checked.Files)
		require.Equal(t, int64(2), checked.Nodes[0].Repaired)
		require.Zero(t, checked.Nodes[1].Repaired)
		require.Equal(t, "seven", b.content("queue/job-7"))
	})
}

func TestAComparisonThatRepairsNothing(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		differs := []*messages.NodeDifferences{{Name: "n2", Files: []*messages.FileDifference{{Path: "queue/job-1", What: messages.FileDifference_EXTRA}}}}
		b.client.Ask(b.replicator, &messages.CheckNodes{Request: 9})
		b.Settle()
		b.Send(b.replicator, &messages.NodesCompared{Number: b.peers.question(), Nodes: differs})
		require.Zero(t, kittest.Expect[*messages.CheckNodesResult](b.client).Nodes[0].Repaired)
		b.client.Ask(b.replicator, &messages.CheckNodes{Request: 10, Repair: true})
		b.Settle()
		b.log.lead("n2")
		b.Send(b.replicator, &messages.NodesCompared{Number: b.peers.question(), Nodes: differs})
		require.Zero(t, kittest.Expect[*messages.CheckNodesResult](b.client).Nodes[0].Repaired, "the files may be another's to repair")
		require.Empty(t, b.log.take())
		b.client.Ask(b.replicator, &messages.CheckNodes{Request: 11})
		require.Equal(t, "NotMaster", kittest.Expect[*messages.CheckNodesResult](b.client).Failure.Class)
	})
}
