package lock

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
)

func drawAnyLock(t *rapid.T) Lock {
	level := Level(rapid.IntRange(int(Cluster), int(Free)).Draw(t, "level"))
	switch {
	case level == Config:
		return ConfigLock
	case level == Free:
		return Member(Free, rapid.StringMatching(`[a-zA-Z0-9._-]{1,40}(/[a-zA-Z0-9._-]{1,28}){0,2}`).Draw(t, "free"))
	case rapid.Bool().Draw(t, "group"):
		return Group(level)
	case level == Cluster:
		return BGL
	default:
		return Member(level, rapid.String().Draw(t, "member"))
	}
}

func drawAnyOwner(t *rapid.T) Owner {
	livelock, pid := rapid.String().Draw(t, "livelock"), rapid.IntRange(0, 1<<31-1).Draw(t, "pid")
	if rapid.Bool().Draw(t, "named") {
		return NamedOwner(rapid.String().Draw(t, "name"), livelock, pid)
	}
	return JobOwner(job.ID(rapid.IntRange(0, 1<<53).Draw(t, "job")), livelock, pid)
}

// locks.md 8C.1
func TestNamesLevelsAndOwnersRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawAnyLock(t)
		data, err := json.Marshal(l)
		require.NoError(t, err)
		var again Lock
		require.NoError(t, json.Unmarshal(data, &again))
		require.Equal(t, l, again)
		level, err := ParseLevel(l.Level().String())
		require.NoError(t, err)
		require.Equal(t, l.Level(), level)

		o := drawAnyOwner(t)
		data, err = json.Marshal(o)
		require.NoError(t, err)
		var owner Owner
		require.NoError(t, json.Unmarshal(data, &owner))
		require.Equal(t, o, owner)
	})
}

// locks.md 8C.2 and 8C.3, and that both orders are total.
func TestImpliedLocksAndOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, x := drawAnyLock(t), drawAnyLock(t)
		implied := Implied(m)
		for _, g := range implied {
			require.Negative(t, g.Compare(m), "8C.2")
			if x != g && g.Compare(x) < 0 && x.Compare(m) <= 0 {
				require.Contains(t, Implied(x), g, "8C.3")
			}
		}
		require.Equal(t, m == x, m.Compare(x) == 0)
		require.Equal(t, -m.Compare(x), x.Compare(m))
		o, p := drawAnyOwner(t), drawAnyOwner(t)
		require.Equal(t, o == p, o.Compare(p) == 0)
		require.Equal(t, -o.Compare(p), p.Compare(o))
	})
	for _, d := range []domain{small, production} {
		require.True(t, slices.IsSortedFunc(d.locks, Lock.Compare), d.name)
	}
}

func TestTheConfigurationLockIsNoMemberOfTheCluster(t *testing.T) {
	locks := []string{
		"cluster/[lockset]", "cluster/BGL", "instance/[lockset]", "instance/", "instance/a/b", "nodegroup/x", "node/[lockset]", "node/[locksets]",
		"node/ä", "node-res/[lockset]", "node-res/a", "network/[lockset]", "network/z", "cluster/config", "lock/db/x", "lock/deploy", "lock/deploy.2", "lock/x",
	}
	var parsed []Lock
	for _, name := range locks {
		l, err := ParseLock(name)
		require.NoError(t, err)
		require.Equal(t, name, l.String())
		parsed = append(parsed, l)
	}
	require.True(t, slices.IsSortedFunc(parsed, Lock.Compare), "in the order of acquisition")
	require.Equal(t, ConfigLock, parsed[len(parsed)-5], "the last of Ganeti's")
	require.Equal(t, Free, parsed[len(parsed)-1].Level())
	require.Empty(t, Implied(ConfigLock))
	require.Empty(t, Implied(parsed[len(parsed)-1]))
	require.Equal(t, Group(Node), Member(Node, "[lockset]"))
}

func TestUnknownNames(t *testing.T) {
	for _, name := range []string{"", "node", "cluster/", "cluster/x", "config/config", "config/[lockset]", "node-alloc/NAL", "Node/a", "/a",
		"lock/", "lock/[lockset]", "lock//a", "lock/a/", "lock/a//b", "lock/a b", "lock/ä", "lock/" + strings.Repeat("x", 101)} {
		_, err := ParseLock(name)
		var unknown *NameError
		require.ErrorAs(t, err, &unknown)
		require.EqualError(t, err, "Unknown lock name '"+name+"'")
	}
	_, err := ParseLevel("node-alloc")
	require.EqualError(t, err, "Unknown lock-level name 'node-alloc'")
	require.Panics(t, func() { Group(Config) })
	require.Panics(t, func() { Group(Free) })
	require.Panics(t, func() { Member(Free, "[lockset]") })
	require.Panics(t, func() { Member(Config, "x") })
	require.Panics(t, func() { Member(Cluster, "x") })
}

