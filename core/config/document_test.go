package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	. "lockstep/core/config"
	"lockstep/core/config/configtest"
)

func TestTags(t *testing.T) {
	d := DocumentOf(configtest.Complete(t, []byte(`{"cluster": {"tags": ["c"]}, "nodes": {"n": {"name": "node1.example", "group": "g", "tags": ["n"]}},
		"nodegroups": {"g": {"name": "default", "tags": ["g"]}}, "instances": {"i": {"name": "mail", "tags": null}}, "networks": {"w": {"name": "lan", "tags": []}}}`)))
	for _, c := range [][3]string{
		{"cluster", "", `["c"]`}, {"cluster", "whatever", `["c"]`}, {"node", "node1.example", `["n"]`}, {"node", "node1", `["n"]`}, {"node", "n", `["n"]`},
		{"nodegroup", "default", `["g"]`}, {"instance", "mail", `[]`}, {"network", "lan", `[]`},
	} {
		require.True(t, IsTagKind(c[0]))
		tags, err := d.Tags(c[0], c[1])
		require.NoError(t, err)
		require.JSONEq(t, c[2], string(tags))
	}
	_, err := d.Tags("nodegroup", "node1.example")
	require.Equal(t, &NoSuchObject{KindGroup, "node1.example"}, err)
	require.EqualError(t, err, "NodeGroup name node1.example not found")
	require.False(t, IsTagKind("group"))
}

func TestObjectsAreContentWithAnything(t *testing.T) {
	o := Object{"text": []byte(`"t"`), "number": []byte(`5`), "null": []byte(` null`), "flag": []byte(`true`), "inner": []byte(`{"a": 1}`), "list": []byte(`[1, 2]`)}
	require.Equal(t, "t", o.Text("text"))
	require.Empty(t, o.Text("number")+o.Text("null")+o.Text("nosuch"))
	require.True(t, o.Flag("flag"))
	require.False(t, o.Flag("text") || o.Flag("null") || o.Flag("nosuch"))
	require.True(t, o.Has("number"))
	require.False(t, o.Has("null") || o.Has("nosuch"))
	require.True(t, o.Object("inner").Has("a"))
	require.Empty(t, o.Object("list"))
	require.Empty(t, o.Object("null"))
	require.Len(t, o.List("list"), 2)
	require.Nil(t, o.List("inner"))

	var none Object
	require.False(t, none.Has("a") || none.Flag("a"))
	require.Empty(t, none.Text("a"))
	require.Empty(t, none.Object("a"))
	require.Equal(t, `{"a":1}`, string(Merged(none, o.Object("inner")).JSON()))
}

func TestObjectsOfADocument(t *testing.T) {
	d := DocumentOf(configtest.Complete(t, []byte(`{"nodes": {"n": {"name": "node1", "group": "g"}}, "networks": {"w": {"name": "lan"}}, "nodegroups": {"g": {"name": "east"}},
		"instances": {"i": {"name": "mail", "disks": ["d", "gone"], "nics": [{"network": "w"}]}}, "disks": {"d": {"dev_type": "plain", "logical_id": ["vg", "lv"]}}}`)))
	for kind, name := range map[string]string{KindNode: "node1", KindGroup: "east", KindInstance: "mail", KindNetwork: "lan"} {
		uuid, err := d.Find(kind, name)
		require.NoError(t, err)
		require.Equal(t, name, d.Get(kind, uuid).Text("name"))
		require.Equal(t, map[string]Object{uuid: d.Get(kind, uuid)}, d.All(kind))
		require.Empty(t, d.Get(kind, "gone"))
	}
	disks := d.DisksOf(d.Get(KindInstance, "i"))
	require.Len(t, disks, 2)
	require.Equal(t, "d", disks[0].Text("uuid"))
	require.Empty(t, disks[1])
	require.Equal(t, []string{"mail"}, d.InstancesIn("w"))
	require.Empty(t, d.ConnectedGroups("w"))
	require.Nil(t, d.All("lock"))
	require.Nil(t, d.Get("lock", "n"))
}
