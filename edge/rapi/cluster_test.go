package rapi_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/opcode"
	"lockstep/edge/rapi"
)

// The resources below /2 are those of ganeti-rapi, as its connector lists them, and no others.
func TestTheResourcesAreThoseOfGaneti(t *testing.T) {
	data, err := os.ReadFile("testdata/ganeti-resources.txt")
	require.NoError(t, err)
	want := strings.Split(strings.TrimSpace(string(data)), "\n")
	named := regexp.MustCompile(`\{[a-z]+\}`)
	var got []string
	for _, resource := range rapi.Resources() {
		parts := strings.Fields(resource)
		if strings.HasPrefix(parts[1], "/3") || slices.Contains([]string{"/metrics", "/healthz", "/readyz"}, parts[1]) {
			continue
		}
		got = append(got, parts[0]+" "+named.ReplaceAllString(parts[1], "{}"))
	}
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
}

func TestReadsOfObjects(t *testing.T) {
	b := newTestServer(t)
	b.requireCode(`[{"id":"a","uri":"/2/instances/a"},{"id":"b","uri":"/2/instances/b"}]`, b.do("GET", "/2/instances", "", ""))
	b.requireCode(`[{"name":"a","uri":"/2/groups/a"},{"name":"b","uri":"/2/groups/b"}]`, b.do("GET", "/2/groups", "", ""))
	var all []map[string]any
	require.NoError(t, json.Unmarshal([]byte(b.do("GET", "/2/instances?bulk=1", "", "").body), &all))
	require.Len(t, all, 2)
	require.Len(t, all[0], 35)
	require.Equal(t, map[string]any{"maxmem": 64.0, "memory": 64.0}, all[0]["beparams"], "with the former name")
	var node map[string]any
	require.NoError(t, json.Unmarshal([]byte(b.do("GET", "/2/nodes/a", "", "").body), &node))
	require.Len(t, node, 32)
	require.Equal(t, []any{"192.0.2.1", "192.0.2.1"}, []any{node["sip"], node["secondary_ip"]})
	b.luxi.calls("QueryNodes")
	b.requireCode(`"master-candidate"`, b.do("GET", "/2/nodes/a/role", "", ""))
	require.Equal(t, []string{`[["a"],["role"],false]`}, b.luxi.calls("QueryNodes"))
	b.do("GET", "/2/networks/a?lock=1", "", "")
	require.Contains(t, b.luxi.calls("QueryNetworks")[0], `,true]`)
	for _, path := range []string{"/2/instances/nosuch", "/2/nodes/nosuch", "/2/nodes/nosuch/role", "/2/groups/nosuch", "/2/networks/nosuch", "/2/nodes/nosuch/tags"} {
		b.failure(404, b.do("GET", path, "", ""))
	}
	b.requireCode(`["a","b"]`, b.do("GET", "/2/instances/a/tags", "", ""))
	require.Equal(t, []string{`["node","nosuch"]`, `["instance","a"]`}, b.luxi.calls("QueryTags"))
	b.requireCode(`["a","b"]`, b.do("GET", "/2/tags", "", ""))
	require.Equal(t, []string{`["cluster",""]`}, b.luxi.calls("QueryTags"))

	b.failure(401, b.do("GET", "/2/instances/a/console", "", ""))
	b.requireCode(`{"kind":"msg"}`, b.do("GET", "/2/instances/a/console", "reader:secret", ""))
	b.luxi.answers["QueryInstances"] = func([]any) (string, error) { return `[[null,false]]`, nil }
	require.Contains(t, b.failure(503, b.do("GET", "/2/instances/a/console", "reader:secret", "")), "unavailable")
	b.luxi.answers["QueryInstances"] = func([]any) (string, error) { return `[[]]`, nil }
	b.failure(502, b.do("GET", "/2/instances/a", "", ""))
}

