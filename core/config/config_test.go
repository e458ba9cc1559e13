package config

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
)

var identity = Identity{
	ClusterName: "demo", ClusterUUID: "84f98d99-da71-4c99-8d12-47a01a94646e",
	NodeName: "node1.example", NodeUUID: "e62ba419-5d3d-4c4a-b306-58b4ff0d7218", NodeIP: "127.0.0.1",
	GroupUUID: "6e58a036-c375-4075-a1cb-b9b4585f9260", Now: 1795177561.5,
}

// Ganeti's clients read keys unconditionally: a new cluster must have every key of a real cluster, at every level whose
// keys are not identities.
func TestANewClusterHasEveryKeyOfARealOne(t *testing.T) {
	golden, err := os.ReadFile("testdata/config.data.json")
	require.NoError(t, err)
	c, err := New(identity)
	require.NoError(t, err)
	var real, mine map[string]any
	require.NoError(t, json.Unmarshal(golden, &real))
	require.NoError(t, json.Unmarshal(c.JSON(), &mine))

	require.ElementsMatch(t, keys(real), keys(mine))
	require.ElementsMatch(t, keys(real["cluster"].(map[string]any)), keys(mine["cluster"].(map[string]any)))
	for _, table := range []string{"nodes", "nodegroups"} {
		require.ElementsMatch(t, keys(only(t, real[table])), keys(only(t, mine[table])), table)
	}
}

func only(t *testing.T, table any) map[string]any {
	require.Len(t, table, 1)
	for _, row := range table.(map[string]any) {
		return row.(map[string]any)
	}
	return nil
}

func keys(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	return names
}

func newConfig(t *testing.T) *model.Config {
	c, err := New(identity)
	require.NoError(t, err)
	return c
}

func golden(t *testing.T) *model.Config {
	data, err := os.ReadFile("testdata/config.data.json")
	require.NoError(t, err)
	c, err := model.Decode(data)
	require.NoError(t, err)
	return c
}

func TestClusterOfWhatNewMakesAndWhatGanetiWrites(t *testing.T) {
	got, err := ClusterOf(newConfig(t))
	require.NoError(t, err)
	require.Equal(t, Cluster{Name: "demo", MasterName: "node1.example", MaxRunningJobs: 20}, got)
	got, err = ClusterOf(golden(t))
	require.NoError(t, err)
	require.Equal(t, Cluster{Name: "cluster.gnt.example", MasterName: "node1.gnt.example", MaxRunningJobs: 20}, got)
}

func TestClusterOfNamesWhatIsWrong(t *testing.T) {
	for wanted, damage := range map[string]func(string) string{
		"format 2150000":         func(s string) string { return strings.Replace(s, `"version":3000000`, `"version":2150000`, 1) },
		"is not among the nodes": func(s string) string { return strings.Replace(s, `"nodes":{"e62`, `"nodes":{"f62`, 1) },
		"max_running_jobs is 0":  func(s string) string { return strings.Replace(s, `"max_running_jobs":20`, `"max_running_jobs":0`, 1) },
	} {
		c, err := model.Decode([]byte(damage(string(newConfig(t).JSON()))))
		require.NoError(t, err)
		_, err = ClusterOf(c)
		require.ErrorContains(t, err, wanted)
	}
}
