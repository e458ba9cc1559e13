package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSetMaster(t *testing.T) {
	data, err := New(Identity{ClusterName: "c", NodeName: "n1", NodeUUID: "u1", NodeIP: "10.0.0.1", GroupUUID: "g", Now: 1})
	require.NoError(t, err)
	same, err := SetMaster(data, 2, Master{Name: "n1", UUID: "other", IP: "10.0.0.1"})
	require.NoError(t, err)
	require.Equal(t, string(data), string(same), "it is the master already, under the uuid that it has")

	second, err := SetMaster(data, 2, Master{Name: "n2", UUID: "u2", IP: "10.0.0.2"})
	require.NoError(t, err)
	cluster, err := Decode(second)
	require.NoError(t, err)
	require.Equal(t, "n2", cluster.MasterName)
	doc, err := DecodeDocument(second)
	require.NoError(t, err)
	require.Len(t, doc.Nodes, 2)
	require.Equal(t, "g", doc.Nodes["u2"].Text("group"))
	require.Equal(t, "10.0.0.2", doc.Nodes["u2"].Text("primary_ip"))
	require.True(t, doc.Nodes["u2"].Flag("master_candidate"))

	back, err := SetMaster(second, 3, Master{Name: "n1", UUID: "other", IP: "10.0.0.1"})
	require.NoError(t, err)
	doc, err = DecodeDocument(back)
	require.NoError(t, err)
	require.Len(t, doc.Nodes, 2)
	require.Equal(t, "u1", doc.Cluster.Text("master_node"))

	for _, bad := range []string{"", "[]", `{"nodes": 3}`} {
		_, err := SetMaster([]byte(bad), 1, Master{Name: "n1"})
		require.Error(t, err)
	}
}
