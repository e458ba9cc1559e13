package filter

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/job"
	"lockstep/core/opcode"
)

const (
	migrateOp = `{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "inst1.gold.example"}`
	repairOp  = `{"OP_ID": "OP_REPAIR_NODE_STORAGE", "node_name": "node3.gold.example", "storage_type": "lvm-vg"}`
	commandOp = `{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": [["lock/rack-3", "shared"]]}`
	unknownOp = `{"OP_ID": "OP_NIX"}`
)

// A lock predicate is about what the next opcode is declared to take: by the name of the object and by its UUID.
func TestLockPredicates(t *testing.T) {
	declare := DeclareOf(opcode.Builtin(), config.ResourcesOf(configtest.Config()))
	for _, c := range []struct {
		test string
		want []bool // of migrateOp, repairOp, commandOp, unknownOp
	}{
		{`["=~", "name", "^node/node1\\.gold\\.example$"]`, []bool{true, false, false, false}},
		{`["==", "name", "node/` + configtest.Node1 + `"]`, []bool{true, false, false, false}},
		{`["==", "name", "node/node3.gold.example"]`, []bool{false, true, false, false}},
		{`["&", ["==", "name", "node/node3.gold.example"], ["==", "mode", "shared"]]`, []bool{false, false, false, false}},
		{`["&", ["==", "name", "node/node3.gold.example"], ["==", "mode", "exclusive"]]`, []bool{false, true, false, false}},
		{`["&", ["==", "name", "node/node3.gold.example"], ["!=", "name", "node/` + nodeUUID(t, "node3.gold.example") + `"]]`, []bool{false, false, false, false}},
		{`["==", "name", "instance/inst1.gold.example"]`, []bool{true, false, false, false}},
		{`["==", "name", "lock/rack-3"]`, []bool{false, false, true, false}},
		{`["==", "name", "cluster/BGL"]`, []bool{false, false, false, true}},
		{`null`, []bool{true, true, true, true}},
	} {
		set := newSet(t, rule("l", 0, Action{Verb: Pause}, `[["lock", `+c.test+`]]`))
		for i, op := range []string{migrateOp, repairOp, commandOp, unknownOp} {
			require.Equal(t, c.want[i], set.Evaluate(subject(1, op), declare).Rule == 0, "%s %s", c.test, op)
		}
		require.Equal(t, -1, set.Evaluate(subject(1, migrateOp), nil).Rule)
	}
}

func nodeUUID(t *testing.T, name string) string {
	n, found := config.ResourcesOf(configtest.Config()).Node(name)
	require.True(t, found)
	return n.UUID
}

// A demand for all locks of a level is one for each object of the level. Without a configuration it is one for the group.
func TestAllLocksOfALevel(t *testing.T) {
	all := map[string]bool{}
	for _, l := range DeclareOf(opcode.Builtin(), config.ResourcesOf(configtest.Config()))(json.RawMessage(`{"OP_ID": "OP_CLUSTER_REPAIR_DISK_SIZES", "instances": []}`)) {
		for _, name := range l.Names {
			all[name] = true
		}
	}
	require.True(t, all["node-res/node1.gold.example"], "%v", all)
	require.True(t, all["node-res/"+configtest.Node1])
	require.True(t, all["node-res/[lockset]"])
	require.True(t, all["instance/inst1.gold.example"])
	require.False(t, all["instance/"+configtest.Inst1], "locks of instances have no UUIDs")
}

// The next opcode is the first one that is not final, and the one to which the subject was moved.
func TestTheNextOpcode(t *testing.T) {
	declare := DeclareOf(opcode.Builtin(), config.ResourcesOf(configtest.Config()))
	set := newSet(t, rule("l", 0, Action{Verb: Pause}, `[["lock", ["==", "name", "node/node3.gold.example"]]]`))
	j := job.New(1, []json.RawMessage{json.RawMessage(migrateOp), json.RawMessage(repairOp)}, []int{0, 0}, job.Timestamp{Sec: 1}, "")
	require.True(t, set.ReadsLocks())
	require.False(t, newSet(t, rule("o", 0, Action{Verb: Continue}, `[["lock", null]]`), rule("p", 0, Action{Verb: Pause}, `[["name", null]]`)).ReadsLocks())
	first := NewSubject(j, "", access.Submitter{})
	require.Equal(t, -1, set.Evaluate(first, declare).Rule)
	require.Equal(t, 0, set.Evaluate(first.At(1), declare).Rule)
	require.Same(t, first, first.At(0))
	require.Nil(t, first.At(2))
	j.Ops[0].Status = job.Success
	require.Equal(t, 0, set.Evaluate(NewSubject(j, "", access.Submitter{}), declare).Rule)
	j.Ops[1].Status = job.Success
	require.Equal(t, 0, set.Evaluate(NewSubject(j, "", access.Submitter{}), declare).Rule)
}

// The user is the one to whom the job belongs. What its reason trail says has no effect.
func TestUserAndNamePredicates(t *testing.T) {
	forged := `{"OP_ID": "OP_A", "reason": [["gnt:user", "uid=0(root)", 1], ["lockstep:user", "uid=7(eve)", 1]]}`
	alice, nameless, deploy := access.Submitter{UID: 1000, Name: "alice"}, access.Submitter{UID: 1000}, access.Submitter{UID: 1000, Remote: "deploy"}
	for _, c := range []struct {
		test string
		user access.Submitter
		want bool
	}{
		{`["==", "name", "alice"]`, alice, true},
		{`["==", "uid", 1000]`, alice, true},
		{`["==", "name", "root"]`, alice, false},
		{`["==", "name", "eve"]`, alice, false},
		{`["==", "uid", 1000]`, nameless, true},
		{`["==", "name", ""]`, nameless, true},
		{`["==", "name", "deploy"]`, deploy, true},
		{`["|", ["==", "uid", 1000], ["!=", "uid", 1000]]`, deploy, false},
		{`["|", ["==", "uid", 0], ["!=", "uid", 0]]`, access.Submitter{UID: access.NoUID}, false},
	} {
		set := newSet(t, rule("u", 0, Action{Verb: Pause}, `[["user", `+c.test+`]]`))
		of := NewSubject(job.New(1, []json.RawMessage{json.RawMessage(forged)}, []int{0}, job.Timestamp{Sec: 1}, ""), "", c.user)
		require.Equal(t, c.want, set.Evaluate(of, nil).Rule == 0, "%s %s", c.test, c.user)
	}
	named := newSet(t, rule("n", 0, Action{Verb: Pause}, `[["name", ["=~", "name", "^backup-"]]]`))
	s := subject(1, createOp)
	require.Equal(t, -1, named.Evaluate(s, nil).Rule)
	s = NewSubject(job.New(1, []json.RawMessage{json.RawMessage(createOp)}, []int{0}, job.Timestamp{Sec: 1}, ""), "backup-7", access.Submitter{})
	require.Equal(t, 0, named.Evaluate(s, nil).Rule)
}
