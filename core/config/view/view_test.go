package view_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/configtest"
	"lockstep/core/config/history"
	"lockstep/core/config/model"
	"lockstep/core/config/redact"
	"lockstep/core/config/view"
)

func TestShow(t *testing.T) {
	c := configtest.Config()
	for _, test := range []struct{ path, complete, want string }{
		{"instances/inst1/hvparams", "instances/inst1.gold.example/hvparams", `{"acpi":false}`},
		{"/instance/inst1.gold.example/hvparams/acpi/", "instances/inst1.gold.example/hvparams/acpi", `false`},
		{"instances/" + configtest.Inst1 + "/nics/1/mac", "instances/inst1.gold.example/nics/1/mac", `"aa:00:00:11:11:12"`},
		{"instances/inst1/osparams_private", "instances/inst1.gold.example/osparams_private", `{"root_password":"<redacted>"}`},
		{"instances/inst1/osparams_private/root_password", "instances/inst1.gold.example/osparams_private/root_password", `"<redacted>"`},
		{"disks/" + configtest.DRBDDisk + "/logical_id/5", "disks/" + configtest.DRBDDisk + "/logical_id/5", `"<redacted>"`},
		{"disks/data/size", "disks/data/size", `1024`},
		{"group/alpha/alloc_policy", "nodegroups/alpha/alloc_policy", `"last_resort"`},
		{"cluster/cluster_name", "cluster/cluster_name", `"gold.example"`},
		{"cluster/osparams_private_cluster", "cluster/osparams_private_cluster", `{"noop":{"license":"<redacted>"}}`},
		{"serial_no", "serial_no", "50"},
		{"version", "version", "3000000"},
		{"filters/f0000000-0000-4000-8000-000000000001/action", "filters/f0000000-0000-4000-8000-000000000001/action", `["RATE_LIMIT",2]`},
	} {
		if test.path == "serial_no" {
			test.want = string(must(json.Marshal(c.Serial)))
		}
		part, err := view.Show(c, test.path, view.AsTable, redact.New())
		require.NoError(t, err)
		require.Equal(t, test.complete, part.Path)
		require.Equal(t, test.want, string(part.Value), test.path)
		require.Nil(t, part.Table)
		require.Equal(t, c.Serial, part.Serial)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestNoSuchPart(t *testing.T) {
	c, _ := configtest.Change(configtest.Config(), 5, func(e *model.Edit) {
		configtest.Put(e, model.Networks, "e0000000-0000-4000-8000-000000000004", func(n *model.Network) { n.Name = "net1" })
		configtest.Put(e, model.Instances, configtest.Inst2, func(i *model.Instance) { i.Name = model.Some("inst1.other") })
	})
	for path, want := range map[string]string{
		"nowhere":              "nowhere: the configuration has no such part; it has cluster, nodes, nodegroups, instances, networks, disks, filters",
		"instances/gone":       "instances/gone: there is no object with this name or uuid",
		"instances/inst1":      "instances/inst1: 2 objects have this name: " + configtest.Inst1 + ", " + configtest.Inst2,
		"networks/net1/name":   "networks/net1: 2 objects have this name: e0000000-0000-4000-8000-000000000001, e0000000-0000-4000-8000-000000000004",
		"cluster/nowhere":      "nowhere: the object has no such value",
		"cluster/tags/2":       "tags/2: the object has no such value",
		"cluster/tags/x":       "tags/x: the object has no such value",
		"cluster/mac_prefix/x": "mac_prefix/x: the object has no such value",
		"instances//name":      "instances/: there is no object with this name or uuid",
	} {
		_, err := view.Show(c, path, view.AsJSON, redact.New())
		var missing *view.NotFoundError
		require.True(t, errors.As(err, &missing), path)
		require.EqualError(t, err, want)
	}
}

func TestTables(t *testing.T) {
	c := configtest.Config()
	for path, want := range map[string]string{
		"": "Part|Content;cluster|gold.example;nodes|4;nodegroups|2;instances|3;networks|4;disks|4;filters|1",
		"nodes": "Name|Address|Group|Role|UUID;node1.gold.example|127.0.0.2|default|master|a0000000-0000-4000-8000-000000000001;" +
			"node2.gold.example|127.0.0.3|default|candidate|a0000000-0000-4000-8000-000000000002;" +
			"node10.gold.example|127.0.0.4|alpha|regular|a0000000-0000-4000-8000-000000000003;" +
			"node3.gold.example|127.0.0.5|alpha|offline|a0000000-0000-4000-8000-000000000004",
		"groups": "Name|Policy|Nodes|UUID;default|preferred|2|b0000000-0000-4000-8000-000000000001;alpha|last_resort|2|b0000000-0000-4000-8000-000000000002",
		"instances": "Name|State|Primary node|OS|Hypervisor|Disks|NICs|UUID;" +
			"inst1.gold.example|up|node1.gold.example|noop+default|fake|2|2|c0000000-0000-4000-8000-000000000001;" +
			"inst2.gold.example|down|node2.gold.example|noop+default|fake|0|0|c0000000-0000-4000-8000-000000000002;" +
			"inst3.gold.example|forthcoming||||0|1|c0000000-0000-4000-8000-000000000003",
		"networks": "Name|Network|Gateway|Reserved|UUID;net1|10.0.0.0/29|10.0.0.1|4|e0000000-0000-4000-8000-000000000001;" +
			"net2|10.0.1.0/30||0|e0000000-0000-4000-8000-000000000002;net10|10.0.2.0/31||0|e0000000-0000-4000-8000-000000000003;" +
			"net3|10.1.0.0/15||0|e0000000-0000-4000-8000-000000000004",
		"disks": "UUID|Instance|Disk|Type|MiB|Name;d0000000-0000-4000-8000-000000000001|inst1.gold.example|disk/0|drbd|1024|;" +
			"d0000000-0000-4000-8000-000000000002|inst1.gold.example|disk/1|plain|1024|data;" +
			"d0000000-0000-4000-8000-000000000003|||plain|1024|;d0000000-0000-4000-8000-000000000004|||file|1024|",
		"filters": "UUID|Priority|Action|Watermark;f0000000-0000-4000-8000-000000000001|3|RATE_LIMIT 2|12",
	} {
		part, err := view.Show(c, path, view.AsTable, redact.New())
		require.NoError(t, err)
		require.Nil(t, part.Value)
		rows := []string{}
		for _, row := range slices.Insert(part.Table.Rows, 0, part.Table.Columns) {
			rows = append(rows, strings.Join(row, "|"))
		}
		require.Equal(t, want, strings.Join(rows, ";"))
	}
}

// Every part of the configuration as JSON has no secrets, and the containers together are the whole.
func TestNoSecretsInAnyPart(t *testing.T) {
	c := configtest.Config()
	whole := must(view.Show(c, "", view.AsJSON, redact.New()))
	var parts map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(whole.Value, &parts))
	for path, want := range parts {
		part := must(view.Show(c, path, view.AsJSON, redact.New()))
		require.JSONEq(t, string(want), string(part.Value))
		for _, secret := range configtest.Secrets {
			require.NotContains(t, string(part.Value), secret)
		}
	}
	require.Len(t, parts, 11)
}

func TestCheck(t *testing.T) {
	c, _ := configtest.Change(configtest.Config(), 5, func(e *model.Edit) {
		configtest.Cluster(e, func(v *model.Cluster) { v.EnabledDiskTemplates = nil })
	})
	check := view.Check(c)
	require.Equal(t, c.Serial, check.Serial)
	require.Equal(t, []string{"enabled disk templates list doesn't have any entries"}, check.Errors)
	require.Equal(t, []string{"Not enough master candidates: actual 2, target 3"}, check.Warnings)
}

func TestHistory(t *testing.T) {
	l := history.Open(nil, nil)
	var file []byte
	for i := range 5 {
		file = append(file, l.Append(history.Entry{Serial: int64(i + 3), Objects: []history.Difference{}}).Line...)
	}
	h := view.History(file[:len(file)/2], append(file, "torn"...), history.Query{Limit: 2})
	require.Equal(t, int64(3), h.Oldest)
	require.Equal(t, 2, h.Damaged)
	require.Equal(t, []int64{6, 7}, []int64{h.Entries[0].Serial, h.Entries[1].Serial})
	require.Equal(t, `{"entries":[],"oldest":0,"damaged":0}`, string(must(json.Marshal(view.History(nil, nil, history.Query{})))))
}
