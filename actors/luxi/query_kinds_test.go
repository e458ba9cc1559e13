package luxi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/configtest"
	"lockstep/core/job"
	"lockstep/messages"
)

const cluster = "../../core/query/testdata/cluster.json"

// inCluster is inWorld with a cluster that has objects of each kind.
func inCluster(t *testing.T, f func(*testing.T, *world, *client)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world, c *client) {
		w.useCluster(t)
		f(t, w, c)
	})
}

func (w *world) useCluster(t *testing.T) {
	data, err := os.ReadFile(cluster)
	require.NoError(t, err)
	w.config = configtest.Complete(t, data)
}

// An invalid request is refused with a text, and the connection is closed.
func TestQueriesThatAreNoRequests(t *testing.T) {
	for call, text := range map[string]string{
		`Query ["job", ["id"]]`:                                 `Query: 2 arguments, expected 3`,
		`Query ["job", null, null]`:                             `Query: argument 2: a null is not what belongs here`,
		`Query ["job", "id", null]`:                             `Query: argument 2: a string is not what belongs here`,
		`Query ["job", ["id", null], null]`:                     `Query: argument 2: a null is not what belongs here`,
		`Query ["job", ["id", 1], null]`:                        `Query: argument 2: a number is not what belongs here`,
		`Query [null, ["id"], null]`:                            `Query: argument 1: a null is not what belongs here`,
		`Query [1, ["id"], null]`:                               `Query: argument 1: a number is not what belongs here`,
		`Query ["nosuch", ["id"], null]`:                        `Query: argument 1: "nosuch" is not a kind of things that can be asked for; there are export, filter, group, instance, job, lock, network, node`,
		`Query ["job", ["id"], "id"]`:                           `Query: argument 3: filter: an expression is null, or a list that begins with an operator; found the string "id"`,
		`Query ["job", ["id"], ["=*", "id", 1]]`:                `Query: argument 3: filter[0]: unknown operator "=*", allowed are & | ! ? == != < > <= >= =~ =[] and =`,
		`Query ["job", ["id"], ["==", "id", 1.5]]`:              `Query: argument 3: filter[2]: 1.5 is not a whole number`,
		`Query ["job", ["id"], ["==", "archived", true]]`:       `Query: argument 3: filter[2]: a value is a string or a whole number, found true`,
		`Query ["job", ["id"], ["=~", "status", "("]]`:          "Query: argument 3: filter[2]: the pattern \"(\" is not in RE2 syntax: error parsing regexp: missing closing ): `(`",
		`Query ["node", ["name"], ["!"]]`:                       `Query: argument 3: filter: "!" has 1 operand, an expression; found 0 operands`,
		`QueryFields ["job"]`:                                   `QueryFields: 1 arguments, expected 2`,
		`QueryFields ["job", ["id", null]]`:                     `QueryFields: argument 2: a null is not what belongs here`,
		`QueryFields ["nosuch", null]`:                          `QueryFields: argument 1: "nosuch" is not a kind of things that can be asked for; there are export, filter, group, instance, job, lock, network, node`,
		`QueryJobs [[1], ["id", null]]`:                         `QueryJobs: argument 2: a null is not what belongs here`,
		`QueryJobs [[null], ["id"]]`:                            `QueryJobs: argument 1: null is not a job id`,
		`QueryJobs [1, ["id"]]`:                                 `QueryJobs: argument 1: a number is not what belongs here`,
		`QueryNodes [["n"], ["name"]]`:                          `QueryNodes: 2 arguments, expected 3`,
		`QueryNodes [["n"], ["name"], null]`:                    `QueryNodes: argument 3: a null is not what belongs here`,
		`QueryNodes [["n"], ["name"], 0]`:                       `QueryNodes: argument 3: a number is not what belongs here`,
		`QueryInstances [null, ["name"], false]`:                `QueryInstances: argument 1: a null is not what belongs here`,
		`QueryGroups [[], "name", false]`:                       `QueryGroups: argument 2: a string is not what belongs here`,
		`QueryNetworks [[1], ["name"], false]`:                  `QueryNetworks: argument 1: a number is not what belongs here`,
		`QueryExports [[]]`:                                     `QueryExports: 1 arguments, expected 2`,
		`QueryFilters [[1], ["uuid"]]`:                          `QueryFilters: argument 1: a number is not what belongs here`,
		`QueryFilters [["u"], null]`:                            `QueryFilters: argument 2: a null is not what belongs here`,
		`QueryTags ["node"]`:                                    `QueryTags: 1 arguments, expected 2`,
		`QueryTags ["group", "default"]`:                        `QueryTags: argument 1: "group" is not a kind of things with tags; there are cluster, instance, network, node, nodegroup`,
		`QueryTags ["node", null]`:                              `QueryTags: argument 2: a null is not what belongs here`,
		`QueryClusterInfo [1]`:                                  `QueryClusterInfo: 1 arguments, expected 0`,
		`QueryConfigValues ["drain_flag"]`:                      `QueryConfigValues: argument 1: a string is not what belongs here`,
		`QueryConfigValues [null]`:                              `QueryConfigValues: argument 1: a null is not what belongs here`,
		`SetWatcherPause []`:                                    `SetWatcherPause: 0 arguments, expected 1`,
		`SetWatcherPause [1, 2]`:                                `SetWatcherPause: 2 arguments, expected 1`,
		`Query ["filter", ["uuid"], ["&", ["==", "uuid", {}]]]`: `Query: argument 3: filter[1][2]: a value is a string or a whole number, found an object`,
	} {
		inWorld(t, func(t *testing.T, w *world, c *client) {
			var method string
			_, err := fmt.Sscan(call, &method)
			require.NoError(t, err)
			c.Call(method, call[len(method)+1:])
			want, err := jsonOf(map[string]any{"success": false, "result": "Failed to parse request: " + text})
			require.NoError(t, err)
			require.JSONEq(t, want, c.Answer(), call)
			require.True(t, c.Closed(), call)
			require.Empty(t, w.writes)
		})
	}
}

