package demand_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/demand"
	"lockstep/core/demand/demandtest"
	"lockstep/core/lock"
	"lockstep/core/opcode"
)

func handmadeResources(t testing.TB) *config.Resources {
	data, err := os.ReadFile("../config/testdata/resources.json")
	require.NoError(t, err)
	return config.ResourcesOf(configtest.Complete(t, data))
}

// Scripts of the declared and required locks of opcodes. Each line of the input is the parameters of one opcode, each
// line of the output the result for it. X is exclusive, S shared.
//
//	declare OP_X [nowhere]     the prediction; "nowhere": without resources of the cluster
//	locks OP_X [nowhere]       the required locks
func TestLocks(t *testing.T) {
	resources := handmadeResources(t)
	seen := map[string]bool{}
	datadriven.Walk(t, "testdata/locks", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			name, known := d.CmdArgs[0].Key, resources
			if d.HasArg("nowhere") {
				known = nil
			}
			var answers []string
			for line := range strings.Lines(d.Input) {
				input := withID(strings.TrimSpace(line), name)
				require.True(t, json.Valid(input), "%s: %s", d.Pos, input)
				switch d.Cmd {
				case "declare":
					seen[name] = true
					answers = append(answers, demandtest.ShowDeclaration(opcode.Builtin().Declare(input, known)))
				case "locks":
					answers = append(answers, showRequiredLocks(opcode.Builtin().RequiredLocks(input, known)))
				default:
					d.Fatalf(t, "unknown verb %s", d.Cmd)
				}
			}
			return strings.Join(answers, "\n") + "\n"
		})
	})
	for _, name := range opcode.Builtin().Names() {
		require.True(t, seen[name], "no example of %s", name)
	}
}

func showRequiredLocks(required lock.RequiredLocks, err error) string {
	var failure *opcode.Failure
	switch {
	case errors.As(err, &failure):
		return failure.Class + " " + failure.Code + ": " + failure.Text
	case err != nil:
		return err.Error()
	}
	return demandtest.ShowRequiredLocks(required)
}

// withID puts the id last, as in stored opcodes.
func withID(params, opcode string) json.RawMessage {
	params = strings.TrimSuffix(params, "}")
	if params != "{" {
		params += ", "
	}
	return json.RawMessage(params + `"OP_ID": "` + opcode + `"}`)
}

func TestEveryOpcodeHasARowOfLocks(t *testing.T) {
	for _, name := range opcode.Builtin().Names() {
		require.True(t, demand.Listed(name) != (name == demand.RunCommand), "%s", name)
	}
}

// Malformed input is declared as the big lock, and requires no lock.
func TestUnreadableOpcodes(t *testing.T) {
	for _, input := range []string{``, `{`, `[]`, `null`, `{}`, `{"OP_ID": 1}`, `{"OP_ID": "OP_NO_SUCH"}`, `{"OP_ID": "OP_CLUSTER_QU`} {
		require.Equal(t, lock.Declaration{BGL: true}, opcode.Builtin().Declare(json.RawMessage(input), nil), input)
		n, err := opcode.Builtin().RequiredLocks(json.RawMessage(input), nil)
		require.NoError(t, err)
		require.Equal(t, lock.RequiredLocks{}, n)
	}
}

// Required locks are declared, in lock order, and include the big lock.
func TestLocksAreInOrderAndDeclared(t *testing.T) {
	r := handmadeResources(t)
	for _, raw := range []string{
		`{"duration": 1, "on_nodes": ["n5", "n2", "n5.example"], "no_locks": false, "OP_ID": "OP_TEST_DELAY"}`,
		`{"OP_ID": "OP_TEST_JQUEUE"}`, `{"OP_ID": "OP_CLUSTER_SET_PARAMS"}`, `{"OP_ID": "OP_CLUSTER_REDIST_CONF"}`,
		`{"argv": ["x"], "locks": [["node/z", "shared"], ["instance/b", "exclusive"], ["node/[lockset]", "shared"]], "OP_ID": "OP_RUN_COMMAND"}`,
	} {
		input := json.RawMessage(raw)
		n, err := opcode.Builtin().RequiredLocks(input, r)
		require.NoError(t, err)
		require.True(t, slices.IsSortedFunc(n.Request, lock.Item.Compare))
		require.Equal(t, lock.Item{Lock: lock.BGL, Mode: lock.Shared}, n.Request[0])
		require.Equal(t, opcode.Builtin().Declare(input, r), lock.DeclarationOf(n.Request...), raw)
	}
}

