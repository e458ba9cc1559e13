package query

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/inquiry"
	"lockstep/core/noded"
)

// liveCluster has node1, node2, the node3 that is offline, and instances on them.
const liveCluster = `{"cluster": {"enabled_hypervisors": ["fake", "kvm"], "hvparams": {"fake": {"migration_mode": "live"}, "kvm": {"user_shutdown": false}},
	"enabled_disk_templates": ["plain", "drbd", "file", "diskless"], "volume_group_name": "xenvg", "file_storage_dir": "/srv", "enabled_user_shutdown": true},
	"nodegroups": {"g": {"name": "default"}},
	"nodes": {"n1": {"name": "node1.x", "primary_ip": "192.0.2.1", "group": "g", "ndparams": {"exclusive_storage": true}}, "n2": {"name": "node2.x", "primary_ip": "192.0.2.2", "group": "g"},
		"n3": {"name": "node3.x", "primary_ip": "192.0.2.3", "group": "g", "offline": true, "master_candidate": false}},
	"disks": {"d1": {"dev_type": "plain", "size": 100, "logical_id": ["xenvg", "lv"]}, "d2": {"dev_type": "file", "size": 10, "logical_id": ["loop", "/srv/x"]}},
	"instances": {
		"i1": {"name": "up.x", "primary_node": "n1", "admin_state": "up", "hypervisor": "fake", "os": "o"},
		"i2": {"name": "down.x", "primary_node": "n1", "admin_state": "down", "hypervisor": "fake", "os": "o", "disks": ["d1", "d2"]},
		"i3": {"name": "two.x", "primary_node": "n2", "admin_state": "up", "hypervisor": "kvm", "os": "o"},
		"i4": {"name": "gone.x", "primary_node": "n3", "admin_state": "up", "hypervisor": "fake", "os": "o"}}}`

func liveDocument(t *testing.T, change ...string) *config.Document {
	return config.DocumentOf(configtest.Complete(t, []byte(strings.NewReplacer(change...).Replace(liveCluster))))
}

// saying answers the questions of a query by "node procedure". What has no answer fails.
type saying map[string]any

func (s saying) to(questions []inquiry.Question) (answers []inquiry.Answer) {
	for _, q := range questions {
		if value, known := s[q.Node.Name+" "+string(q.Request.Procedure)]; known {
			answers = append(answers, inquiry.Answer{Value: value})
		} else {
			answers = append(answers, inquiry.Answer{Err: errors.New("down")})
		}
	}
	return answers
}

// live runs a query and returns the questions, as "node procedure body", and the rows.
func live(t *testing.T, d *config.Document, of *Collection, fields, filter string, s saying) (questions []string, rows string) {
	t.Helper()
	var raw json.RawMessage
	if filter != "" {
		raw = json.RawMessage(filter)
	}
	q, err := of.NewQuery(strings.Split(fields, ","), raw)
	require.NoError(t, err)
	items, err := of.ForQuery(d, q)
	require.NoError(t, err)
	items, err = q.Candidates(items)
	require.NoError(t, err)
	l := NewLive(d, q.LiveParts(), items)
	for _, question := range l.Questions {
		questions = append(questions, question.Node.Name+" "+string(question.Request.Procedure)+" "+string(question.Request.Body))
	}
	var all []string
	for _, item := range l.Answer(s.to(l.Questions)) {
		matches, undecided, err := q.Match(item, LevelLive)
		require.NoError(t, err)
		require.False(t, undecided)
		if matches {
			all = append(all, string(q.AppendRow(nil, item, 1<<20)))
		}
	}
	return questions, strings.Join(all, "\n")
}

// Nodes are asked only for the parts that the query needs.
func TestQuestionsToNodes(t *testing.T) {
	d := liveDocument(t)
	units := `[["lvm-vg","xenvg",[true]],["file","/srv",[]],["lvm-pv","xenvg",[true]]]`
	for fields, body := range map[string]string{
		"bootid":        `[[],[]]`,
		"name,mfree":    `[[],[["fake",{"migration_mode":"live"}]]]`,
		"dfree,sptotal": `[` + units + `,[]]`,
		"dtotal,ctotal": `[` + units + `,[["fake",{"migration_mode":"live"}]]]`,
	} {
		asked, _ := live(t, d, Nodes, fields, `["==", "name", "node1"]`, nil)
		require.Equal(t, []string{"node1.x node_info " + body}, asked, fields)
	}
	asked, rows := live(t, d, Nodes, "name", `["&", ["?", "offline"], [">", "mfree", 5]]`, nil)
	require.Empty(t, asked, "it is offline")
	require.Equal(t, `[[0,"node3.x"]]`, rows)
	q, err := Nodes.NewQuery([]string{"name", "role"}, nil)
	require.NoError(t, err)
	require.Zero(t, q.LiveParts())
}