// A valid request that fails leaves the connection open.
func TestQueriesThatFail(t *testing.T) {
	for call, want := range map[string]string{
		`Query ["cluster", ["name"], null]`:                           `["GenericError",["Query \"cluster\": only an opcode can ask for that"]]`,
		`Query ["os", ["name"], null]`:                                `["GenericError",["Query \"os\": only an opcode can ask for that"]]`,
		`QueryFields ["os", null]`:                                    `["GenericError",["QueryFields \"os\": only an opcode can ask for that"]]`,
		`Query ["job", ["id"], ["&", ["|"], ["==", "nosuch", 1]]]`:    `["ParameterError",["filter[2]: unknown field \"nosuch\""]]`,
		`Query ["job", ["id"], ["==", "id", "5"]]`:                    `["ParameterError",["filter: the field \"id\" cannot be compared with \"5\""]]`,
		`Query ["job", ["id"], ["?", "status"]]`:                      `["ParameterError",["filter: the field \"status\" is not boolean"]]`,
		`Query ["lock", ["name"], ["==", "level", "x"]]`:              `["ParameterError",["filter: unknown field \"level\""]]`,
		`Query ["filter", ["uuid"], ["==", "name", "x"]]`:             `["ParameterError",["filter: unknown field \"name\""]]`,
		`Query ["node", ["name"], ["?", "name"]]`:                     `["ParameterError",["filter: the field \"name\" is not boolean"]]`,
		`Query ["node", ["name"], ["==", "name", "nosuch"]]`:          `["OpPrereqError",["Node name nosuch not found","unknown_entity"]]`,
		`Query ["export", ["node"], ["|", ["==", "node", "nosuch"]]]`: `["OpPrereqError",["Node name nosuch not found","unknown_entity"]]`,
		`Query ["network", ["nosuch"], ["=", "name", "nosuch"]]`:      `["OpPrereqError",["Network name nosuch not found","unknown_entity"]]`,
		`QueryNodes [[], ["name"], true]`:                             `["OpPrereqError",["Sync queries are not allowed","wrong_input"]]`,
		`QueryNodes [[], ["nosuch"], true]`:                           `["OpPrereqError",["Sync queries are not allowed","wrong_input"]]`,
		`QueryInstances [[], ["name"], true]`:                         `["OpPrereqError",["Sync queries are not allowed","wrong_input"]]`,
		`QueryGroups [[], ["name"], true]`:                            `["OpPrereqError",["Sync queries are not allowed","wrong_input"]]`,
		`QueryNetworks [[], ["name"], true]`:                          `["OpPrereqError",["Sync queries are not allowed","wrong_input"]]`,
		`QueryExports [[], true]`:                                     `["OpPrereqError",["Sync queries are not allowed","wrong_input"]]`,
		`QueryNodes [[], ["name", "a", "b"], false]`:                  `["OpPrereqError",["Unknown output fields selected: a, b","wrong_input"]]`,
		`QueryExports [["nosuch"], false]`:                            `["OpPrereqError",["Node name nosuch not found","unknown_entity"]]`,
		`QueryFilters [null, ["uuid", "a"]]`:                          `["OpPrereqError",["Unknown output fields selected: a","wrong_input"]]`,
		`QueryTags ["node", "nosuch"]`:                                `["OpPrereqError",["Node name nosuch not found","unknown_entity"]]`,
		`QueryTags ["nodegroup", "nosuch"]`:                           `["OpPrereqError",["NodeGroup name nosuch not found","unknown_entity"]]`,
		`SetWatcherPause [1e300]`:                                     `["ParameterError",["The watcher cannot be paused until 1e300"]]`,
	} {
		inCluster(t, func(t *testing.T, w *world, c *client) {
			w.add(someJob(1, job.Queued))
			var method string
			_, err := fmt.Sscan(call, &method)
			require.NoError(t, err)
			c.Call(method, call[len(method)+1:])
			require.JSONEq(t, `{"success":false,"result":`+want+`}`, c.Answer(), call)
			require.False(t, c.Closed(), call)
		})
	}
}