// A name whose first word is no level is a free lock's; one that may be a mistyped level is refused with both full names.
func TestTheLockThatAUserMeans(t *testing.T) {
	for name, want := range map[string]string{
		"deploy": "lock/deploy", "db/x": "lock/db/x", "db/x/y.2": "lock/db/x/y.2", "job/12": "lock/job/12", "nodes": "lock/nodes",
		"pool/n1": "lock/pool/n1", "lock/db/x": "lock/db/x", "lock/node/n1": "lock/node/n1", "node/n1": "node/n1", "node/db/x": "node/db/x",
		"cluster/BGL": "cluster/BGL", "configs/x": "lock/configs/x",
	} {
		full, err := Meant(name)
		require.NoError(t, err, name)
		require.Equal(t, want, full)
		_, err = ParseLock(full)
		require.NoError(t, err, name)
	}
	for name, want := range map[string]string{
		"nodes/n1":     "did you mean node/n1? A lock of your own with this name is lock/nodes/n1",
		"ode/n1":       "did you mean node/n1? A lock of your own with this name is lock/ode/n1",
		"nide/a/b":     "did you mean node/a/b? A lock of your own with this name is lock/nide/a/b",
		"Node/n1":      "did you mean node/n1? A lock of your own with this name is lock/Node/n1",
		"node_res/n1":  "did you mean node-res/n1? A lock of your own with this name is lock/node_res/n1",
		"locks/deploy": "did you mean lock/deploy? A lock of your own with this name is lock/locks/deploy",
		"BGL":          "BGL is Ganeti's big lock; write cluster/BGL, or lock/BGL for a lock of your own with that name",
	} {
		_, err := Meant(name)
		require.EqualError(t, err, want)
	}
	for _, name := range []string{"", "node", "config", "config/x", "a/", "/a", "a//b", "a b", "cluster/x", "lock/", strings.Repeat("x", 101)} {
		full, err := Meant(name)
		require.NoError(t, err, name)
		require.Equal(t, name, full)
		_, err = ParseLock(full)
		require.Error(t, err, name)
	}
}

// What Meant gives is a full name: it means the same lock, and only a free lock was named otherwise.
func TestMeantIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z]{0,9}[/.]?[a-z/]{0,5}`).Draw(t, "name")
		full, err := Meant(name)
		if err != nil {
			return
		}
		again, err := Meant(full)
		require.NoError(t, err)
		require.Equal(t, full, again)
		if l, err := ParseLock(full); full != name {
			require.NoError(t, err)
			require.Equal(t, Member(Free, name), l)
		}
	})
}

func TestNamesInErrorTextsAreHaskells(t *testing.T) {
	for want, l := range map[string]Lock{
		"ClusterLockSet": Group(Cluster), "BGL": BGL, "ConfigLock": ConfigLock, "NodeResLockSet": Group(NodeRes),
		`Instance "a.example"`:          Member(Instance, "a.example"),
		`NodeGroup "\"\\\n\DEL\228\&1"`: Member(NodeGroup, "\"\\\n\x7fä1"),
		`Network "\SO\&H\SOh\NUL\233"`:  Member(Network, "\x0eH\x0eh\x00é"),
	} {
		require.Equal(t, want, l.ganetiName())
	}
}

func TestMalformedOwners(t *testing.T) {
	for _, text := range []string{
		`null`, `{}`, `[]`, `[1,"/l"]`, `[1,"/l",2,3]`, `[-1,"/l",2]`, `[1.5,"/l",2]`, `[null,"/l",2]`, `[1,null,2]`, `[1,"/l",-2]`,
		`[1,"/l",2147483648]`, `[1,"/l","2"]`,
	} {
		var o Owner
		require.ErrorContains(t, o.UnmarshalJSON([]byte(text)), "malformed client id: ", text)
		require.Zero(t, o)
	}
}

// A quoted number is a name (locks.md 2.2), and named owners come first (locks.md 1.6).
func TestOwnersInOrder(t *testing.T) {
	var owners []Owner
	require.NoError(t, json.Unmarshal([]byte(`[["12","/l",1],["2","/l",1],["x","/k",9],["x","/l",1],[2,"/l",1],[12,"/k",5],[12,"/l",1],[12,"/l",2]]`), &owners))
	require.True(t, slices.IsSortedFunc(owners, Owner.Compare))
	require.Equal(t, `"12"`, owners[0].IdentityJSON())
	require.Equal(t, `12`, owners[6].IdentityJSON())
}
