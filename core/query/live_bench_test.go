package query

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/inquiry"
	"lockstep/core/noded"
)

// BenchmarkListInstances measures what gnt-instance list costs the daemon for ten thousand instances, but for the calls of the nodes: from
// the configuration to the rows, with the decoding of the nodes' answers.
func BenchmarkListInstances(b *testing.B) {
	const count, nodes = 10_000, 3
	var instances, hosts []string
	says := make([]string, nodes)
	for i := range count {
		name := fmt.Sprintf("instance%d.example.com", i)
		instances = append(instances, fmt.Sprintf(`"uuid-of-%s": {"name": %q, "primary_node": "n%d", "admin_state": "up", "hypervisor": "fake", "os": "noop"}`, name, name, i%nodes))
		says[i%nodes] += fmt.Sprintf(`,%q: {"memory": 64, "vcpus": 1, "state": 0, "time": 0.5}`, name)
	}
	for i := range nodes {
		hosts = append(hosts, fmt.Sprintf(`"n%d": {"name": "node%d.example.com", "primary_ip": "192.0.2.%d", "group": "g"}`, i, i, i))
	}
	c := configtest.Complete(b, []byte(`{"cluster": {"enabled_hypervisors": ["fake"]}, "nodegroups": {"g": {"name": "default"}}, "nodes": {`+
		strings.Join(hosts, ",")+`}, "instances": {`+strings.Join(instances, ",")+`}}`))
	b.ReportAllocs()
	for b.Loop() {
		q, err := Instances.NewQuery([]string{"name", "hypervisor", "os", "pnode", "status", "oper_ram"}, nil)
		require.NoError(b, err)
		d := config.DocumentOf(c)
		items, err := Instances.ForQuery(d, q)
		require.NoError(b, err)
		items, err = q.Candidates(items)
		require.NoError(b, err)
		l := NewLive(d, q.LiveParts(), items)
		require.Len(b, l.Questions, nodes)
		answers := make([]inquiry.Answer, nodes)
		for i := range answers {
			value, err := noded.DecodeResult(noded.AllInstancesInfo, json.RawMessage("{"+says[i][1:]+"}"))
			require.NoError(b, err)
			answers[i].Value = value
		}
		var rows []byte
		for _, item := range l.Answer(answers) {
			rows = q.AppendRow(rows, item, 1<<30)
		}
		require.Contains(b, string(rows), `"running"`)
	}
}
