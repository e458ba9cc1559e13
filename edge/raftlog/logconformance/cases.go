package logconformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"lockstep/actors/replicator"
	"lockstep/messages"
)

func oneNode(s *suite) {
	a := s.add("n1", true, nil)
	s.leader()
	var all []proposal
	for i := range 100 {
		all = append(all, s.propose(a, "queue/serial", fmt.Sprint(i)))
	}
	s.until("everything is applied", a, func(a *application) bool { return len(a.positions) == len(all) })
	for i, p := range all[1:] {
		require.Less(s, s.oracle.indexes[all[i].entry], s.oracle.indexes[p.entry], "in the order of the proposals")
	}
	require.Equal(s, "99", a.files["queue/serial"])
	require.Equal(s, map[string]string{"n1": "+" + s.cluster.Address("n1")}, a.members)
}

func reattach(s *suite) {
	a := s.add("n1", true, nil)
	s.leader()
	s.setBudget(a, 3)
	var all []proposal
	for i := range 8 {
		all = append(all, s.propose(a, "queue/serial", fmt.Sprint(i)))
	}
	s.until("three entries are applied", a, func(a *application) bool { return len(a.positions) == 3 && len(a.queued) > 0 })
	s.setBudget(a, -1)
	s.attach(a)
	s.until("all entries are applied", a, func(a *application) bool { return len(a.positions) == 8 })
	s.leader()
	require.Equal(s, s.oracle.indexes[all[3].entry], a.firstIndex, "the first one that was not applied")
}

func givesAhead(s *suite) {
	a := s.add("n1", true, nil)
	s.leader()
	s.setBudget(a, 0)
	for i := range 3 {
		s.propose(a, "queue/serial", fmt.Sprint(i))
		s.until("the entry is given, although those before it are not on the disk", a, func(a *application) bool { return len(a.queued) == i+1 })
	}
	require.True(s, a.inspect(func(a *application) bool { return len(a.positions) == 0 }))
	s.liftBudget(a)
	s.until("everything is applied", a, func(a *application) bool { return len(a.positions) == 3 })
}

func threeAgree(s *suite) {
	s.threeVoters()
	s.commit(200)
	s.awaitAgreement()
	s.cluster.Until("all know who leads, and the members", func() bool {
		leads, agreed := "", map[string]int{}
		for _, a := range s.applications {
			a.inspect(func(a *application) bool {
				if a.leads && a.node.Log.Leads() {
					leads = a.name
				}
				if len(a.members) == 3 && a.leads == a.node.Log.Leads() {
					agreed[a.leader]++
				}
				return true
			})
		}
		return agreed[""] == 1 && agreed[leads] == 2
	})
}

func followerRefuses(s *suite) {
	_, others := s.threeVoters()
	p := s.propose(others[0], "queue/serial", "1")
	s.cluster.Until("it is refused", func() bool { return p.refusal() != nil })
	require.False(s, p.refusal().Unknown)
	require.Equal(s, "GenericError", p.refusal().Failure.Class)
	answer := s.change(others[0], replicator.Change{What: messages.ChangeNodes_REMOVE, Name: "n1"})
	require.NotNil(s, answer.Failure, "only who leads changes the membership")
	s.commit(1)
	s.awaitAgreement()
}

func isolatedLeader(s *suite) {
	leader, others := s.threeVoters()
	s.commit(5)
	s.cluster.Isolate(leader.name)
	var lost []proposal
	for i := range 5 {
		lost = append(lost, s.propose(leader, "queue/lost", fmt.Sprint(i)))
	}
	s.cluster.Until("the isolated leader knows", func() bool {
		return !leader.node.Log.Leads() && leader.inspect(func(a *application) bool { return !a.leads && a.leader == "" })
	})
	s.leader(others...)
	for _, p := range lost {
		s.cluster.Until("what it proposed is refused", func() bool { return p.refusal() != nil })
	}
	late := s.propose(leader, "queue/lost", "late")
	s.cluster.Until("what it proposes then is refused", func() bool { return late.refusal() != nil })
	require.False(s, late.refusal().Unknown)
	s.commit(20)
	s.awaitAgreement(others...)
	s.cluster.Heal()
	s.awaitAgreement()
	s.commit(5)
	s.awaitAgreement()
	require.False(s, s.oracle.has(late.entry))
}

