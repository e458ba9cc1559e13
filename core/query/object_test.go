package query

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/core/config/configtest"
)

func cluster(t *testing.T) *config.Document {
	data, err := os.ReadFile("testdata/cluster.json")
	require.NoError(t, err)
	return config.DocumentOf(configtest.Complete(t, data))
}

func TestWhatTheConfigurationSaysOfItsObjects(t *testing.T) {
	d := cluster(t)
	for _, about := range []struct {
		of     *Collection
		name   string
		values map[string]string
	}{
		{Nodes, "node1", map[string]string{
			"name": `"node1.example"`, "uuid": `"n1-uuid"`, "group": `"east"`, "group.uuid": `"east-uuid"`, "pip": `"192.0.2.1"`, "sip": `"198.51.100.1"`,
			"master": `true`, "role": `"M"`, "master_candidate": `true`, "powered": `true`, "offline": `false`, "tags": `["fast","new"]`, "serial_no": `3`, "ctime": `1`,
			"ndp/ssh_port": `2222`, "ndp/oob_program": `"/bin/oob"`, "ndp/spindle_count": `1`, "ndp/ovs": `false`, "custom_ndparams": `{"oob_program":"/bin/oob"}`,
			"ndparams":  `{"cpu_speed":1,"exclusive_storage":false,"oob_program":"/bin/oob","ovs":false,"ovs_link":"","ovs_name":"switch1","spindle_count":1,"ssh_port":2222}`,
			"pinst_cnt": `1`, "pinst_list": `["mail.example"]`, "sinst_cnt": `0`, "sinst_list": `[]`, "bootid": `3`, "mfree": `3`, "hv_state": `3`,
		}},
		{Nodes, "node2", map[string]string{"role": `"O"`, "offline": `true`, "bootid": `4`, "powered": `3`, "sip": `"192.0.2.1"`, "tags": `[]`, "custom_ndparams": `{}`, "vm_capable": `true`}},
		{Nodes, "node10", map[string]string{"role": `"D"`, "sinst_list": `["mail.example"]`, "hv_state": `3`, "disk_state": `3`}},
		{Groups, "east", map[string]string{
			"name": `"east"`, "alloc_policy": `"preferred"`, "node_cnt": `2`, "node_list": `["node1.example","node2.example"]`, "pinst_cnt": `2`,
			"pinst_list": `["mail.example","web.example"]`, "custom_ipolicy": `{"vcpu-ratio": 2}`,
			"ipolicy":    `{"disk-templates": ["diskless", "file"], "minmax": [{"max": {"cpu-count": 8, "disk-count": 16, "disk-size": 1048576, "memory-size": 32768, "nic-count": 8, "spindle-use": 12}, "min": {"cpu-count": 1, "disk-count": 1, "disk-size": 1024, "memory-size": 128, "nic-count": 1, "spindle-use": 1}}], "spindle-ratio": 32, "std": {"cpu-count": 1, "disk-count": 1, "disk-size": 1024, "memory-size": 128, "nic-count": 1, "spindle-use": 1}, "vcpu-ratio": 2}`,
			"diskparams": `{"drbd":{"metavg":"xenvg","protocol":"B"},"plain":{"stripes":1}}`, "ndp/ssh_port": `2222`, "ctime": `1.5`, "tags": `["g"]`,
		}},
		{Groups, "west", map[string]string{"node_list": `["node10.example"]`, "pinst_list": `[]`, "custom_diskparams": `{}`, "ndp/ssh_port": `22`, "mtime": `0`}},
		{Networks, "lan", map[string]string{
			"network": `"192.0.2.0/29"`, "gateway": `"192.0.2.1"`, "gateway6": `3`, "map": `"XX.X...X"`, "free_count": `4`, "reserved_count": `4`,
			"external_reservations": `"192.0.2.0, 192.0.2.3, 192.0.2.7"`, "group_cnt": `1`, "group_list": `[["east","bridged","br1","7"]]`,
			"inst_cnt": `1`, "inst_list": `["mail.example"]`,
		}},
		{Networks, "void", map[string]string{"map": `3`, "free_count": `3`, "group_list": `[]`, "inst_list": `[]`}},
		{Instances, "mail", map[string]string{
			"name": `"mail.example"`, "admin_state": `"up"`, "admin_up": `true`, "pnode": `"node1.example"`, "pnode.group": `"east"`, "pnode.group.uuid": `"east-uuid"`,
			"snodes": `["node10.example"]`, "snodes.group": `["west"]`, "snodes.group.uuid": `["west-uuid"]`, "disk_template": `"drbd"`, "disks_active": `true`,
			"be/memory": `512`, "be/maxmem": `512`, "be/vcpus": `1`, "vcpus": `1`, "beparams": `{"always_failover":false,"auto_balance":true,"maxmem":512,"minmem":128,"spindle_use":1,"vcpus":1}`,
			"hv/acpi": `false`, "hv/boot_order": `"network"`, "hv/kernel_path": `""`, "hv/pae": `3`, "custom_hvparams": `{"acpi": false}`,
			"osparams": `{"mirror":"m","suite":"stable"}`, "disk.count": `2`, "disk.size/0": `1024`, "disk.size/1": `2048`, "disk.size/2": `3`, "disk.sizes": `[1024,2048]`,
			"sda_size": `1024`, "sdb_size": `2048`, "disk.name/0": `"root"`, "disk.name/1": `3`, "disk.names": `["root",null]`, "disk.spindles": `[null,2]`, "disk.uuids": `["d1","d2"]`,
			"nic.count": `2`, "nic.ip/0": `"192.0.2.77"`, "ip": `"192.0.2.77"`, "nic.ips": `["192.0.2.77",null]`, "mac": `"aa:00:00:01"`, "nic.link/0": `"br1"`, "nic.link/1": `"br0"`,
			"nic.bridge/0": `"br1"`, "bridge": `"br1"`, "nic.bridge/1": `3`, "nic.bridges": `["br1",null]`, "nic.modes": `["bridged","routed"]`, "nic.network/0": `"lan-uuid"`,
			"nic.network.name/0": `"lan"`, "nic.networks.names": `["lan",null]`, "nic.mac/7": `3`, "custom_nicparams": `[{"link":"br1"},{"mode":"routed"}]`,
			"oper_state": `3`, "status": `3`, "console": `3`, "forthcoming": `false`, "network_port": `3`,
		}},
		{Instances, "web", map[string]string{"status": `4`, "oper_ram": `4`, "admin_up": `false`, "snodes": `[]`, "nic.ips": `[]`, "disk.count": `0`, "ip": `3`, "admin_state_source": `"admin"`}},
		{Instances, "idea-uuid", map[string]string{"name": `3`, "forthcoming": `true`, "pnode": `3`, "pnode.group": `3`, "disk_template": `"diskless"`, "hvparams": `{}`}},
		{Exports, "node1", map[string]string{"node": `"node1.example"`, "export": `3`}},
	} {
		things, err := about.of.ByName(d, []string{about.name})
		require.NoError(t, err)
		for name, want := range about.values {
			q, err := about.of.NewQuery([]string{name}, nil)
			require.NoError(t, err)
			if len(want) == 1 && want >= "3" && about.of.byName[name].Value(things[0]).Status != Normal { // a status
				want = want + `,null`
			} else {
				want = `0,` + want
			}
			require.JSONEq(t, `[[`+want+`]]`, string(q.AppendRow(nil, things[0], 1<<20)), "%s %s", about.name, name)
		}
	}
}

