package replicator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

func entryOf(origin, file string, content []byte) *messages.LogEntry {
	return &messages.LogEntry{Origin: origin, Incarnation: "run", Number: 7, Changes: []*messages.FileChange{replication.ObservedChange(file, content)}}
}

func TestTheReplicaKeepsTheFilesOfItsOwnRunningJobs(t *testing.T) {
	x := newReplica("u1")
	own, other := contentOf(1, 1, ""), contentOf(2, 1, "")
	x.apply(5, []*messages.LogEntry{entryOf("u1", "queue/job-1", own), entryOf("u2", "queue/job-2", other)})
	require.EqualValues(t, 5, x.applied)
	require.Equal(t, []int64{1}, x.own())
	require.True(t, x.isRunning(2))
	require.Equal(t, map[int64][]byte{1: own}, x.contents)
	require.Equal(t, own, x.committedFiles().Files[0].Content)

	scanned := x.asLogged(&messages.ScanQueueResult{Jobs: []*messages.ScannedJob{{Id: 1, Content: []byte("newer")}, {Id: 2, Content: other}}}, nil)
	require.Equal(t, own, scanned.Jobs[0].Content)
	require.Equal(t, other, scanned.Jobs[1].Content)

	state := x.running.Encode()
	again := newReplica("u1")
	again.attach(5, state)
	require.Contains(t, again.committedFiles().Failure.Text, "job 1 runs here")
	scanned = again.asLogged(&messages.ScanQueueResult{Jobs: []*messages.ScannedJob{{Id: 1, Content: []byte("newer")}}}, map[int64][]byte{1: own})
	require.Equal(t, own, scanned.Jobs[0].Content)

	x.apply(6, []*messages.LogEntry{{Origin: "u1", Changes: replication.RemoveChanges(&messages.RemoveFiles{Paths: []string{paths.JobPath(1)}})}})
	require.Empty(t, x.contents)
	require.False(t, x.isRunning(1))
	x.restore(9, replication.RunningJobs{})
	require.EqualValues(t, 9, x.applied)
	require.False(t, x.isRunning(2))
}

func TestAStepIsReducedToTheRefusedFiles(t *testing.T) {
	b := newBatch(&messages.LogCommitted{Entries: []*messages.CommittedEntry{{Index: 4, Entry: entryOf("u1", "config.data", nil).Marshal()}}})
	require.EqualValues(t, 4, b.index)
	require.Equal(t, []uint64{7}, b.numbersOf(replication.Applier{Node: "u1", Incarnation: "run"}))
	require.Empty(t, b.numbersOf(replication.Applier{Node: "u1", Incarnation: "former"}))
	move := func(names ...string) *messages.AccessStore {
		m := &messages.MoveFiles{}
		for _, name := range names {
			m.Files = append(m.Files, &messages.MoveFile{From: name, To: "archive/" + name})
		}
		return &messages.AccessStore{What: &messages.AccessStore_Move{Move: m}}
	}
	b.steps = []*messages.AccessStore{move("a", "b", "c"), move("d")}
	refused := &messages.Failure{Text: "EIO"}
	require.Same(t, refused, b.stepDone([]*messages.FileFailure{{Path: "a", Missing: true}, {Path: "b", Failure: refused}}))
	require.Equal(t, move("b").GetMove().Files, b.steps[0].GetMove().Files)
	require.Contains(t, b.failures, "a")
	require.Nil(t, b.stepDone(nil))
	require.Len(t, b.steps, 1)
}

func TestAnEntryThatCannotBeDecodedPanics(t *testing.T) {
	require.Panics(t, func() {
		newBatch(&messages.LogCommitted{Entries: []*messages.CommittedEntry{{Index: 4, Entry: []byte{0xff}}}})
	})
}

