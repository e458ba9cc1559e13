package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTags(t *testing.T) {
	d, err := DecodeDocument([]byte(`{"cluster": {"tags": ["c"]}, "nodes": {"n": {"name": "node1.example", "tags": ["n"]}},
		"nodegroups": {"g": {"name": "default", "tags": ["g"]}}, "instances": {"i": {"name": "mail", "tags": null}}, "networks": {"w": {"name": "lan", "tags": []}}}`))
	require.NoError(t, err)
	for _, c := range [][3]string{
		{"cluster", "", `["c"]`}, {"cluster", "whatever", `["c"]`}, {"node", "node1.example", `["n"]`}, {"node", "node1", `["n"]`}, {"node", "n", `["n"]`},
		{"nodegroup", "default", `["g"]`}, {"instance", "mail", `[]`}, {"network", "lan", `[]`},
	} {
		require.True(t, IsTagKind(c[0]))
		tags, err := d.Tags(c[0], c[1])
		require.NoError(t, err)
		require.JSONEq(t, c[2], string(tags))
	}
	_, err = d.Tags("nodegroup", "node1.example")
	require.Equal(t, &NoSuchObject{KindGroup, "node1.example"}, err)
	require.EqualError(t, err, `There is no group "node1.example"`)
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

	for _, data := range []string{`[]`, `{"nodes": []}`, `{"cluster": {}, "instances": {"i": 5}}`} {
		_, err := DecodeDocument([]byte(data))
		require.Error(t, err, data)
	}
}