var collections = []*Collection{Nodes, Groups, Instances, Networks, Exports}

// No field of any object panics, whichever keys the configuration lacks.
func TestEveryFieldOfEveryObject(t *testing.T) {
	bare := config.DocumentOf(configtest.Complete(t, []byte(`{"nodes": {"n": {"name": "n", "group": "g"}}, "instances": {"i": {"nics": [{}], "disks": ["gone"], "primary_node": "n"}},
		"nodegroups": {"g": {"name": "g"}}, "networks": {"w": {"name": "w", "reservations": "1", "ext_reservations": ""}}}`)))
	for _, d := range []*config.Document{cluster(t), bare} {
		for _, of := range collections {
			var names []string
			for _, f := range of.Define(nil) {
				names = append(names, f.Name)
			}
			q, err := of.NewQuery(names, nil)
			require.NoError(t, err)
			require.NotEmpty(t, of.All(d))
			for _, thing := range of.All(d) {
				var row [][2]any
				require.NoError(t, json.Unmarshal(q.AppendRow(nil, thing, 1<<20), &row))
				require.Len(t, row, len(names))
				for i, cell := range row {
					if cell[0] != 0.0 {
						require.Contains(t, []any{3.0, 4.0}, cell[0], names[i])
						require.Nil(t, cell[1])
					}
				}
			}
		}
	}
}