// Without a master the cluster has no description.
func TestNoMaster(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		w.config = configtest.Complete(t, []byte(`{"cluster": {"master_node": ""}}`))
		for _, call := range [][2]string{{"QueryClusterInfo", `[]`}, {"QueryConfigValues", `[["drain_flag"]]`}} {
			c.Call(call[0], call[1])
			require.Contains(t, c.Answer(), `["ConfigurationError",["master node \"\" is not among the nodes`)
		}
	})
}

func TestQueriesForObjects(t *testing.T) {
	inCluster(t, func(t *testing.T, w *world, c *client) {
		for args, want := range map[string]string{
			`["node", ["name", "role", "bootid", "nosuch"], null]`: `[[[0,"node1.example"],[0,"M"],[3,null],[1,null]],
				[[0,"node2.example"],[0,"O"],[4,null],[1,null]],[[0,"node10.example"],[0,"D"],[3,null],[1,null]]]`,
			`["node", ["name"], ["|", ["=", "name", "node10.example"], ["=", "name", "node1"]]]`: `[[[0,"node10.example"]],[[0,"node1.example"]]]`,
			`["node", ["name"], ["==", "uuid", "nosuch"]]`:                                       `[]`,
			`["group", ["name", "node_cnt"], ["==", "uuid", "west-uuid"]]`:                       `[[[0,"west"],[0,1]]]`,
			`["network", ["name", "free_count"], null]`:                                          `[[[0,"lan"],[0,4]],[[0,"void"],[3,null]]]`,
			`["export", ["node", "export"], ["==", "node", "node1.example"]]`:                    `[[[0,"node1.example"],[3,null]]]`,
			// The fields that ganeti-watcher queries (queue.md 1.9).
			`["instance", ["name", "status", "admin_state", "admin_state_source", "disks_active", "snodes", "pnode.group.uuid", "snodes.group.uuid", "disk_template"],
				["&", ["==", "pnode.group.uuid", "east-uuid"], ["!", ["?", "forthcoming"]], ["==", "admin_state", "up"]]]`: `[[[0,"mail.example"],[3,null],[0,"up"],[0,"admin"],[0,true],
				[0,["node10.example"]],[0,"east-uuid"],[0,["west-uuid"]],[0,"drbd"]]]`,
			`["node", ["name", "bootid", "offline"], ["==", "group.uuid", "east-uuid"]]`: `[[[0,"node1.example"],[3,null],[0,false]],[[0,"node2.example"],[4,null],[0,true]]]`,
		} {
			require.JSONEq(t, want, c.cells(args), args)
		}
		for _, call := range [][3]string{
			{"QueryGroups", `[[], ["name", "uuid"], false]`, `[["east","east-uuid"],["west","west-uuid"]]`},
			{"QueryGroups", `[["west", "east"], ["name"], false]`, `[["east"],["west"]]`},
			{"QueryNodes", `[[], ["name", "bootid", "offline"], false]`, `[["node1.example",null,false],["node2.example",null,true],["node10.example",null,false]]`},
			{"QueryInstances", `[["mail"], ["name", "be/memory", "oper_state"], false]`, `[["mail.example",512,null]]`},
			{"QueryInstances", `[["nosuch", "mail"], ["name"], false]`, `[["mail.example"]]`},
			{"QueryGroups", `[["nosuch"], ["name"], false]`, `[]`},
			{"QueryNetworks", `[["lan-uuid"], ["name", "gateway"], false]`, `[["lan","192.0.2.1"]]`},
			{"QueryExports", `[[], false]`, `[["node1.example",null],["node2.example",null],["node10.example",null]]`},
			{"QueryTags", `["cluster", ""]`, `["prod"]`},
			{"QueryTags", `["node", "node1.example"]`, `["fast","new"]`},
			{"QueryTags", `["nodegroup", "east"]`, `["g"]`},
			{"QueryTags", `["instance", "web.example"]`, `[]`},
		} {
			got, err := jsonOf(c.asks(call[0], call[1]))
			require.NoError(t, err)
			require.JSONEq(t, call[2], got, call[1])
		}
	})
}

