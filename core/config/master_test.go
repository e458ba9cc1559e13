package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	. "lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
)

func TestSetMaster(t *testing.T) {
	c := configtest.New(t)
	same, touched := SetMaster(c, 2, Master{Name: "node1", UUID: "other", IP: "10.0.0.1"})
	require.Same(t, c, same, "it is the master already, under the uuid that it has")
	require.Empty(t, touched)

	second, touched := SetMaster(c, 2, Master{Name: "n2", UUID: "u2", IP: "10.0.0.2"})
	require.Equal(t, []model.Touched{{Kind: "nodes", UUID: "u2"}, {Kind: "cluster"}}, touched)
	cluster, err := ClusterOf(second)
	require.NoError(t, err)
	require.Equal(t, "n2", cluster.MasterName)
	require.Equal(t, 2, second.Nodes.Len())
	require.Equal(t, c.Serial+1, second.Serial)
	node, found := second.Nodes.Get("u2")
	require.True(t, found)
	require.Equal(t, "g", node.Value.Group)
	require.Equal(t, "10.0.0.2", node.Value.PrimaryIP)
	require.True(t, node.Value.MasterCandidate)
	require.Equal(t, second.JSON(), configtest.Decode(t, second.JSON()).JSON(), "the new node has all values")

	back, touched := SetMaster(second, 3, Master{Name: "node1", UUID: "other", IP: "10.0.0.1"})
	require.Equal(t, 2, back.Nodes.Len())
	require.Equal(t, "n", back.Cluster.Value.MasterNode)
	require.Equal(t, []model.Touched{{Kind: "cluster"}}, touched)
}