func TestOperatingSystems(t *testing.T) {
	b := newTestServer(t)
	b.requireCode(`["noop+default","noop+other","plain"]`, b.do("GET", "/2/os", "peer:secret", ""))
	require.Regexp(t, `^\[\[\{"OP_ID":"OP_OS_DIAGNOSE","names":\[\],"output_fields":\["name","variants"\],"reason":\[.*\["lockstep:rapi","user=peer",\d+\]\]\}\]\]$`,
		b.luxi.calls("SubmitJob")[0])
	b.luxi.answers["SubmitJob"] = func([]any) (string, error) { b.luxi.jobs[50] = "error"; return "50", nil }
	require.Contains(t, b.failure(500, b.do("GET", "/2/os", "peer:secret", "")), "Job 50 has not succeeded")
}

// submitted returns the opcodes of the job that a request submits, without reason trails, and checks each of them.
func (b *testServer) submitted(method, path, body string) string {
	b.Helper()
	b.luxi.calls("SubmitJob")
	a := b.do(method, path, "peer:secret", body)
	require.Equal(b, 200, a.code, "%s %s: %s", method, path, a.body)
	var args [][]map[string]json.RawMessage
	calls := b.luxi.calls("SubmitJob")
	require.Len(b, calls, 1)
	require.NoError(b, json.Unmarshal([]byte(calls[0]), &args))
	for _, op := range args[0] {
		encoded, err := json.Marshal(op)
		require.NoError(b, err)
		_, err = opcode.Builtin().Parse(encoded)
		require.NoError(b, err, string(encoded))
		delete(op, "reason")
	}
	ops, err := json.Marshal(args[0])
	require.NoError(b, err)
	return string(ops)
}