func TestFieldsOfAQuery(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		result, ok := c.asks("Query", `["group", ["name", "ipolicy", "x"], ["|"]]`).(map[string]any)
		require.True(t, ok)
		var fields [][3]any
		for _, f := range list(result["fields"]) {
			d := f.(map[string]any)
			require.NotEmpty(t, d["doc"])
			fields = append(fields, [3]any{d["name"], d["title"], d["kind"]})
		}
		require.Equal(t, [][3]any{{"name", "Group", "text"}, {"ipolicy", "InstancePolicy", "other"}, {"x", "x", "unknown"}}, fields)
		require.Empty(t, list(result["data"]))
		empty, ok := c.asks("Query", `["group", [], null]`).(map[string]any)
		require.True(t, ok)
		require.Equal(t, []any{}, empty["fields"])
		require.Equal(t, []any{[]any{}}, empty["data"])
		for kind, n := range map[string]int{"job": 16, "lock": 4, "filter": 6, "node": 46, "group": 25, "instance": 292, "network": 19, "export": 2} {
			for _, none := range []string{"null", "[]"} {
				result, ok := c.asks("QueryFields", `["`+kind+`", `+none+`]`).(map[string]any)
				require.True(t, ok)
				require.Len(t, result["fields"], n)
			}
		}
	})
}

// The lock monitor has the jobs for whose end other jobs wait (designs.md "Status while waiting for dependencies").
func TestJobsInTheLockMonitor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		w.locks = `[{"name":"node/x","mode":"shared","owners":["\"luxid\""],"pending":[{"mode":"exclusive","owner":"4"}]},{"name":"cluster/BGL","owners":[],"pending":[]}]`
		w.dependencies = `[{"id":34709,"on":[{"id":27491,"statuses":["success"]}]},{"id":21459,"on":[{"id":27491,"statuses":["success"]}]},
			{"id":14513,"on":[{"id":21459,"statuses":["success","error"]},{"id":9,"statuses":[]},{"id":27491,"statuses":["error"]}]}]`
		require.JSONEq(t, `[
			[[0,"cluster/BGL"],[0,null],[0,[]],[0,[]]],
			[[0,"job/9"],[0,null],[0,[]],[0,[["success,error",["job/14513"]]]]],
			[[0,"job/21459"],[0,null],[0,[]],[0,[["success,error",["job/14513"]]]]],
			[[0,"job/27491"],[0,null],[0,[]],[0,[["success",["job/34709","job/21459"]],["error",["job/14513"]]]]],
			[[0,"node/x"],[0,"shared"],[0,["\"luxid\""]],[0,[["exclusive",["4"]]]]]]`, c.cells(`["lock", ["name", "mode", "owner", "pending"], null]`))
		require.JSONEq(t, `[[[0,"node/x"]]]`, c.cells(`["lock", ["name"], ["==", "name", "node/x"]]`))
		require.JSONEq(t, `[]`, c.cells(`["lock", ["name"], ["==", "name", "node/nosuch"]]`))
	})
}