func command(fields string) string { return `{"OP_ID":"OP_RUN_COMMAND",` + fields + `}` }

// A short name that is also a node or an instance is refused; either full name is accepted.
func TestShortLockNames(t *testing.T) {
	resources := handmadeResources(t)
	check := func(params string) error {
		draft, err := opcode.Builtin().Parse(json.RawMessage(command(`"argv":["a"],` + params)))
		require.NoError(t, err)
		return opcode.Builtin().CheckShortLockNames(draft.Input, resources, false)
	}
	require.EqualError(t, check(`"locks": [["n2", "shared"]]`),
		`"n2" in 'locks' is the name of a free lock and of a cluster's node: write lock/n2 for the free lock, node/n2 for the lock of the node`)
	require.EqualError(t, check(`"opportunistic_locks": [["mail", "shared"]]`),
		`"mail" in 'opportunistic_locks' is the name of a free lock and of a cluster's instance: write lock/mail for the free lock, instance/mail for the lock of the instance`)
	require.NoError(t, check(`"locks": [["deploy", "shared"], ["lock/n2", "shared"], ["node/n2", "shared"]]`))
	require.NoError(t, opcode.Builtin().CheckShortLockNames(json.RawMessage(`{"OP_ID":"OP_TEST_DELAY","locks":[["n2","shared"]]}`), resources, false))
}

// In Ganeti mode a name with a slash needs its level, so that a mistyped level is no free lock.
func TestShortLockNamesWithASlash(t *testing.T) {
	draft, err := opcode.Builtin().Parse(json.RawMessage(command(`"argv":["a"],"locks":[["db/x","exclusive"]]`)))
	require.NoError(t, err)
	require.NoError(t, opcode.Builtin().CheckShortLockNames(draft.Input, nil, false))
	required, err := opcode.Builtin().RequiredLocks(draft.Input, nil)
	require.NoError(t, err)
	require.Equal(t, "lock/db/x", required.Request[len(required.Request)-1].Lock.String())
	require.EqualError(t, opcode.Builtin().CheckShortLockNames(draft.Input, nil, true),
		`"db/x" in 'locks' does not begin with a level of locks: write lock/db/x for a free lock`)
	for _, name := range []string{"deploy", "lock/db/x"} {
		require.NoError(t, opcode.Builtin().CheckShortLockNames(json.RawMessage(command(`"locks":[["`+name+`","shared"]]`)), nil, true))
	}

	_, err = opcode.Builtin().Parse(json.RawMessage(command(`"argv":["a"],"locks":[["nodes/n1","exclusive"]]`)))
	require.ErrorContains(t, err, `found "nodes/n1": did you mean node/n1? A lock of your own with this name is lock/nodes/n1`)
}

func BenchmarkDeclare(b *testing.B) {
	r := handmadeResources(b)
	for name, raw := range map[string]string{
		"delay":   `{"OP_ID": "OP_TEST_DELAY", "duration": 1, "on_nodes": ["n1", "n2"], "no_locks": false}`,
		"command": `{"OP_ID": "OP_RUN_COMMAND", "argv": ["gzip", "-9", "file"], "locks": [["node/n1", "exclusive"], ["instance/i", "shared"]]}`,
		"plain":   `{"OP_ID": "OP_RUN_COMMAND", "argv": ["gzip", "-9", "file"]}`,
		"replace": `{"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": "mail", "mode": "replace_on_primary"}`,
		"create":  `{"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "x", "disks": [{"size": 1024}], "mode": "create", "nics": [], "pnode": "n1", "snode": "n2"}`,
	} {
		draft, err := opcode.Builtin().Parse(json.RawMessage(raw))
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lock.Merge(opcode.Builtin().Declare(draft.Input, r))
			}
		})
	}
}