func lostDuringBatch(s *suite) {
	leader, others := s.threeVoters()
	s.commit(5)
	s.awaitAgreement()
	s.setBudget(leader, 2)
	wave := make([]proposal, 10)
	for i := range wave {
		wave[i] = s.propose(leader, fmt.Sprintf("queue/job-%d", i), "held")
	}
	s.until("it holds entries", leader, func(a *application) bool { return len(a.queued) > 0 && a.budget == 0 })
	s.cluster.Until("the others have all", func() bool {
		for _, p := range wave {
			if !s.oracle.has(p.entry) {
				return false
			}
		}
		return true
	})
	s.cluster.Isolate(leader.name)
	s.leader(others...)
	s.commit(5)
	s.cluster.Heal()
	s.liftBudget(leader)
	s.awaitAgreement()
}

func leadsWhenApplied(s *suite) {
	leader, others := s.threeVoters()
	s.commit(5)
	s.awaitAgreement()
	s.setBudget(others[0], 0)
	s.setBudget(others[1], 0)
	s.commit(10)
	s.stop(leader.name)
	s.cluster.Until("another one is about to lead", func() bool {
		return others[0].inspect(func(a *application) bool { return len(a.queued) > 0 }) &&
			others[1].inspect(func(a *application) bool { return len(a.queued) > 0 })
	})
	for _, other := range others {
		require.False(s, other.node.Log.Leads())
		require.False(s, other.inspect(func(a *application) bool { return a.leads }))
	}
	s.liftBudget(others[0])
	s.liftBudget(others[1])
	s.leader(others...)
	s.commit(1)
	s.start(leader.name, false)
	s.awaitAgreement()
}

// manyFiles are too much for one part of a snapshot.
func manyFiles() map[string]string {
	files := map[string]string{"queue/large": strings.Repeat("large", 500_000), "queue/empty": ""}
	for i := range 3 {
		files[fmt.Sprintf("queue/large-%d", i)] = files["queue/large"]
	}
	for i := range 600 {
		files[fmt.Sprintf("queue/job-%d", 1000+i)] = fmt.Sprintf("content of %d", i)
	}
	return files
}

func newNode(s *suite) {
	files := manyFiles()
	s.add("n1", true, files)
	s.commit(3)
	b := s.add("n2", false, map[string]string{"queue/stale": "it is replaced"})
	s.join("n2", messages.ChangeNodes_ADD_NONVOTER)
	s.awaitAgreement()
	require.Equal(s, 1, b.restored)
	require.Equal(s, files["queue/large"], b.files["queue/large"])
	require.NotContains(s, b.files, "queue/stale")
	address := s.cluster.Address("n2")
	s.until("it hears who the members are, itself no voter", b, func(a *application) bool { return a.members["n2"] == address })
}

func attachDuringRestore(s *suite) {
	s.add("n1", true, manyFiles())
	s.commit(3)
	b := s.add("n2", false, nil)
	s.setBudget(b, 1)
	s.join("n2", messages.ChangeNodes_ADD_NONVOTER)
	s.until("it has a part of the snapshot", b, func(a *application) bool { return a.partsReceived == 1 && len(a.queued) == 1 })
	s.setBudget(b, -1)
	s.attach(b)
	s.awaitAgreement()
	require.Equal(s, 1, b.restored)
}

func crashDuringRestore(s *suite) {
	s.add("n1", true, manyFiles())
	s.commit(3)
	b := s.add("n2", false, nil)
	s.setBudget(b, 1)
	s.join("n2", messages.ChangeNodes_ADD_NONVOTER)
	s.until("it has a part of the snapshot", b, func(a *application) bool { return a.partsReceived == 1 && len(a.queued) == 1 })
	s.stop("n2")
	s.cluster.Isolate("n2")
	s.setBudget(b, -1)
	s.start("n2", false)
	s.until("it has the rest, from its disk", b, func(a *application) bool { return a.restored == 1 })
	s.cluster.Heal()
	s.commit(3)
	s.awaitAgreement()
}