func TestCellsOfNodes(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	_, rows := live(t, liveDocument(t), Nodes, "name,bootid,dtotal,dfree,sptotal,spfree,mtotal,mfree,mnode,ctotal,cnos,cnodes,csockets", "", saying{"node1.x node_info": noded.NodeFacts{BootID: "b",
		Storage:     []noded.StorageFacts{{}, {Type: "lvm-pv", Size: n(7)}, {Type: "file", Size: n(9), Free: n(9)}},
		Hypervisors: []noded.HypervisorFacts{{MemoryTotal: n(1), MemoryFree: n(2), MemoryNode: n(3), CPUTotal: n(4), CPUOwn: n(5), CPUNodes: n(6)}}}})
	require.Equal(t, `[[0,"node1.x"],[0,"b"],[2,null],[2,null],[0,7],[2,null],[0,1],[0,2],[0,3],[0,4],[0,5],[0,6],[2,null]]
[[0,"node2.x"],[2,null],[2,null],[2,null],[2,null],[2,null],[2,null],[2,null],[2,null],[2,null],[2,null],[2,null],[2,null]]
[[0,"node3.x"],[4,null],[4,null],[4,null],[4,null],[4,null],[4,null],[4,null],[4,null],[4,null],[4,null],[4,null],[4,null]]`, rows)
	_, rows = live(t, liveDocument(t), Nodes, "bootid,dtotal,mtotal", `["==","name","node1"]`, saying{"node1.x node_info": noded.NodeFacts{BootID: "b"}})
	require.Equal(t, `[[0,"b"],[2,null],[2,null]]`, rows)
}

// Each row of live.md 3.
func TestStatesOfInstances(t *testing.T) {
	type states = map[string]noded.InstanceFacts
	runs, ended := noded.InstanceFacts{Memory: 64, VCPUs: 2}, noded.InstanceFacts{Memory: 1, VCPUs: 1, State: noded.InstanceShutDown}
	node := func(n string) string { return n + " all_instances_info" }
	const fields = "status,oper_state,oper_ram,oper_vcpus"
	for _, c := range []struct {
		name   string
		change []string
		says   saying
		want   string
	}{
		{"up.x", nil, saying{node("node1.x"): states{"up.x": runs}}, `[[0,"running"],[0,true],[0,64],[0,2]]`},
		{"up.x", nil, saying{node("node1.x"): states{"up.x": ended}}, `[[0,"USER_down"],[0,true],[0,1],[0,1]]`},
		{"up.x", []string{`"enabled_user_shutdown": true`, `"enabled_user_shutdown": false`}, saying{node("node1.x"): states{"up.x": ended}}, `[[0,"ERROR_down"],[0,true],[0,1],[0,1]]`},
		{"up.x", nil, saying{node("node1.x"): states{}}, `[[0,"ERROR_down"],[0,false],[3,null],[3,null]]`},
		{"up.x", nil, saying{}, `[[0,"ERROR_nodedown"],[2,null],[2,null],[2,null]]`},
		{"down.x", nil, saying{node("node1.x"): states{"down.x": runs}}, `[[0,"ERROR_up"],[0,true],[0,64],[0,2]]`},
		{"down.x", nil, saying{node("node1.x"): states{"down.x": ended}}, `[[0,"ADMIN_down"],[0,true],[0,1],[0,1]]`},
		{"down.x", nil, saying{node("node1.x"): states{}}, `[[0,"ADMIN_down"],[0,false],[3,null],[3,null]]`},
		{"down.x", []string{`"admin_state": "down"`, `"admin_state": "down", "admin_state_source": "user"`}, saying{node("node1.x"): states{}}, `[[0,"USER_down"],[0,false],[3,null],[3,null]]`},
		{"down.x", []string{`"admin_state": "down"`, `"admin_state": "offline"`}, saying{node("node1.x"): states{}}, `[[0,"ADMIN_offline"],[0,false],[3,null],[3,null]]`},
		{"two.x", nil, saying{node("node2.x"): states{"two.x": ended}}, `[[0,"ERROR_down"],[0,true],[0,1],[0,1]]`}, // kvm, and its user may not
		{"two.x", []string{`"user_shutdown": false`, `"user_shutdown": true`}, saying{node("node2.x"): states{"two.x": ended}}, `[[0,"USER_down"],[0,true],[0,1],[0,1]]`},
		{"two.x", nil, saying{node("node1.x"): states{"two.x": runs}, node("node2.x"): states{}}, `[[0,"ERROR_wrongnode"],[0,true],[0,64],[0,2]]`},
		{"two.x", nil, saying{node("node1.x"): states{"two.x": runs}}, `[[0,"ERROR_wrongnode"],[0,true],[0,64],[0,2]]`},
		{"two.x", nil, saying{node("node1.x"): states{"two.x": ended}, node("node2.x"): states{"two.x": runs}}, `[[0,"running"],[0,true],[0,64],[0,2]]`},
		{"gone.x", nil, saying{node("node1.x"): states{}}, `[[0,"ERROR_nodeoffline"],[2,null],[4,null],[4,null]]`},
		{"gone.x", nil, saying{node("node1.x"): states{"gone.x": runs}}, `[[0,"ERROR_nodeoffline"],[0,true],[0,64],[0,2]]`},
	} {
		asked, rows := live(t, liveDocument(t, c.change...), Instances, "name,"+fields, "", c.says)
		require.Len(t, asked, 2)
		require.Contains(t, strings.Split(rows, "\n"), `[[0,"`+c.name+`"],`+c.want[1:], "%s %v", c.name, c.says)
	}
}

