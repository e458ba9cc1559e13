package config

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
)

// A real server gave this answer for the cluster with that configuration.
func TestWhatARealServerSaysOfACluster(t *testing.T) {
	want, err := os.ReadFile("testdata/query-cluster-info.json")
	require.NoError(t, err)
	info, err := Info(golden(t))
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

func TestANewClusterHasAllThatClientsRead(t *testing.T) {
	info, err := Info(newConfig(t))
	require.NoError(t, err)
	encoded, err := json.Marshal(info)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(encoded, &got))
	require.ElementsMatch(t, infoKeys(t), keys(got))
	require.NotNil(t, got["hvparams"])
	require.Nil(t, got["volume_group_name"], "the configuration lacks it")

	e := newConfig(t).Edit()
	cluster := e.Config().Cluster.Value
	cluster.IPFamily, cluster.EnabledHypervisors, cluster.VolumeGroup = 10, nil, model.Some("xenvg")
	e.SetCluster(cluster)
	changed, _ := e.Commit(1)
	info, err = Info(changed)
	require.NoError(t, err)
	require.Equal(t, 6, info["primary_ip_version"])
	require.Nil(t, info["default_hypervisor"])
	require.JSONEq(t, `"xenvg"`, string(info["volume_group_name"].(json.RawMessage)))

	cluster.MasterNode = ""
	e.SetCluster(cluster)
	changed, _ = e.Commit(1)
	_, err = Info(changed)
	require.ErrorContains(t, err, "not among the nodes")
}