// Each change submits its opcode, which the queue accepts.
func TestChangesSubmitOpcodes(t *testing.T) {
	b := newTestServer(t)
	for request, want := range map[string]string{
		`POST /2/instances?dry-run=1 {"__version__":1,"mode":"create","name":"i","os":"noop","disk_template":"diskless","disks":[],"nics":[],"hvparams":{"usb_devices":"a b"}}`: `{"OP_ID":"OP_INSTANCE_CREATE","mode":"create","instance_name":"i","os_type":"noop","disk_template":"diskless","disks":[],"nics":[],"hvparams":{"usb_devices":"a,b"},"dry_run":true}`,
		`POST /2/instances-multi-alloc {"instances":[{"name":"i","os":"noop"}],"iallocator":"hail"}`:                                                                            `{"OP_ID":"OP_INSTANCE_MULTI_ALLOC","instances":[{"OP_ID":"OP_INSTANCE_CREATE","instance_name":"i","os_type":"noop"}],"iallocator":"hail","dry_run":false}`,
		`DELETE /2/instances/i {"shutdown_timeout":5}`:                                               `{"OP_ID":"OP_INSTANCE_REMOVE","instance_name":"i","ignore_failures":false,"dry_run":false,"shutdown_timeout":5}`,
		`GET /2/instances/i/info?static=1`:                                                           `{"OP_ID":"OP_INSTANCE_QUERY_DATA","instances":["i"],"static":true}`,
		`POST /2/instances/i/reboot?type=soft&ignore_secondaries=1`:                                  `{"OP_ID":"OP_INSTANCE_REBOOT","instance_name":"i","reboot_type":"soft","ignore_secondaries":true,"dry_run":false}`,
		`PUT /2/instances/i/startup?force=1 {"depends":[[-1,[]]],"other":1}`:                         `{"OP_ID":"OP_INSTANCE_STARTUP","instance_name":"i","force":true,"dry_run":false,"no_remember":false,"depends":[[-1,[]]]}`,
		`PUT /2/instances/i/shutdown {"timeout":60}`:                                                 `{"OP_ID":"OP_INSTANCE_SHUTDOWN","instance_name":"i","no_remember":false,"dry_run":false,"timeout":60}`,
		`POST /2/instances/i/replace-disks {"mode":"replace_auto","disks":"0, 1"}`:                   `{"OP_ID":"OP_INSTANCE_REPLACE_DISKS","instance_name":"i","mode":"replace_auto","disks":[0,1]}`,
		`POST /2/instances/i/replace-disks?mode=replace_auto&disks=2`:                                `{"OP_ID":"OP_INSTANCE_REPLACE_DISKS","instance_name":"i","mode":"replace_auto","disks":[2]}`,
		`POST /2/instances/i/replace-disks {"mode":"replace_auto","disks":[3]}`:                      `{"OP_ID":"OP_INSTANCE_REPLACE_DISKS","instance_name":"i","mode":"replace_auto","disks":[3]}`,
		`PUT /2/instances/i/activate-disks?ignore_size=1`:                                            `{"OP_ID":"OP_INSTANCE_ACTIVATE_DISKS","instance_name":"i","ignore_size":true}`,
		`PUT /2/instances/i/deactivate-disks`:                                                        `{"OP_ID":"OP_INSTANCE_DEACTIVATE_DISKS","instance_name":"i","force":false}`,
		`POST /2/instances/i/recreate-disks {"nodes":["n"]}`:                                         `{"OP_ID":"OP_INSTANCE_RECREATE_DISKS","instance_name":"i","nodes":["n"]}`,
		`PUT /2/instances/i/prepare-export?mode=local`:                                               `{"OP_ID":"OP_BACKUP_PREPARE","instance_name":"i","mode":"local"}`,
		`PUT /2/instances/i/export {"mode":"local","destination":"n","shutdown":true}`:               `{"OP_ID":"OP_BACKUP_EXPORT","instance_name":"i","mode":"local","target_node":"n","shutdown":true}`,
		`PUT /2/instances/i/migrate {"mode":"live"}`:                                                 `{"OP_ID":"OP_INSTANCE_MIGRATE","instance_name":"i","mode":"live"}`,
		`PUT /2/instances/i/failover`:                                                                `{"OP_ID":"OP_INSTANCE_FAILOVER","instance_name":"i"}`,
		`PUT /2/instances/i/rename {"new_name":"j"}`:                                                 `{"OP_ID":"OP_INSTANCE_RENAME","instance_name":"i","new_name":"j"}`,
		`PUT /2/instances/i/modify {"custom_beparams":{"vcpus":2}}`:                                  `{"OP_ID":"OP_INSTANCE_SET_PARAMS","instance_name":"i","beparams":{"vcpus":2}}`,
		`POST /2/instances/i/disk/007/grow {"amount":5}`:                                             `{"OP_ID":"OP_INSTANCE_GROW_DISK","instance_name":"i","disk":7,"amount":5}`,
		`POST /2/instances/i/disk/0/grow {"amount":5}`:                                               `{"OP_ID":"OP_INSTANCE_GROW_DISK","instance_name":"i","disk":0,"amount":5}`,
		`PUT /2/instances/i/tags?tag=a&tag=b`:                                                        `{"OP_ID":"OP_TAGS_SET","kind":"instance","name":"i","tags":["a","b"],"dry_run":false}`,
		`DELETE /2/nodes/n/tags?tag=a`:                                                               `{"OP_ID":"OP_TAGS_DEL","kind":"node","name":"n","tags":["a"],"dry_run":false}`,
		`PUT /2/groups/g/tags?tag=a`:                                                                 `{"OP_ID":"OP_TAGS_SET","kind":"nodegroup","name":"g","tags":["a"],"dry_run":false}`,
		`PUT /2/networks/w/tags?tag=a`:                                                               `{"OP_ID":"OP_TAGS_SET","kind":"network","name":"w","tags":["a"],"dry_run":false}`,
		`PUT /2/tags?tag=a&dry-run=1`:                                                                `{"OP_ID":"OP_TAGS_SET","kind":"cluster","tags":["a"],"dry_run":true}`,
		`POST /2/nodes/n/powercycle?force=1`:                                                         `{"OP_ID":"OP_NODE_POWERCYCLE","node_name":"n","force":true}`,
		`POST /2/nodes/n/evacuate {"mode":"primary-only","iallocator":"hail"}`:                       `{"OP_ID":"OP_NODE_EVACUATE","node_name":"n","mode":"primary-only","iallocator":"hail","dry_run":false}`,
		`POST /2/nodes/n/migrate?live=0`:                                                             `{"OP_ID":"OP_NODE_MIGRATE","node_name":"n","mode":"non-live"}`,
		`POST /2/nodes/n/migrate?mode=live`:                                                          `{"OP_ID":"OP_NODE_MIGRATE","node_name":"n","mode":"live"}`,
		`POST /2/nodes/n/migrate {"iallocator":"hail"}`:                                              `{"OP_ID":"OP_NODE_MIGRATE","node_name":"n","iallocator":"hail"}`,
		`POST /2/nodes/n/modify {"drained":true}`:                                                    `{"OP_ID":"OP_NODE_SET_PARAMS","node_name":"n","drained":true}`,
		`PUT /2/nodes/n/role?force=1 "regular"`:                                                      `{"OP_ID":"OP_NODE_SET_PARAMS","node_name":"n","master_candidate":false,"offline":false,"drained":false,"force":true,"auto_promote":false}`,
		`PUT /2/nodes/n/role?auto-promote=1 "offline"`:                                               `{"OP_ID":"OP_NODE_SET_PARAMS","node_name":"n","offline":true,"force":false,"auto_promote":true}`,
		`GET /2/nodes/n/storage?storage_type=file&output_fields=name,size`:                           `{"OP_ID":"OP_NODE_QUERY_STORAGE","nodes":["n"],"storage_type":"file","output_fields":["name","size"]}`,
		`PUT /2/nodes/n/storage/modify?storage_type=lvm-pv&name=sda&allocatable=0`:                   `{"OP_ID":"OP_NODE_MODIFY_STORAGE","node_name":"n","storage_type":"lvm-pv","name":"sda","changes":{"allocatable":false}}`,
		`PUT /2/nodes/n/storage/repair?storage_type=lvm-vg&name=vg`:                                  `{"OP_ID":"OP_REPAIR_NODE_STORAGE","node_name":"n","storage_type":"lvm-vg","name":"vg"}`,
		`POST /2/groups {"name":"g"}`:                                                                `{"OP_ID":"OP_GROUP_ADD","group_name":"g","dry_run":false}`,
		`DELETE /2/groups/g`:                                                                         `{"OP_ID":"OP_GROUP_REMOVE","group_name":"g","dry_run":false}`,
		`PUT /2/groups/g/modify {"custom_ndparams":{"ssh_port":222}}`:                                `{"OP_ID":"OP_GROUP_SET_PARAMS","group_name":"g","ndparams":{"ssh_port":222}}`,
		`PUT /2/groups/g/rename {"new_name":"h"}`:                                                    `{"OP_ID":"OP_GROUP_RENAME","group_name":"g","new_name":"h","dry_run":false}`,
		`PUT /2/groups/g/assign-nodes?force=1 {"nodes":["n"]}`:                                       `{"OP_ID":"OP_GROUP_ASSIGN_NODES","group_name":"g","nodes":["n"],"force":true,"dry_run":false}`,
		`POST /2/networks {"name":"w","network":"192.0.2.0/24"}`:                                     `{"OP_ID":"OP_NETWORK_ADD","network_name":"w","network":"192.0.2.0/24","dry_run":false}`,
		`DELETE /2/networks/w {}`:                                                                    `{"OP_ID":"OP_NETWORK_REMOVE","network_name":"w","dry_run":false}`,
		`PUT /2/networks/w/connect {"group_name":"g","network_mode":"bridged","network_link":"br0"}`: `{"OP_ID":"OP_NETWORK_CONNECT","network_name":"w","group_name":"g","network_mode":"bridged","network_link":"br0","dry_run":false}`,
		`PUT /2/networks/w/disconnect {"group_name":"g"}`:                                            `{"OP_ID":"OP_NETWORK_DISCONNECT","network_name":"w","group_name":"g","dry_run":false}`,
		`PUT /2/networks/w/modify {"gateway":"192.0.2.1"}`:                                           `{"OP_ID":"OP_NETWORK_SET_PARAMS","network_name":"w","gateway":"192.0.2.1"}`,
	} {
		parts := strings.SplitN(request+"  ", " ", 3)
		require.JSONEq(t, "["+want+"]", b.submitted(parts[0], parts[1], strings.TrimSpace(parts[2])), request)
	}
	require.JSONEq(t, `[{"OP_ID":"OP_INSTANCE_SHUTDOWN","instance_name":"i"},{"OP_ID":"OP_INSTANCE_REINSTALL","instance_name":"i","os_type":"noop"},{"OP_ID":"OP_INSTANCE_STARTUP","instance_name":"i","force":false}]`,
		b.submitted("POST", "/2/instances/i/reinstall", `{"os":"noop"}`))
	require.JSONEq(t, `[{"OP_ID":"OP_INSTANCE_SHUTDOWN","instance_name":"i"},{"OP_ID":"OP_INSTANCE_REINSTALL","instance_name":"i","os_type":"noop"}]`,
		b.submitted("POST", "/2/instances/i/reinstall?os=noop&nostartup=1", ""))
}

