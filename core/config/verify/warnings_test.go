package verify_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/config/verify"
)

// broken are changes that break one rule each, with the warning.
var broken = []struct {
	change func(e *model.Edit)
	want   string
}{
	{cluster(func(c *model.Cluster) {
		c.NicParams[0].Value = model.NicParams{Mode: model.Some("bridged"), Link: model.Some("")}
	}),
		"cluster has invalid nicparams: Missing bridged NIC link"},
	{nic(func(n *model.NIC) { n.NicParams = model.NicParams{Mode: model.Some("bridged"), Link: model.Some("")} }),
		"instance inst1.gold.example nic 1 has invalid nicparams: Missing bridged NIC link"},
	{policy(func(p *model.IPolicy) { p.MinMax = model.Some([]model.MinMax{}) }),
		"cluster has invalid instance policy: Empty minmax specifications"},
	{policy(func(p *model.IPolicy) { p.MinMax.Value[0].Min.DiskCount = model.Some(int64(17)) }),
		"cluster has invalid instance policy: Invalid specification of min/max values for disk-count: 17/16"},
	{policy(func(p *model.IPolicy) { p.Std.Value.CPUCount = model.Some(int64(9)) }),
		"cluster has invalid instance policy: Invalid std specifications"},
	{policy(func(p *model.IPolicy) { p.DiskTemplates = model.Some([]string{}) }),
		"cluster has invalid instance policy: Instance policy must contain at least one disk template"},
	{group(func(g *model.NodeGroup) {
		spec := func(v int64) model.ISpec {
			return model.ISpec{MemorySize: model.Some(v), DiskSize: model.Some(v), DiskCount: model.Some(v), CPUCount: model.Some(v), NICCount: model.Some(v), SpindleUse: model.Some(v)}
		}
		g.IPolicy.MinMax = model.Some([]model.MinMax{{Min: spec(2), Max: spec(1)}})
	}), "group default has invalid instance policy: Invalid specification of min/max values for memory-size: 2/1"},
	{cluster(func(c *model.Cluster) {
		c.DiskParams = model.Dict[model.Params]{{Key: "rbd", Value: model.Params{{Key: "access", Value: model.JSON(`"space"`)}}}}
	}), "Invalid value of 'rbd:access': 'space' (expected one of kernelspace, userspace)"},
	{cluster(func(c *model.Cluster) {
		c.DiskParams = model.Dict[model.Params]{{Key: "gluster", Value: model.Params{{Key: "access", Value: model.JSON(`5`)}}}}
	}), "Invalid value of 'gluster:access': '5' (expected one of kernelspace, userspace)"},
	{disk(configtest.PlainDisk, func(d *model.Disk) { d.Nodes = []string{"gone"} }),
		"instance 'inst1.gold.example' has invalid secondary node 'gone'"},
	{disk(configtest.DRBDDisk, func(d *model.Disk) { d.LogicalID.Value.B = "gone" }),
		"instance 'inst1.gold.example' has invalid secondary node 'gone'"},
	{nic(func(n *model.NIC) { n.MAC = "aa:00:00:11:11:11" }),
		"instance 'inst1.gold.example' has NIC 1 mac aa:00:00:11:11:11 duplicate"},
	{disk(configtest.PlainDisk, func(d *model.Disk) { d.IVName = "disk/0" }),
		"Instance 'inst1.gold.example' has wrongly named disks: name of disk 1 should be 'disk/1', but is 'disk/0'"},
	{cluster(func(c *model.Cluster) { c.PortPool = append(c.PortPool, 11005, 11001) }),
		"tcp/udp port 11001 has duplicates: inst1.gold.example/drbd disk 0, cluster/port marked as free"},
	{cluster(func(c *model.Cluster) { c.PortPool = append(c.PortPool, 11005) }),
		"tcp/udp port 11005 has duplicates: inst1.gold.example/network port, cluster/port marked as free"},
	{cluster(func(c *model.Cluster) { c.HighestUsedPort = 11004 }),
		"Highest used port mismatch, saved 11004, computed 11005"},
	{node(func(n *model.Node) { n.MasterCandidate = false }), "Master node is not a master candidate"},
	{node(func(n *model.Node) { n.MasterCandidate = false }), "Not enough master candidates: actual 2, target 3"},
	{node(func(n *model.Node) { n.Drained = true }),
		"Node node1.gold.example state is invalid: master_candidate=True, drain=True, offline=False"},
	{node(func(n *model.Node) { n.NDParams.ExclusiveStorage = model.Some(false) }),
		"Node 'node1.gold.example' has some global parameters set: exclusive_storage"},
	{group(func(g *model.NodeGroup) { g.Name = "B0000000-0000-4000-8000-000000000001" }),
		"node group 'B0000000-0000-4000-8000-000000000001' (uuid: 'b0000000-0000-4000-8000-000000000001') has uuid-like name"},
	{group(func(g *model.NodeGroup) { g.Name = "alpha" }), "duplicate node group name 'alpha'"},
	{node(func(n *model.Node) { n.SecondaryIP = "127.0.0.3" }),
		"IP address 127.0.0.3 is used by multiple owners: node:node1.gold.example/secondary, node:node2.gold.example/primary"},
	{cluster(func(c *model.Cluster) { c.MasterIP, c.MasterNetdev = "127.0.0.2", "eth0" }),
		"IP address 127.0.0.2 is used by multiple owners: cluster_ip, node:node1.gold.example/primary"},
	{nic(func(n *model.NIC) {
		n.IP, n.Network = model.Some("10.0.0.2"), model.Some("e0000000-0000-4000-8000-000000000001")
	}),
		"IP address route:main/10.0.0.2/e0000000-0000-4000-8000-000000000001 is used by multiple owners: instance:inst1.gold.example/nic:0, instance:inst1.gold.example/nic:1"},
}