func selectedNames(t *testing.T, of *Collection, filter string) (names []string, err error) {
	q, err := of.NewQuery([]string{of.Key}, json.RawMessage(filter))
	require.NoError(t, err)
	things, err := of.ForQuery(cluster(t), q)
	if err != nil {
		return nil, err
	}
	names = []string{}
	for _, thing := range things {
		matches, _, err := q.Match(thing, LevelLive)
		if err != nil {
			return nil, err
		}
		if matches {
			names = append(names, thing.Object.Text("name"))
		}
	}
	return names, nil
}

func TestWhichObjects(t *testing.T) {
	for _, c := range []struct {
		of     *Collection
		filter string
		want   []string
	}{
		{Nodes, `null`, []string{"node1.example", "node2.example", "node10.example"}}, // natural order
		{Nodes, `["|", ["==", "name", "node10.example"], ["=", "name", "node1.example"]]`, []string{"node10.example", "node1.example"}},
		{Nodes, `["==", "name", "node2"]`, []string{"node2.example"}},
		{Nodes, `["&", ["==", "name", "node2"]]`, []string{"node2.example"}},
		{Nodes, `["&", ["==", "name", "node"]]`, []string{}},
		{Nodes, `["&", ["==", "name", "nosuch"]]`, []string{}}, // only a lookup by name reports it
		{Nodes, `["==", "uuid", "nosuch"]`, []string{}},
		{Nodes, `["==", "group.uuid", "east-uuid"]`, []string{"node1.example", "node2.example"}},
		{Nodes, `["?", "offline"]`, []string{"node2.example"}},
		{Nodes, `["==", "bootid", "x"]`, []string{"node1.example", "node2.example", "node10.example"}}, // the value is unknown
		{Nodes, `["|"]`, []string{}},
		{Groups, `["=~", "name", "e"]`, []string{"east", "west"}},
		{Instances, `["==", "pnode", "node1"]`, []string{"", "mail.example"}}, // a planned instance has no node yet
		{Instances, `["=[]", "snodes", "node10.example"]`, []string{"mail.example"}},
		{Instances, `[">", "be/memory", 200]`, []string{"mail.example"}},
		{Exports, `["==", "node", "node2.example"]`, []string{"node2.example"}},
	} {
		got, err := selectedNames(t, c.of, c.filter)
		require.NoError(t, err, c.filter)
		require.Equal(t, c.want, got, c.filter)
	}
}

// A classic call has no row for a name that is absent. QueryExports is the exception.
func TestObjectsOfClassicCalls(t *testing.T) {
	d := cluster(t)
	for _, of := range collections {
		if of == Exports {
			_, err := of.ForClassicQuery(d, []string{"nosuch"})
			var missing *config.NoSuchObject
			require.ErrorAs(t, err, &missing)
			continue
		}
		all, err := of.ForClassicQuery(d, nil)
		require.NoError(t, err)
		require.Equal(t, len(of.All(d)), len(all))
		found, err := of.ForClassicQuery(d, []string{"nosuch", all[0].UUID, "nosuch"})
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, all[0].UUID, found[0].UUID)
	}
}

func TestObjectsThatAreNotThere(t *testing.T) {
	for _, of := range collections {
		_, err := selectedNames(t, of, `["|", ["==", "`+of.Key+`", "nosuch"]]`)
		var missing *config.NoSuchObject
		require.ErrorAs(t, err, &missing)
		require.Equal(t, "nosuch", missing.Name)
	}
	_, err := selectedNames(t, Nodes, `["==", "name", 5]`)
	var wrong *FieldError
	require.True(t, errors.As(err, &wrong), "%v", err)
}