func wipedNode(s *suite) {
	leader, others := s.threeVoters()
	wiped := others[0]
	s.commit(3 * s.cluster.Trailing())
	s.awaitAgreement()
	s.stop(wiped.name)
	s.wipe(wiped.name)
	s.cluster.Compact(leader.name)
	s.cluster.Compact(others[1].name)
	s.commit(3)
	s.start(wiped.name, false)
	s.awaitAgreement()
	require.NotEmpty(s, wiped.snapshotState, "what the application remembers arrives")
	require.GreaterOrEqual(s, wiped.restored, 1)
}

func catchUpBySnapshot(s *suite) {
	leader, others := s.threeVoters()
	stopped := others[1]
	s.commit(3)
	s.awaitAgreement()
	before := stopped.restored
	s.stop(stopped.name)
	for range 3 {
		s.commit(s.cluster.Trailing())
	}
	s.awaitAgreement(leader, others[0])
	for _, a := range []*application{leader, others[0]} {
		s.cluster.Compact(a.name)
		s.stop(a.name)
		s.start(a.name, false)
	}
	s.commit(2)
	s.start(stopped.name, false)
	s.awaitAgreement()
	require.Greater(s, stopped.restored, before)
	s.commit(2)
	s.awaitAgreement()
}

func membership(s *suite) {
	leader, others := s.threeVoters()
	for _, refused := range []replicator.Change{
		{What: messages.ChangeNodes_REMOVE, Name: "nobody"},
		{What: messages.ChangeNodes_TRANSFER, Name: "nobody"},
		{What: messages.ChangeNodes_TRANSFER, Name: leader.name},
		{What: messages.ChangeNodes_ADD_VOTER, Name: "n4"},
	} {
		require.NotNil(s, s.change(leader, refused).Failure, "%v", refused)
	}
	d := s.add("n4", false, nil)
	s.join("n4", messages.ChangeNodes_ADD_NONVOTER)
	s.awaitAgreement()
	s.join("n4", messages.ChangeNodes_ADD_VOTER)
	s.commit(5)
	s.awaitAgreement()
	s.until("it is a voter", d, func(a *application) bool { return a.members["n4"] == "+"+s.cluster.Address("n4") })
	s.mustChange(replicator.Change{What: messages.ChangeNodes_REMOVE, Name: others[0].name})
	s.stop(others[0].name)
	s.commit(5)
	s.awaitAgreement(leader, others[1], d)
	s.until("it is gone", d, func(a *application) bool { return len(a.members) == 3 && a.members[others[0].name] == "" })
	leader = s.leader()
	left := slices.DeleteFunc([]*application{s.applications["n1"], s.applications["n2"], s.applications["n3"], d},
		func(a *application) bool { return a == leader || a == others[0] })
	removal := replicator.Change{What: messages.ChangeNodes_REMOVE, Name: leader.name}
	require.NotNil(s, s.change(leader, removal).Failure, "it hands over, and who leads then removes it")
	s.mustChange(removal)
	s.leader(left...)
	s.commit(5)
	s.awaitAgreement(left...)
}

func transferLeadership(s *suite) {
	leader, others := s.threeVoters()
	s.commit(3)
	s.mustChange(replicator.Change{What: messages.ChangeNodes_TRANSFER, Name: others[0].name})
	require.False(s, leader.node.Log.Leads())
	s.leader(others[0])
	s.until("it knows", leader, func(a *application) bool { return a.leader == others[0].name })
	s.commit(3)
	s.mustChange(replicator.Change{What: messages.ChangeNodes_TRANSFER})
	s.leader(leader, others[1])
	s.commit(3)
	s.awaitAgreement()
}

func restartAll(s *suite) {
	s.threeVoters()
	s.commit(40)
	s.awaitAgreement()
	for _, name := range []string{"n1", "n2", "n3"} {
		s.stop(name)
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		s.start(name, name == "n1")
	}
	s.commit(10)
	s.awaitAgreement()
	s.cluster.Compact(s.leader().name)
	for _, name := range []string{"n3", "n2", "n1"} {
		s.stop(name)
		s.start(name, false)
	}
	s.commit(10)
	s.awaitAgreement()
}
