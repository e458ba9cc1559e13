package config

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A real server gave this answer for the cluster with that configuration.
func TestWhatARealServerSaysOfACluster(t *testing.T) {
	data, err := os.ReadFile("testdata/config.data.json")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/query-cluster-info.json")
	require.NoError(t, err)
	info, err := Info(data)
	require.NoError(t, err)
	got, err := json.Marshal(info)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}

// infoKeys are the keys that gnt-cluster info reads unconditionally (queue.md 1.8).
func infoKeys(t *testing.T) []string {
	golden, err := os.ReadFile("testdata/query-cluster-info.json")
	require.NoError(t, err)
	var info map[string]any
	require.NoError(t, json.Unmarshal(golden, &info))
	return keys(info)
}

func TestANewAndABareClusterHaveAllThatClientsRead(t *testing.T) {
	mine, err := New(identity)
	require.NoError(t, err)
	for _, data := range [][]byte{mine, []byte(`{"version": 3000000, "nodes": {"n": {"name": "node1"}},
		"cluster": {"cluster_name": "c", "master_node": "n", "max_running_jobs": 1, "primary_ip_family": 10, "enabled_hypervisors": []}}`)} {
		info, err := Info(data)
		require.NoError(t, err)
		encoded, err := json.Marshal(info)
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(encoded, &got))
		require.ElementsMatch(t, infoKeys(t), keys(got))
		require.NotNil(t, got["hvparams"])
	}
	info, err := Info([]byte(`{"version": 3000000, "nodes": {"n": {"name": "node1"}}, "cluster": {"cluster_name": "c",
		"master_node": "n", "max_running_jobs": 7, "primary_ip_family": 10, "enabled_hypervisors": [], "volume_group_name": "xenvg"}}`))
	require.NoError(t, err)
	require.Equal(t, 6, info["primary_ip_version"])
	require.Nil(t, info["default_hypervisor"])
	require.Equal(t, "node1", info["master"])
	require.JSONEq(t, `"xenvg"`, string(info["volume_group_name"].(json.RawMessage)))
	require.JSONEq(t, `7`, string(info["max_running_jobs"].(json.RawMessage)))

	_, err = Info([]byte(`{}`))
	require.ErrorContains(t, err, "not a cluster configuration")
}