// Only the nodes of instances that the configuration leaves are asked, with their hypervisors.
func TestQuestionsOfInstances(t *testing.T) {
	d := liveDocument(t)
	kvm := `[["kvm"],{"kvm":{"user_shutdown":false}}]`
	both := `[["fake","kvm"],{"fake":{"migration_mode":"live"},"kvm":{"user_shutdown":false}}]`
	for filter, want := range map[string][]string{
		``: {"node1.x all_instances_info " + both, "node2.x all_instances_info " + both},
		`["&", ["==", "status", "running"], ["==", "pnode", "node2.x"]]`: {"node2.x all_instances_info " + kvm},
		`["|", ["==", "name", "two"]]`:                                   {"node2.x all_instances_info " + kvm},
		`["!", ["==", "admin_state", "up"]]`:                             {`node1.x all_instances_info [["fake"],{"fake":{"migration_mode":"live"}}]`},
	} {
		asked, _ := live(t, d, Instances, "name,oper_ram", filter, nil)
		require.Equal(t, want, asked, filter)
	}
	_, rows := live(t, d, Instances, "name", `["!=", "status", "running"]`, saying{"node1.x all_instances_info": map[string]noded.InstanceFacts{"up.x": {}}})
	require.Equal(t, "[[0,\"down.x\"]]\n[[0,\"gone.x\"]]\n[[0,\"two.x\"]]", rows, "a test of a live field leaves the instance in the first pass, also below a negation")
}

func TestConsoles(t *testing.T) {
	asked, rows := live(t, liveDocument(t), Instances, "name,console", "", saying{
		"node1.x all_instances_info":    map[string]noded.InstanceFacts{},
		"node1.x instance_console_info": map[string]json.RawMessage{"up.x": json.RawMessage(`{"kind":"msg"}`)},
		"node2.x all_instances_info":    map[string]noded.InstanceFacts{}})
	require.Equal(t, "[[0,\"down.x\"],[2,null]]\n[[0,\"gone.x\"],[4,null]]\n[[0,\"two.x\"],[2,null]]\n[[0,\"up.x\"],[0,{\"kind\":\"msg\"}]]", rows)
	require.Len(t, asked, 4)
	var sent map[string]map[string]map[string]any
	require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(asked[1], "node1.x instance_console_info ")), &sent))
	require.Len(t, sent, 2)
	up := sent["up.x"]
	require.Equal(t, []any{"up.x", "node1.x", "default"}, []any{up["instance"]["name"], up["node"]["name"], up["group"]["name"]})
	require.Equal(t, map[string]any{"migration_mode": "live"}, up["hvParams"], "with the parameters of the cluster alone")
	require.Contains(t, up["beParams"], "maxmem")
}

func TestExports(t *testing.T) {
	for _, fields := range []string{"node,export", "node"} {
		asked, rows := live(t, liveDocument(t), Exports, fields, "", saying{"node1.x export_list": []string{"b", "a"}})
		require.Equal(t, []string{"node1.x export_list {}", "node2.x export_list {}"}, asked)
		if fields == "node" {
			require.Equal(t, "[[0,\"node1.x\"]]\n[[0,\"node1.x\"]]\n[[0,\"node2.x\"]]\n[[0,\"node3.x\"]]", rows)
			continue
		}
		require.Equal(t, "[[0,\"node1.x\"],[0,\"b\"]]\n[[0,\"node1.x\"],[0,\"a\"]]\n[[0,\"node2.x\"],[2,null]]\n[[0,\"node3.x\"],[4,null]]", rows)
	}
	_, rows := live(t, liveDocument(t), Exports, "node", `["==", "node", "node1"]`, saying{"node1.x export_list": []string{}})
	require.Empty(t, rows)
	_, rows = live(t, liveDocument(t), Exports, "node,export", `["&", ["==", "export", "a"], ["==", "node", "node1"]]`, saying{"node1.x export_list": []string{"b", "a"}})
	require.Equal(t, `[[0,"node1.x"],[0,"a"]]`, rows)
}

// The configuration alone says these.
func TestDisksAndParametersOfInstances(t *testing.T) {
	d := liveDocument(t)
	_, rows := live(t, d, Instances, "name,disk_template,disk_usage,hvparams", "", nil)
	require.Equal(t, `[[0,"down.x"],[0,"mixed"],[0,110],[0,{}]]
[[0,"gone.x"],[0,"diskless"],[0,0],[0,{}]]
[[0,"two.x"],[0,"diskless"],[0,0],[0,{"user_shutdown":false}]]
[[0,"up.x"],[0,"diskless"],[0,0],[0,{}]]`, rows)
	_, rows = live(t, cluster(t), Instances, "disk_template,disk_usage", `["==", "name", "mail"]`, nil)
	require.Equal(t, `[[0,"drbd"],[0,3328]]`, rows)
}
