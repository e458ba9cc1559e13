package replication_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/jobproc"
	"lockstep/core/replication"
	"lockstep/messages"
)

func member(name string, voter bool) *messages.Member {
	return &messages.Member{Name: name, Address: name + ":1", Voter: voter}
}

func TestRemovedNodes(t *testing.T) {
	a, b, c := member("a", true), member("b", true), member("c", false)
	list := func(m ...*messages.Member) []*messages.Member { return m }
	require.Empty(t, replication.RemovedNodes(nil, nil, list(a, b)), "nobody was there before")
	require.Equal(t, []string{"b", "c"}, replication.RemovedNodes(nil, list(c, a, b), list(a)))
	require.Equal(t, []string{"b", "x"}, replication.RemovedNodes([]string{"c", "x"}, list(a, b), list(a, c)), "one has left, one is back")
}

func TestIsBarred(t *testing.T) {
	removed, lost := []string{"r"}, []string{"l"}
	for leader, barred := range map[string][]string{"a": {"r", "l"}, "": {"l"}, "r": {"l"}} {
		for _, name := range []string{"a", "stranger", "r", "l"} {
			require.Equal(t, slices.Contains(barred, name), replication.IsBarred(name, leader, removed, lost), "%s, led by %q", name, leader)
		}
	}
}

func TestNextChange(t *testing.T) {
	three := []*messages.Member{member("a", true), member("b", true), member("c", false)}
	one := []*messages.Member{member("a", true), member("c", false), member("d", false)}
	for name, c := range map[string]struct {
		members []*messages.Member
		wish    replication.JoinRequest
		ready   []string
		want    string // "": nothing
	}{
		"one that was removed":          {three, replication.JoinRequest{Name: "x", Address: "x:1", WantsVote: true}, nil, ""},
		"a new one":                     {three, replication.JoinRequest{Name: "x", Address: "x:1", WantsVote: true, NoLog: true}, nil, "ADD_NONVOTER x x:1"},
		"a voter without its log":       {three, replication.JoinRequest{Name: "b", Address: "b:1", WantsVote: true, NoLog: true}, nil, "REMOVE b "},
		"one at another address too":    {three, replication.JoinRequest{Name: "b", Address: "b:2", NoLog: true}, nil, "REMOVE b "},
		"a copy without its log":        {three, replication.JoinRequest{Name: "c", Address: "c:1", WantsVote: true, NoLog: true}, nil, ""},
		"a voter that has moved":        {three, replication.JoinRequest{Name: "b", Address: "b:2", WantsVote: true, Applied: 9000}, nil, "ADD_VOTER b b:2"},
		"a copy that has moved":         {three, replication.JoinRequest{Name: "c", Address: "c:2"}, nil, "ADD_NONVOTER c c:2"},
		"a voter":                       {three, replication.JoinRequest{Name: "b", Address: "b:1", WantsVote: true, Applied: 9000}, nil, ""},
		"a third voter":                 {three, replication.JoinRequest{Name: "c", Address: "c:1", WantsVote: true, Applied: 8900}, nil, "ADD_VOTER c c:1"},
		"one that is behind":            {three, replication.JoinRequest{Name: "c", Address: "c:1", WantsVote: true, Applied: 8899}, nil, ""},
		"one that wants no vote":        {three, replication.JoinRequest{Name: "c", Address: "c:1", Applied: 9000}, nil, ""},
		"a second voter alone":          {one, replication.JoinRequest{Name: "c", Address: "c:1", WantsVote: true, Applied: 9000}, []string{"c"}, ""},
		"a second with a third":         {one, replication.JoinRequest{Name: "c", Address: "c:1", WantsVote: true, Applied: 9000}, []string{"c", "d"}, "ADD_VOTER c c:1"},
		"a second beside a voter":       {one, replication.JoinRequest{Name: "c", Address: "c:1", WantsVote: true, Applied: 9000}, []string{"a", "c"}, ""},
		"a voter that wants none still": {three, replication.JoinRequest{Name: "b", Address: "b:1", Applied: 9000}, nil, ""},
	} {
		got := ""
		if change := replication.NextChange(c.members, c.wish, 9000, c.ready); change != nil {
			got = fmt.Sprintf("%v %s %s", change.What, change.Name, change.Address)
		}
		require.Equal(t, c.want, got, name)
	}
}

