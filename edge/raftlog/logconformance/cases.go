package logconformance

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"lockstep/actors/replicator"
	"lockstep/messages"
)

func oneNode(s *suite) {
	a := s.add("n1", true, nil)
	s.leader()
	var all []proposed
	for i := range 100 {
		all = append(all, s.propose(a, "queue/serial", fmt.Sprint(i)))
	}
	s.until("everything is applied", a, func(a *app) bool { return len(a.marks) == len(all) })
	for i, p := range all[1:] {
		require.Less(s, s.world.indexes[all[i].entry], s.world.indexes[p.entry], "in the order of the proposals")
	}
	require.Equal(s, "99", a.files["queue/serial"])
	require.Equal(s, map[string]string{"n1": "+" + s.cluster.Address("n1")}, a.members)
}

func attachAnew(s *suite) {
	a := s.add("n1", true, nil)
	s.leader()
	s.hold(a, 3)
	var all []proposed
	for i := range 8 {
		all = append(all, s.propose(a, "queue/serial", fmt.Sprint(i)))
	}
	s.until("three entries are applied", a, func(a *app) bool { return len(a.marks) == 3 && len(a.held) > 0 })
	s.hold(a, -1)
	s.attach(a)
	s.until("all entries are applied", a, func(a *app) bool { return len(a.marks) == 8 })
	s.leader()
	require.Equal(s, s.world.indexes[all[3].entry], a.first, "the first one that was not applied")
}

