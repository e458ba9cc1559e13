package calls

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/lock"
)

// Which lock protects which object.
func TestUnlocked(t *testing.T) {
	before := configtest.Config()
	detached := configtest.PlainDisk
	after, touched := configtest.Change(before, 5, func(e *model.Edit) {
		configtest.Put(e, model.Nodes, configtest.Node1, func(n *model.Node) { n.Serial++ })
		configtest.Put(e, model.Groups, configtest.Group, func(g *model.NodeGroup) { g.Serial++ })
		configtest.Put(e, model.Networks, net1, func(n *model.Network) { n.Serial++ })
		configtest.Put(e, model.Instances, configtest.Inst1, func(i *model.Instance) { i.Name = model.Some("renamed"); i.Disks = i.Disks[:1] })
		configtest.Put(e, model.Disks, detached, func(d *model.Disk) { d.Serial++ })
		configtest.Cluster(e, func(c *model.Cluster) { c.MACPrefix = "aa:00:01" })
		model.Instances.Put(e, "new", model.Instance{Name: model.Some("new")})
	})
	kinds := func(held ...lock.Item) []string {
		all := []string{}
		for _, t := range (Call{Method: "updateNetwork"}).Unlocked(before, after, touched, Holds(held)) {
			all = append(all, t.Kind)
		}
		return all
	}
	exclusive := func(l lock.Lock) lock.Item { return lock.Item{Lock: l, Mode: lock.Exclusive} }
	require.ElementsMatch(t, []string{"nodes", "nodegroups", "networks", "instances", "disks"}, kinds(), "not the cluster, and no new object")
	require.ElementsMatch(t, []string{"nodegroups", "networks", "instances", "disks"}, kinds(exclusive(lock.Member(lock.Node, configtest.Node1))))
	require.ElementsMatch(t, []string{"nodes", "networks", "instances", "disks"}, kinds(exclusive(lock.Member(lock.NodeGroup, configtest.Group))))
	require.ElementsMatch(t, []string{"nodes", "nodegroups", "instances", "disks"}, kinds(exclusive(lock.Member(lock.Network, net1))))
	require.ElementsMatch(t, []string{"nodes", "nodegroups", "networks"}, kinds(exclusive(lock.Member(lock.Instance, "inst1.gold.example"))), "the former name, also for its disk")
	require.ElementsMatch(t, []string{"nodes", "nodegroups", "networks", "instances", "disks"}, kinds(exclusive(lock.Member(lock.Instance, "renamed"))))
	require.Len(t, kinds(lock.Item{Lock: lock.Member(lock.Node, configtest.Node1), Mode: lock.Shared}), 5)
	require.Len(t, kinds(exclusive(lock.Group(lock.Node))), 4)
	require.Empty(t, kinds(exclusive(lock.BGL)))
	for _, t1 := range (Call{Method: "addInstance"}).Unlocked(before, after, touched, Holds(nil)) {
		require.NotEqual(t, "networks", t1.Kind, "the pool of a network has no lock")
	}
	require.Empty(t, kinds(exclusive(lock.ConfigLock)))
}

// Every call that may change an object with a lock is checked, or needs the configuration's lock.
func TestCheckedCalls(t *testing.T) {
	for name := range checked {
		require.Contains(t, specs, name)
		require.NotEmpty(t, specs[name].busy, name)
	}
}