// While there are nodes that could have a vote, the number of votes is even for at most one step, and at most one of
// these nodes has no vote.
func TestVotesComeToBeOdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e", "f"}[:rapid.IntRange(1, 6).Draw(t, "nodes")]
		members := []*messages.Member{member("a", true)}
		perform := func(c *messages.ChangeNodes) {
			members = slices.DeleteFunc(slices.Clone(members), func(m *messages.Member) bool { return m.Name == c.Name })
			if c.What != messages.ChangeNodes_REMOVE {
				members = append(members, &messages.Member{Name: c.Name, Address: c.Address, Voter: c.What == messages.ChangeNodes_ADD_VOTER})
			}
		}
		ask := func(name string, voting bool) replication.JoinRequest {
			known := slices.ContainsFunc(members, func(m *messages.Member) bool { return m.Name == name })
			return replication.JoinRequest{Name: name, Address: name + ":1", WantsVote: voting, NoLog: !known, Applied: 1}
		}
		ready := map[string]bool{}
		for _, name := range names[1:] {
			ready[name] = rapid.IntRange(0, 3).Draw(t, "ready") > 0
		}
		var asking []string
		for _, name := range names[1:] {
			if ready[name] {
				asking = append(asking, name)
			}
		}
		for range 40 {
			name := rapid.SampledFrom(append([]string{"a"}, names...)).Draw(t, "who")
			if change := replication.NextChange(members, ask(name, ready[name]), 0, asking); change != nil {
				require.NotEqual(t, messages.ChangeNodes_REMOVE, change.What)
				require.Equal(t, name, change.Name)
				perform(change)
			}
			if replication.Voters(members)%2 == 1 {
				continue
			}
			// Another node could have a vote, and asks next.
			next := slices.IndexFunc(asking, func(n string) bool {
				return !slices.ContainsFunc(members, func(m *messages.Member) bool { return m.Name == n && m.Voter })
			})
			require.GreaterOrEqual(t, next, 0, "an even number of votes, and nobody to make it odd")
			for range 2 { // the node may not be a member yet
				if change := replication.NextChange(members, ask(asking[next], true), 0, asking); change != nil {
					perform(change)
				}
			}
			require.Equal(t, 1, replication.Voters(members)%2)
		}
		for range 3 * len(names) {
			for _, name := range names {
				if change := replication.NextChange(members, ask(name, ready[name]), 0, asking); change != nil {
					perform(change)
				}
			}
		}
		want := 1 + len(asking)
		want -= (want + 1) % 2
		require.Equal(t, want, replication.Voters(members))
		require.Len(t, members, len(names))
	})
}

func TestMayVote(t *testing.T) {
	require.True(t, replication.JoinRequest{WantsVote: true, Applied: 1}.MayVote(101))
	require.False(t, replication.JoinRequest{WantsVote: true}.MayVote(1), "it may not be reached yet")
	require.False(t, replication.JoinRequest{WantsVote: true, Applied: 1}.MayVote(102))
	require.True(t, replication.JoinRequest{WantsVote: true, Applied: 5000}.MayVote(0), "it is ahead")
	require.False(t, replication.JoinRequest{}.MayVote(0))
	require.False(t, replication.JoinRequest{WantsVote: true, NoLog: true}.MayVote(0))
}

// The times between nodes have the documented order.
func TestTheOrderOfTimes(t *testing.T) {
	require.Less(t, replication.Lease, replication.ElectionMin)
	require.Less(t, jobproc.LeaseProbe+jobproc.LeaseGrace+replication.Lease/2, replication.Fence)
}
