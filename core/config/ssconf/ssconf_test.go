package ssconf

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/config/model"
)

const release = "3.0.2"

// recorded decodes a record.
func recorded(t *testing.T, name string, into any) {
	t.Helper()
	file, err := os.Open("../testdata/wconfd-objects.jsonl.gz")
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	data, err := io.ReadAll(unzipped)
	require.NoError(t, err)
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte(`{"name": "`+name+`"`)) {
			require.NoError(t, json.Unmarshal(line, into))
			return
		}
	}
	t.Fatal("no record " + name)
}

func base(t *testing.T) *model.Config {
	var r struct{ Config json.RawMessage }
	recorded(t, "_base", &r)
	c, err := model.Decode(r.Config)
	require.NoError(t, err)
	return c
}

// The values equal those that Ganeti's daemon sent to nodes.
func TestValuesAreGanetis(t *testing.T) {
	var sent struct {
		Sent []struct {
			Procedure string
			Body      []json.RawMessage
		}
	}
	recorded(t, "distribution-bodies", &sent)
	var want Values
	for _, s := range sent.Sent {
		if s.Procedure == "write_ssconf_files" {
			require.NoError(t, json.Unmarshal(s.Body[0], &want))
		}
	}
	c := base(t)
	e := c.Edit()
	for uuid, ip := range map[string]string{"1": "192.0.2.11", "2": "192.0.2.12", "3": "192.0.2.13"} {
		n, found := c.Nodes.Get("a0000000-0000-4000-8000-00000000000" + uuid)
		require.True(t, found)
		v := n.Value
		v.PrimaryIP, v.SecondaryIP = ip, ip
		model.Nodes.Put(e, v.UUID, v)
	}
	require.Equal(t, want, Of(e.Config(), release))

	var of struct{ Body []Values }
	recorded(t, "ssconf-of-config.data.json", &of)
	raw, err := os.ReadFile("../testdata/config.data.json")
	require.NoError(t, err)
	c, err = model.Decode(raw)
	require.NoError(t, err)
	require.Equal(t, of.Body[0], Of(c, release))
}

func TestFiles(t *testing.T) {
	var on struct{ Files map[string]string }
	recorded(t, "ssconf-files-on-disk", &on)
	files, err := Of(base(t), release).Files()
	require.NoError(t, err)
	require.Len(t, files, 34)
	contents := map[string]string{}
	for _, f := range files {
		contents[f.Name] = f.Content
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(on.Files)), slices.Collect(maps.Keys(contents)))
	require.Equal(t, "3.0.2\n", contents["ssconf_release_version"])
	require.Equal(t, "", contents["ssconf_hvparams_lxc"], "no lines")
	require.Equal(t, "", contents["ssconf_shared_file_storage_dir"], "one empty line")
	require.Equal(t, "a.b\nowner:me\n", contents["ssconf_cluster_tags"])

	long := Of(base(t), release)
	long["cluster_tags"] = []string{strings.Repeat("x", contentMax)}
	files, err = long.Files()
	require.EqualError(t, err, "ssconf value cluster_tags is 131073 bytes long, 131072 are allowed")
	require.Len(t, files, 33)
	for _, f := range files {
		require.Equal(t, contents[f.Name], f.Content, f.Name)
	}
}

func TestMasterOfNoNode(t *testing.T) {
	c := base(t)
	for master, want := range map[string]string{"": "NO MASTER", "node2": "node2.gold.example", "node": "NO MASTER", "node3.gold.example": "node3.gold.example"} {
		e := c.Edit()
		cluster := c.Cluster.Value
		cluster.MasterNode = master
		e.SetCluster(cluster)
		require.Equal(t, []string{want}, Of(e.Config(), release)["master_node"])
	}
}

func TestNicely(t *testing.T) {
	want := []string{"1", "2a", "10", "a", "a1", "a1b", "a2", "a10", "a010b", "b"}
	rapid.Check(t, func(t *rapid.T) {
		got := rapid.Permutation(want).Draw(t, "names")
		slices.SortFunc(got, Nicely)
		require.Equal(t, want, got)
	})
}

// Every key has a list for any configuration.
func TestAllKeysAlways(t *testing.T) {
	c := base(t)
	e := c.Edit()
	for uuid := range c.Nodes.All() {
		model.Nodes.Delete(e, uuid)
	}
	for uuid := range c.Networks.All() {
		model.Networks.Delete(e, uuid)
	}
	v := Of(e.Config(), release)
	require.Equal(t, Keys(), slices.Sorted(maps.Keys(v)))
	for key, lines := range v {
		require.NotNil(t, lines, key)
	}
}

// A change that Unchanged ignores changes no value, and it ignores the frequent changes of instances and disks.
func TestUnchanged(t *testing.T) {
	c := base(t)
	require.True(t, Unchanged(c, c))
	instances, disks := slices.Collect(maps.Keys(maps.Collect(c.Instances.All()))), slices.Collect(maps.Keys(maps.Collect(c.Disks.All())))
	nodes := slices.Collect(maps.Keys(maps.Collect(c.Nodes.All())))
	slices.Sort(instances)
	slices.Sort(disks)
	slices.Sort(nodes)
	name := rapid.SampledFrom([]string{"", "a.example", "b.example"})
	rapid.Check(t, func(t *rapid.T) {
		old := c
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			e := old.Edit()
			ignored := rapid.Bool().Draw(t, "ignored")
			switch {
			case ignored && rapid.Bool().Draw(t, "disk"):
				model.Disks.Delete(e, rapid.SampledFrom(disks).Draw(t, "uuid"))
			case ignored:
				if i, found := old.Instances.Get(rapid.SampledFrom(instances).Draw(t, "uuid")); found {
					v := i.Value
					v.Serial++
					model.Instances.Put(e, v.UUID, v)
				}
			case rapid.Bool().Draw(t, "node"):
				if n, found := old.Nodes.Get(rapid.SampledFrom(nodes).Draw(t, "uuid")); found {
					v := n.Value
					v.Offline = !v.Offline
					model.Nodes.Put(e, v.UUID, v)
				}
			case rapid.Bool().Draw(t, "remove"):
				model.Instances.Delete(e, rapid.SampledFrom(instances).Draw(t, "uuid"))
			default:
				if i, found := old.Instances.Get(rapid.SampledFrom(instances).Draw(t, "uuid")); found {
					v := i.Value
					v.Name = model.Some(name.Draw(t, "name"))
					model.Instances.Put(e, v.UUID, v)
				}
			}
			next := e.Config()
			if ignored {
				require.True(t, Unchanged(old, next))
			}
			if Unchanged(old, next) {
				require.Equal(t, Of(old, release), Of(next, release))
			}
			old = next
		}
	})
}
