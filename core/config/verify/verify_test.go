package verify

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
)

// Findings have a fixed order, and incremental verification equals complete verification.
func TestOrder(t *testing.T) {
	raw, err := os.ReadFile("../testdata/config.data.json")
	require.NoError(t, err)
	c, err := model.Decode(raw)
	require.NoError(t, err)
	require.Empty(t, Of(c).Texts())

	e := c.Edit()
	cluster := c.Cluster.Value
	cluster.EnabledHypervisors, cluster.EnabledDiskTemplates, cluster.MasterNode = []string{"lxc", "xen-pvm"}, nil, ""
	cluster.HVParams = nil
	e.SetCluster(cluster)
	for uuid := range c.Groups.All() {
		model.Groups.Delete(e, uuid)
	}
	model.Instances.Put(e, "i", model.Instance{Forthcoming: true, PrimaryNode: model.Some("gone"), Disks: []string{"d1", "d0"}})
	model.Networks.Put(e, "net", model.Network{Name: "n"})
	next, touched := e.Commit(1)
	want := []string{
		"hypervisor parameters missing for the enabled hypervisor(s) xen-pvm,lxc",
		"enabled disk templates list doesn't have any entries",
		"cluster has invalid primary node ",
		"instances 'i' is indexed by wrong UUID 'i'",
		"network 'n' is indexed by wrong UUID 'net'",
		"node 'node1.gnt.example' references a non-existing nodegroup UUID '6e58a036-c375-4075-a1cb-b9b4585f9260'",
		"instance 'i' references a non-existing primary node UUID 'gone'",
		"instance 'i' references a non-existing disks UUID 'd1'",
		"instance 'i' references a non-existing disks UUID 'd0'",
	}
	require.Equal(t, want, Of(next).Texts())
	require.Equal(t, want, Of(c).After(c, next, touched).Texts())
}
