package config_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	. "lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
)

func handmadeResources(t *testing.T) *Resources {
	data, err := os.ReadFile("testdata/resources.json")
	require.NoError(t, err)
	return ResourcesOf(configtest.Complete(t, data))
}

func TestWhatLiesBehindAnInstance(t *testing.T) {
	r := handmadeResources(t)
	for _, want := range []Instance{
		{Name: "mail.example", UUID: "mail-uuid", Template: "drbd", Primary: "n1-uuid",
			Nodes: []string{"n1-uuid", "n2-uuid"}, Groups: []string{"east-uuid"}, Networks: []string{"lan-uuid"}},
		{Name: "db.example", UUID: "db-uuid", Template: "drbd", Primary: "n3-uuid", Nodes: []string{"n3-uuid", "n4-uuid"},
			Groups: []string{"east-uuid", "west-uuid"}, Networks: []string{"dmz-uuid", "lan-uuid"}},
		{Name: "shop.example", UUID: "shop-uuid", Template: "rbd", Primary: "n4-uuid", Nodes: []string{"n4-uuid"}, Groups: []string{"west-uuid"}},
		{Name: "new.example", UUID: "new-uuid", Template: "diskless", Primary: "n5-uuid", Nodes: []string{"n5-uuid"}, Groups: []string{"west-uuid"}},
		{UUID: "idea-uuid", Template: "diskless"},
	} {
		for _, name := range []string{want.Name, want.UUID} {
			if got, known := r.Instance(name); name != "" {
				require.True(t, known, name)
				require.Equal(t, want, *got)
			}
		}
	}
}

func TestWhatLiesBehindANodeAndAGroup(t *testing.T) {
	r := handmadeResources(t)
	require.Equal(t, "n1-uuid", r.Master())
	for _, name := range []string{"n3.example", "n3", "n3-uuid"} {
		got, known := r.Node(name)
		require.True(t, known, name)
		require.Equal(t, []string{"n3.example", "n3-uuid", "east-uuid"}, []string{got.Name, got.UUID, got.Group})
		require.Equal(t, []string{"build.example", "db.example"}, got.Primaries())
		require.Empty(t, got.Secondaries())
	}
	n4, _ := r.Node("n4")
	require.Equal(t, []string{"db.example"}, n4.Secondaries())
	for _, name := range []string{"east", "east-uuid"} {
		got, known := r.Group(name)
		require.True(t, known, name)
		require.Equal(t, []string{"east", "east-uuid"}, []string{got.Name, got.UUID})
		require.Equal(t, []string{"n1-uuid", "n2-uuid", "n3-uuid"}, got.Nodes())
		require.Equal(t, []string{"build.example", "db.example", "mail.example"}, got.Instances())
		require.Equal(t, []string{"n1-uuid", "n2-uuid", "n3-uuid", "n4-uuid"}, got.InstanceNodes())
		require.Equal(t, []string{"east-uuid", "west-uuid"}, got.InstanceGroups())
	}
	lan, known := r.Network("lan")
	require.True(t, known)
	require.Equal(t, Network{Name: "lan", UUID: "lan-uuid"}, *lan)
}

func TestShortNames(t *testing.T) {
	r := ResourcesOf(configtest.Complete(t, []byte(`{"nodes": {"1": {"name": "a.x.example", "group": "g"}, "2": {"name": "a.y.example", "group": "g"},
		"3": {"name": "a.x.test", "group": "g"}, "4": {"name": "b.x.example", "group": "g"}, "5": {"name": "b", "group": "g"}}}`)))
	for name, uuid := range map[string]string{
		"a": "", "a.x": "", "a.y": "2", "a.x.example": "1", "a.y.exam": "", "b": "5", "b.x": "4", "": "", ".": "",
	} {
		n, known := r.Node(name)
		require.Equal(t, uuid != "", known, name)
		if known {
			require.Equal(t, uuid, n.UUID, name)
		}
	}
}

func TestResourcesOfARealAndOfANewCluster(t *testing.T) {
	golden, err := os.ReadFile("testdata/config.data.json")
	require.NoError(t, err)
	for name, c := range map[string]*model.Config{"node1.gnt": configtest.Decode(t, golden), "node1": configtest.New(t)} {
		r := ResourcesOf(c)
		n, known := r.Node(name)
		require.True(t, known, name)
		require.Equal(t, r.Master(), n.UUID)
		g, known := r.Group("default")
		require.True(t, known)
		require.Equal(t, []string{n.UUID}, g.Nodes())
	}
}

func TestNoResources(t *testing.T) {
	var none *Resources
	require.Empty(t, none.Master())
	_, node := none.Node("n")
	_, group := none.Group("n")
	_, instance := none.Instance("n")
	_, network := none.Network("n")
	require.False(t, node || group || instance || network)
}