func cluster(change func(c *model.Cluster)) func(*model.Edit) {
	return func(e *model.Edit) { configtest.Cluster(e, change) }
}

func policy(change func(p *model.IPolicy)) func(*model.Edit) {
	return cluster(func(c *model.Cluster) { change(&c.IPolicy) })
}

func node(change func(n *model.Node)) func(*model.Edit) {
	return func(e *model.Edit) { configtest.Put(e, model.Nodes, configtest.Node1, change) }
}

func group(change func(g *model.NodeGroup)) func(*model.Edit) {
	return func(e *model.Edit) { configtest.Put(e, model.Groups, configtest.Group, change) }
}

func disk(uuid string, change func(d *model.Disk)) func(*model.Edit) {
	return func(e *model.Edit) { configtest.Put(e, model.Disks, uuid, change) }
}

// nic changes the second NIC of inst1.
func nic(change func(n *model.NIC)) func(*model.Edit) {
	return func(e *model.Edit) {
		configtest.Put(e, model.Instances, configtest.Inst1, func(i *model.Instance) { change(&i.NICs[1]) })
	}
}

// sound is the test configuration without its warnings. It has a third master candidate.
func sound() *model.Config {
	c := configtest.Config()
	next, _ := configtest.Change(c, 5, func(e *model.Edit) {
		configtest.Put(e, model.Nodes, "a0000000-0000-4000-8000-000000000003", func(n *model.Node) { n.MasterCandidate = true })
	})
	return next
}

func TestWarnings(t *testing.T) {
	require.Equal(t, []string{"Not enough master candidates: actual 2, target 3"}, verify.Warnings(configtest.Config()))
	require.Empty(t, verify.Warnings(sound()))
	for _, b := range broken {
		c, touched := configtest.Change(sound(), 5, b.change)
		require.NotEmpty(t, touched, b.want)
		require.Contains(t, verify.Warnings(c), b.want)
		require.Empty(t, verify.Of(c).Texts(), b.want)
	}
}

// A cluster of lockstep has no address of its own, and its nodes can lack addresses.
func TestOwnCluster(t *testing.T) {
	for _, ip := range []string{"", "127.0.0.1"} {
		c, err := config.New(config.Identity{ClusterName: "c", NodeName: "n1", NodeIP: ip, NodeUUID: "u1", GroupUUID: "g1", ClusterUUID: "c1"})
		require.NoError(t, err)
		require.Empty(t, verify.Of(c).Texts())
		require.Empty(t, verify.Warnings(c))
	}
}

// Rules that Of has are not repeated, and an inconsistent configuration can be checked.
func TestDanglingReferences(t *testing.T) {
	c, _ := configtest.Change(sound(), 5, func(e *model.Edit) {
		model.Nodes.Delete(e, configtest.Node1)
		model.Disks.Delete(e, configtest.PlainDisk)
		model.Groups.Delete(e, configtest.Group)
		configtest.Cluster(e, func(c *model.Cluster) { c.NicParams, c.MasterNode = nil, "" })
	})
	require.Len(t, verify.Of(c).Texts(), 4)
	require.Empty(t, verify.Warnings(c))
}

// No finding has a secret.
func TestFindingsHaveNoSecrets(t *testing.T) {
	for _, b := range broken {
		c, _ := configtest.Change(configtest.Config(), 5, b.change)
		texts, err := json.Marshal(append(verify.Of(c).Texts(), verify.Warnings(c)...))
		require.NoError(t, err)
		for _, secret := range configtest.Secrets {
			require.NotContains(t, string(texts), secret)
		}
	}
}

// The cost is linear: a thousand instances with the same MAC address and ports have one warning each.
func TestManyDuplicates(t *testing.T) {
	c, _ := configtest.Change(sound(), 5, func(e *model.Edit) {
		for i := range 1000 {
			model.Instances.Put(e, fmt.Sprint(i), model.Instance{Forthcoming: true, NetworkPort: model.Some(int64(11000)), NICs: []model.NIC{{MAC: "m"}}})
		}
	})
	texts := verify.Warnings(c)
	require.Len(t, texts, 999+1)
	require.True(t, strings.HasPrefix(texts[999], "tcp/udp port 11000 has duplicates: "))
}