func TestFilterRules(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		for _, uuid := range []string{"b10", "a", "b9"} {
			w.rules = append(w.rules, `{"uuid":"`+uuid+`","watermark":5,"priority":1,"predicates":[],"action":["RATE_LIMIT",2],"reason_trail":[["s","t",5]]}`)
		}
		require.JSONEq(t, `[[[0,"a"]],[[0,"b9"]],[[0,"b10"]]]`, c.cells(`["filter", ["uuid"], null]`), "not the order in which they apply")
		require.JSONEq(t, `[[[0,"b9"],[0,["RATE_LIMIT",2]]]]`, c.cells(`["filter", ["uuid", "action"], ["|", ["==", "uuid", "b9"], ["==", "uuid", "x"]]]`))
		for args, want := range map[string]string{
			`[null, ["uuid", "priority"]]`:                          `[["a",1],["b9",1],["b10",1]]`,
			`[[], ["uuid"]]`:                                        `[["a"],["b9"],["b10"]]`,
			`[["b10", "x", "a"], ["uuid"]]`:                         `[["a"],["b10"]]`,
			`[["b9"], ["reason_trail", "predicates", "watermark"]]`: `[[[["s","t",5]],[],5]]`,
		} {
			got, err := json.Marshal(c.asks("QueryFilters", args))
			require.NoError(t, err)
			require.JSONEq(t, want, string(got))
		}
	})
}

func TestClusterInfo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		golden, err := os.ReadFile("../../core/config/testdata/query-cluster-info.json")
		require.NoError(t, err)
		got, err := jsonOf(c.asks("QueryClusterInfo", `[]`))
		require.NoError(t, err)
		require.JSONEq(t, string(golden), got)
	})
}

func TestConfigValues(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		w.drained = true
		w.files["watcher.pause"] = fmt.Sprintf("%d\n", w.now(c)+60)
		require.Equal(t, []any{"cluster.gnt.example", "node1.gnt.example", true, float64(w.now(c) + 60), false, "rsa", float64(2048), nil, true},
			c.asks("QueryConfigValues", `[["cluster_name", "master_node", "drain_flag", "watcher_pause", "modify_ssh_setup", "ssh_key_type", "ssh_key_bits", "nosuch", "drain_flag"]]`))
		w.reads = nil
		require.Equal(t, []any{"node1.gnt.example"}, c.asks("QueryConfigValues", `[["master_node"]]`))
		require.Empty(t, w.reads)
		require.Equal(t, []any{}, c.asks("QueryConfigValues", `[[]]`))
	})
}

func (w *world) now(c *client) int64 { return c.Clock.Now().Unix() }

func TestTheWatcherIsPaused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		paused := func() any { return c.asks("QueryConfigValues", `[["watcher_pause"]]`).([]any)[0] }
		require.Nil(t, paused())
		until := w.now(c) + 100
		require.Equal(t, float64(until)+0.75, c.asks("SetWatcherPause", fmt.Sprintf(`[%d.75]`, until)))
		require.Equal(t, float64(until), paused())
		require.Nil(t, c.asks("SetWatcherPause", `[null]`))
		require.Nil(t, paused())
		require.Nil(t, c.asks("SetWatcherPause", `["soon"]`), "no number is none")
		require.Equal(t, float64(until), c.asks("SetWatcherPause", fmt.Sprintf(`[%d]`, until)))
		c.Advance(100e9)
		require.Nil(t, paused(), "it is over")
		require.Equal(t, []string{fmt.Sprintf(`watcher.pause "%d\n" durable=true`, until), "watcher.pause removed", "watcher.pause removed",
			fmt.Sprintf(`watcher.pause "%d\n" durable=true`, until)}, w.writes)
		w.files["watcher.pause"] = "garbage"
		c.Call("QueryConfigValues", `[["watcher_pause"]]`)
		require.Contains(t, c.Answer(), `["GenericError",["watcher.pause: `)
		w.failure = &messages.Failure{Class: "GenericError", Text: "no disk"}
		for _, call := range [][2]string{{"SetWatcherPause", `[5]`}, {"QueryConfigValues", `[["watcher_pause"]]`}, {"SetWatcherPause", `[null]`}} {
			c.Call(call[0], call[1])
			require.JSONEq(t, `{"success":false,"result":["GenericError",["no disk"]]}`, c.Answer())
		}
	})
}