func threeAgree(s *suite) {
	s.three()
	s.put(200)
	s.agree()
	s.cluster.Until("all know who leads, and the members", func() bool {
		leads, agreed := "", map[string]int{}
		for _, a := range s.apps {
			a.see(func(a *app) bool {
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
	_, others := s.three()
	p := s.propose(others[0], "queue/serial", "1")
	s.cluster.Until("it is refused", func() bool { return p.refusal() != nil })
	require.False(s, p.refusal().Unknown)
	require.Equal(s, "GenericError", p.refusal().Failure.Class)
	answer := s.change(others[0], replicator.Change{What: messages.ChangeNodes_REMOVE, Name: "n1"})
	require.NotNil(s, answer.Failure, "only who leads changes the membership")
	s.put(1)
	s.agree()
}

func isolatedLeader(s *suite) {
	leader, others := s.three()
	s.put(5)
	s.cluster.Isolate(leader.name)
	var lost []proposed
	for i := range 5 {
		lost = append(lost, s.propose(leader, "queue/lost", fmt.Sprint(i)))
	}
	s.cluster.Until("the isolated leader knows", func() bool {
		return !leader.node.Log.Leads() && leader.see(func(a *app) bool { return !a.leads && a.leader == "" })
	})
	s.leader(others...)
	for _, p := range lost {
		s.cluster.Until("what it proposed is refused", func() bool { return p.refusal() != nil })
	}
	late := s.propose(leader, "queue/lost", "late")
	s.cluster.Until("what it proposes then is refused", func() bool { return late.refusal() != nil })
	require.False(s, late.refusal().Unknown)
	s.put(20)
	s.agree(others...)
	s.cluster.Heal()
	s.agree()
	s.put(5)
	s.agree()
	require.False(s, s.world.has(late.entry))
}

func lostDuringBatch(s *suite) {
	leader, others := s.three()
	s.put(5)
	s.agree()
	s.hold(leader, 2)
	wave := make([]proposed, 10)
	for i := range wave {
		wave[i] = s.propose(leader, fmt.Sprintf("queue/job-%d", i), "held")
	}
	s.until("it holds entries", leader, func(a *app) bool { return len(a.held) > 0 && a.budget == 0 })
	s.cluster.Until("the others have all", func() bool {
		for _, p := range wave {
			if !s.world.has(p.entry) {
				return false
			}
		}
		return true
	})
	s.cluster.Isolate(leader.name)
	s.leader(others...)
	s.put(5)
	s.cluster.Heal()
	s.release(leader)
	s.agree()
}

func leadsWhenApplied(s *suite) {
	leader, others := s.three()
	s.put(5)
	s.agree()
	s.hold(others[0], 0)
	s.hold(others[1], 0)
	s.put(10)
	s.stop(leader.name)
	s.cluster.Until("another one is about to lead", func() bool {
		return others[0].see(func(a *app) bool { return len(a.held) > 0 }) &&
			others[1].see(func(a *app) bool { return len(a.held) > 0 })
	})
	for _, other := range others {
		require.False(s, other.node.Log.Leads())
		require.False(s, other.see(func(a *app) bool { return a.leads }))
	}
	s.release(others[0])
	s.release(others[1])
	s.leader(others...)
	s.put(1)
	s.start(leader.name, false)
	s.agree()
}

// many is so many files that they do not fit into one part of a snapshot.
func many() map[string]string {
	files := map[string]string{"queue/large": strings.Repeat("large", 500_000), "queue/empty": ""}
	for i := range 600 {
		files[fmt.Sprintf("queue/job-%d", 1000+i)] = fmt.Sprintf("content of %d", i)
	}
	return files
}

func newNode(s *suite) {
	files := many()
	s.add("n1", true, files)
	s.put(3)
	b := s.add("n2", false, map[string]string{"queue/stale": "it is replaced"})
	s.join("n2", messages.ChangeNodes_ADD_NONVOTER)
	s.agree()
	require.Equal(s, 1, b.restored)
	require.Equal(s, files["queue/large"], b.files["queue/large"])
	require.NotContains(s, b.files, "queue/stale")
	address := s.cluster.Address("n2")
	s.until("it hears who the members are, itself no voter", b, func(a *app) bool { return a.members["n2"] == address })
}

func attachDuringRestore(s *suite) {
	s.add("n1", true, many())
	s.put(3)
	b := s.add("n2", false, nil)
	s.hold(b, 1)
	s.join("n2", messages.ChangeNodes_ADD_NONVOTER)
	s.until("it has a part of the snapshot", b, func(a *app) bool { return a.parts == 1 && len(a.held) == 1 })
	s.hold(b, -1)
	s.attach(b)
	s.agree()
	require.Equal(s, 1, b.restored)
}

func crashDuringRestore(s *suite) {
	s.add("n1", true, many())
	s.put(3)
	b := s.add("n2", false, nil)
	s.hold(b, 1)
	s.join("n2", messages.ChangeNodes_ADD_NONVOTER)
	s.until("it has a part of the snapshot", b, func(a *app) bool { return a.parts == 1 && len(a.held) == 1 })
	s.stop("n2")
	s.cluster.Isolate("n2")
	s.hold(b, -1)
	s.start("n2", false)
	s.until("it has the rest, from its disk", b, func(a *app) bool { return a.restored == 1 })
	s.cluster.Heal()
	s.put(3)
	s.agree()
}

func wipedNode(s *suite) {
	leader, others := s.three()
	wiped := others[0]
	s.put(3 * s.cluster.Trailing())
	s.agree()
	s.stop(wiped.name)
	s.wipe(wiped.name)
	s.cluster.Compact(leader.name)
	s.cluster.Compact(others[1].name)
	s.put(3)
	s.start(wiped.name, false)
	s.agree()
	require.NotEmpty(s, wiped.memory, "what the application remembers arrives")
	require.GreaterOrEqual(s, wiped.restored, 1)
}

func awayForLong(s *suite) {
	leader, others := s.three()
	away := others[1]
	s.put(3)
	s.agree()
	before := away.restored
	s.stop(away.name)
	for range 3 {
		s.put(s.cluster.Trailing())
	}
	s.agree(leader, others[0])
	for _, a := range []*app{leader, others[0]} {
		s.cluster.Compact(a.name)
		s.stop(a.name)
		s.start(a.name, false)
	}
	s.put(2)
	s.start(away.name, false)
	s.agree()
	require.Greater(s, away.restored, before)
	s.put(2)
	s.agree()
}

func membership(s *suite) {
	leader, others := s.three()
	for _, bad := range []replicator.Change{
		{What: messages.ChangeNodes_REMOVE, Name: "nobody"},
		{What: messages.ChangeNodes_TRANSFER, Name: "nobody"},
		{What: messages.ChangeNodes_TRANSFER, Name: leader.name},
		{What: messages.ChangeNodes_ADD_VOTER, Name: "n4"},
	} {
		require.NotNil(s, s.change(leader, bad).Failure, "%v", bad)
	}
	d := s.add("n4", false, nil)
	s.join("n4", messages.ChangeNodes_ADD_NONVOTER)
	s.agree()
	s.join("n4", messages.ChangeNodes_ADD_VOTER)
	s.put(5)
	s.agree()
	s.until("it is a voter", d, func(a *app) bool { return a.members["n4"] == "+"+s.cluster.Address("n4") })
	s.succeed(replicator.Change{What: messages.ChangeNodes_REMOVE, Name: others[0].name})
	s.stop(others[0].name)
	s.put(5)
	s.agree(leader, others[1], d)
	s.until("it is gone", d, func(a *app) bool { return len(a.members) == 3 && a.members[others[0].name] == "" })
	answer := s.change(s.leader(), replicator.Change{What: messages.ChangeNodes_REMOVE, Name: leader.name})
	require.NotNil(s, answer.Failure, "it hands over, and who leads then removes it")
	next := s.leader(others[1], d)
	require.Nil(s, s.change(next, replicator.Change{What: messages.ChangeNodes_REMOVE, Name: leader.name}).Failure)
	s.put(5)
	s.agree(others[1], d)
}

func handOver(s *suite) {
	leader, others := s.three()
	s.put(3)
	s.succeed(replicator.Change{What: messages.ChangeNodes_TRANSFER, Name: others[0].name})
	require.False(s, leader.node.Log.Leads())
	s.leader(others[0])
	s.until("it knows", leader, func(a *app) bool { return a.leader == others[0].name })
	s.put(3)
	s.succeed(replicator.Change{What: messages.ChangeNodes_TRANSFER})
	s.leader(leader, others[1])
	s.put(3)
	s.agree()
}

func restartAll(s *suite) {
	s.three()
	s.put(40)
	s.agree()
	for _, name := range []string{"n1", "n2", "n3"} {
		s.stop(name)
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		s.start(name, name == "n1")
	}
	s.put(10)
	s.agree()
	s.cluster.Compact(s.leader().name)
	for _, name := range []string{"n3", "n2", "n1"} {
		s.stop(name)
		s.start(name, false)
	}
	s.put(10)
	s.agree()
}