func TestMastership(t *testing.T) {
	s := mastership{self: "n1"}
	require.Contains(t, s.notMaster().Text, "does not know who is")
	require.True(t, s.gain(3))
	require.False(t, s.gain(3), "it is known")
	s.master = true
	require.True(t, s.gain(4))
	require.False(t, s.master, "requests of an earlier term are over")
	require.True(t, s.isTerm(4))
	require.True(t, s.lose("n2", "n2:1"))
	require.False(t, s.lose("n2", "n2:1"))
	require.False(t, s.isTerm(4))
	require.Contains(t, s.notMaster().Text, "n2 is")
}

func TestChangesOfTheMembershipThatAreRefused(t *testing.T) {
	s := newMembership("n1")
	s.members = []*messages.Member{{Name: "n1", Address: "10.0.0.1:1811", Voter: true}, {Name: "n2", Voter: false}}
	require.Equal(t, "10.0.0.1", s.ip())
	require.Equal(t, "10.0.0.1:1811", s.ownAddress())
	require.Len(t, s.others(), 1)
	for _, r := range []struct {
		what    messages.ChangeNodes_What
		node    string
		refusal string
	}{
		{messages.ChangeNodes_TRANSFER, "", ""},
		{messages.ChangeNodes_TRANSFER, "n1", ""},
		{messages.ChangeNodes_TRANSFER, "n2", "without a vote"},
		{messages.ChangeNodes_TRANSFER, "n3", "There is no node n3"},
		{messages.ChangeNodes_REMOVE, "n3", "There is no node n3"},
		{messages.ChangeNodes_REMOVE, "n2", ""},
		{messages.ChangeNodes_REMOVE, "n1", "the only one with a vote"},
	} {
		f := s.refusal(&messages.ChangeNodes{What: r.what, Name: r.node})
		if r.refusal == "" {
			require.Nil(t, f, r)
		} else {
			require.Contains(t, f.Text, r.refusal, r)
		}
	}
	s.members[1].Voter = true
	require.Contains(t, s.refusal(&messages.ChangeNodes{What: messages.ChangeNodes_REMOVE, Name: "n1"}).Text, "is the master")
	require.Equal(t, "127.0.0.1", newMembership("n1").ip())
}

// A removed node keeps its log, and must not become a member again with that log.
func TestANodeThatWasRemovedIsNotAdmittedWithItsLog(t *testing.T) {
	s := newMembership("n1")
	s.members = []*messages.Member{{Name: "n1", Voter: true}}
	answer, _ := s.admit(&messages.AdmitNode{Name: "n2", Address: "10.0.0.2:1811"}, 5, time.Time{})
	require.Contains(t, answer.Failure.Text, "was removed from the cluster")
	answer, next := s.admit(&messages.AdmitNode{Name: "n2", Address: "10.0.0.2:1811", Fresh: true}, 5, time.Time{})
	require.Nil(t, answer.Failure)
	require.False(t, answer.Member)
	require.Equal(t, "n2", next.Name)
}

func TestAJoinRequestCountsForAWhile(t *testing.T) {
	s := newMembership("n1")
	now := time.Unix(1000, 0)
	ask := func(name string, wantsVote bool, now time.Time) []string {
		return s.voteCandidates(replication.JoinRequest{Name: name, WantsVote: wantsVote, Applied: 5}, 5, now)
	}
	require.Equal(t, []string{"n2"}, ask("n2", true, now))
	require.Equal(t, []string{"n2", "n3"}, ask("n3", true, now.Add(joinRequestTTL-1)))
	require.Equal(t, []string{"n3"}, ask("n3", true, now.Add(joinRequestTTL)))
	require.Empty(t, ask("n3", false, now.Add(joinRequestTTL)))
	ask("n3", true, now)
	s.forgetJoinRequests()
	require.Empty(t, s.joinRequests)
}

func TestAChangeIsAnsweredOnce(t *testing.T) {
	s := newMembership("n1")
	require.False(t, s.changing())
	s.changes[4] = requester{request: 9}
	require.True(t, s.changing())
	a, known := s.takeChange(4)
	require.True(t, known)
	require.EqualValues(t, 9, a.request)
	_, known = s.takeChange(4)
	require.False(t, known)
}