// The reason trail has the user's reason and the resource, as in Ganeti.
func TestReasonsOfChanges(t *testing.T) {
	b := newTestServer(t)
	b.do("PUT", "/2/instances/i/startup?reason=weekly", "peer:secret", "")
	require.Regexp(t, `"reason":\[\["gnt:user","weekly",\d+\],\["gnt:library:rlib2:instances_name_startup","",\d+\],\["lockstep:rapi","user=peer",\d+\]\]`, b.luxi.calls("SubmitJob")[0])
	b.do("PUT", "/2/groups/g/tags?tag=a", "peer:secret", "")
	require.Regexp(t, `"reason":\[\["gnt:library:rlib2:groups_name_tags","",\d+\],\["lockstep:rapi","user=peer",\d+\]\]`, b.luxi.calls("SubmitJob")[0])
}

// Invalid requests are the client's error, and submit nothing.
func TestInvalidChanges(t *testing.T) {
	b := newTestServer(t)
	for request, text := range map[string]string{
		`POST /2/instances`:                                          "expected",
		`POST /2/instances {}`:                                       "version 0 is no longer supported",
		`POST /2/instances {"__version__":2}`:                        "Unsupported request data version 2",
		`POST /2/instances {"__version__":1,"os":"a","os_type":"b"}`: "renamed",
		`POST /2/instances {"__version__":1,"dry_run":true}`:         "Can&#x27;t overwrite static parameters",
		`POST /2/instances []`:                                       "object",
		`POST /2/instances-multi-alloc {}`:                           "instances",
		`POST /2/instances-multi-alloc {"instances":5}`:              "list",
		`POST /2/instances-multi-alloc {"instances":[5]}`:            "object",
		`PUT /2/instances/i/modify {"instance_name":"j"}`:            "Can&#x27;t overwrite static parameters",
		`PUT /2/instances/i/modify {"reason":[]}`:                    "Can&#x27;t overwrite static parameters",
		`PUT /2/instances/i/modify {"OP_ID":"OP_CLUSTER_DESTROY"}`:   "Can&#x27;t overwrite static parameters",
		`PUT /2/instances/i/startup?force=yes`:                       "Invalid value for the &#x27;force&#x27; parameter",
		`POST /2/instances/i/replace-disks {"disks":"a"}`:            "Invalid disk index passed",
		`POST /2/instances/i/reinstall?os=a {"os":"b"}`:              "combine",
		`POST /2/instances/i/reinstall {"start":"yes"}`:              "boolean",
		`POST /2/nodes/n/migrate?live=1&mode=live`:                   "Only one of",
		`PUT /2/nodes/n/role "master"`:                               "Can&#x27;t set &#x27;master&#x27; role",
		`PUT /2/nodes/n/role {}`:                                     "Body contents",
		`PUT /2/nodes/n/role`:                                        "Body contents",
		`GET /2/nodes/n/storage`:                                     "output_fields",
		`PUT /2/nodes/n/storage/repair`:                              "name",
	} {
		parts := strings.SplitN(request+"  ", " ", 3)
		require.Contains(t, b.failure(400, b.do(parts[0], parts[1], "peer:secret", strings.TrimSpace(parts[2]))), text, request)
	}
	require.Empty(t, b.luxi.calls("SubmitJob"))
	b.failure(404, b.do("POST", "/2/instances/i/disk/x/grow", "peer:secret", `{}`))
	for _, request := range []string{"POST /2/instances", "DELETE /2/groups/g", "GET /2/nodes/n/storage", "PUT /2/tags"} {
		method, path, _ := strings.Cut(request, " ")
		b.failure(401, b.do(method, path, "", ""))
		b.failure(403, b.do(method, path, "reader:secret", ""))
	}
}
