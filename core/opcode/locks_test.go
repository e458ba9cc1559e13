package opcode

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
	"lockstep/core/lock"
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
			opcode, known := d.CmdArgs[0].Key, resources
			if d.HasArg("nowhere") {
				known = nil
			}
			var answers []string
			for line := range strings.Lines(d.Input) {
				input := withID(strings.TrimSpace(line), opcode)
				require.True(t, json.Valid(input), "%s: %s", d.Pos, input)
				switch d.Cmd {
				case "declare":
					seen[opcode] = true
					answers = append(answers, showDeclaration(Builtin().Declare(input, known)))
				case "locks":
					answers = append(answers, showRequiredLocks(Builtin().RequiredLocks(input, known)))
				default:
					d.Fatalf(t, "unknown verb %s", d.Cmd)
				}
			}
			return strings.Join(answers, "\n") + "\n"
		})
	})
	for _, name := range Builtin().Names() {
		require.True(t, seen[name], "no example of %s", name)
	}
}

// withID puts the id last, as in stored opcodes.
func withID(params, opcode string) json.RawMessage {
	params = strings.TrimSuffix(params, "}")
	if params != "{" {
		params += ", "
	}
	return json.RawMessage(params + `"OP_ID": "` + opcode + `"}`)
}

var shownDemandKinds = map[lock.DemandKind]string{
	lock.SharedSet: "S", lock.UnknownShared: "S some", lock.AllShared: "S ALL",
	lock.ExclusiveSet: "X", lock.UnknownExclusive: "X some", lock.AllExclusive: "X ALL",
}

func showDeclaration(d lock.Declaration) string {
	var parts []string
	if d.BGL {
		parts = append(parts, "BGL")
	}
	for level := lock.Instance; level <= lock.Network; level++ {
		if want := d.At(level); want.Kind != lock.Nothing {
			words := append([]string{level.String(), shownDemandKinds[want.Kind]}, want.Names...)
			parts = append(parts, strings.Join(words, " "))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func showRequiredLocks(required lock.RequiredLocks, err error) string {
	if err != nil {
		var failure *Failure
		if !errors.As(err, &failure) {
			return err.Error()
		}
		return failure.Class + " " + failure.Code + ": " + failure.Text
	}
	text := "nothing"
	if required.Request != nil {
		text = showItems(required.Request)
	}
	if required.AnyOf != nil {
		text += "; at least " + string('0'+rune(required.Count)) + " of " + showItems(required.AnyOf)
	}
	return text
}

func showItems(items []lock.Item) string {
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = item.Lock.String() + " " + map[lock.Mode]string{lock.Shared: "S", lock.Exclusive: "X"}[item.Mode]
	}
	return strings.Join(parts, ", ")
}

func TestEveryOpcodeHasARowOfLocks(t *testing.T) {
	for _, name := range Builtin().Names() {
		_, listed := lockTable[name]
		op, _ := Builtin().Lookup(name)
		require.True(t, listed != (op.requiredLocks != nil), "%s", name)
	}
	require.Len(t, lockTable, 76)
	for name, claims := range lockTable {
		for _, c := range claims {
			require.NotEmpty(t, c.levels, name)
		}
	}
}

// Malformed input is declared as the big lock, and requires no lock.
func TestUnreadableOpcodes(t *testing.T) {
	for _, input := range []string{``, `{`, `[]`, `null`, `{}`, `{"OP_ID": 1}`, `{"OP_ID": "OP_NO_SUCH"}`, `{"OP_ID": "OP_CLUSTER_QU`} {
		require.Equal(t, lock.Declaration{BGL: true}, Builtin().Declare(json.RawMessage(input), nil), input)
		n, err := Builtin().RequiredLocks(json.RawMessage(input), nil)
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
		n, err := Builtin().RequiredLocks(input, r)
		require.NoError(t, err)
		require.True(t, slices.IsSortedFunc(n.Request, lock.Item.Compare))
		require.Equal(t, lock.Item{Lock: lock.BGL, Mode: lock.Shared}, n.Request[0])
		require.Equal(t, Builtin().Declare(input, r), lock.DeclarationOf(n.Request...), raw)
	}
}

func TestRunCommandRefusesLocksThatCannotBe(t *testing.T) {
	const want = `want the name of a lock: cluster/BGL, or one of instance/, nodegroup/, node/, node-res/ and network/ followed by a name, or by [lockset] for all of its kind; or a name of 1 to 100 letters, digits, dots, underscores and hyphens, with or without lock/ before it, found `
	for _, test := range []struct{ params, param, text string }{
		{`"locks": [["nodes/a", "shared"]]`, "locks", `at [0][0] ` + want + `"nodes/a"`},
		{`"locks": [["cluster/config", "shared"]]`, "locks", `at [0][0] ` + want + `"cluster/config"`},
		{`"locks": [["cluster/[lockset]", "shared"]]`, "locks", `at [0][0] ` + want + `"cluster/[lockset]"`},
		{`"locks": [["node/", "shared"]]`, "locks", `at [0][0] ` + want + `"node/"`},
		{`"locks": [["node", "shared"]]`, "locks", `at [0][0] ` + want + `"node"`},
		{`"locks": [["BGL", "shared"]]`, "locks", `at [0][0] ` + want + `"BGL"`},
		{`"locks": [["lock/", "shared"]]`, "locks", `at [0][0] ` + want + `"lock/"`},
		{`"locks": [["lock/[lockset]", "shared"]]`, "locks", `at [0][0] ` + want + `"lock/[lockset]"`},
		{`"locks": [["deploy", "shared"], ["lock/deploy", "exclusive"]]`, "locks", `it has "lock/deploy" both shared and exclusive: name each lock once`},
		{`"locks": [["node/a", "release"]]`, "locks", `at [0][1] want one of "shared", "exclusive", found "release"`},
		{`"locks": [["node/a"]]`, "locks", `found a list of 1`},
		{`"locks": [["node/a", "shared"], ["node/a", "exclusive"]]`, "locks", `it has "node/a" both shared and exclusive: name each lock once`},
		{`"opportunistic_locks": [["node/a", "shared"], ["network/a", "shared"]]`, "opportunistic_locks", `it has locks of level node and of level network: they must be of one level`},
		{`"opportunistic_locks": [["node/[lockset]", "shared"]]`, "opportunistic_locks", `node/[lockset] is no choice: name the locks of which some suffice, and put what is needed in any case into locks`},
		{`"opportunistic_locks": [["cluster/BGL", "shared"]]`, "opportunistic_locks", `cluster/BGL is no choice`},
		{`"opportunistic_locks": [["node/b", "shared"]], "locks": [["node/a", "shared"]]`, "opportunistic_locks", `locks has node/a, which is of level node, too: the locks of a level are all needed or all opportunistic`},
		{`"opportunistic_locks": [["node/b", "shared"]], "opportunistic_count": 2`, "opportunistic_count", `of 1 different locks in opportunistic_locks 2 cannot be obtained: give more locks, or want fewer`},
		{`"opportunistic_count": 2`, "opportunistic_count", `it says how many of opportunistic_locks are needed at least, but there are none of these: give some, or leave it out`},
		{`"opportunistic_count": 0`, "opportunistic_count", `want null or an integer greater than 0, found 0`},
		{`"opportunistic_locks": [["node/b", "shared"]], "opportunistic_count": 99999999999`, "opportunistic_count", `cannot be obtained`},
	} {
		_, err := Builtin().Parse(json.RawMessage(command(`"argv":["a"],` + test.params)))
		requireInvalid(t, err, "OP_RUN_COMMAND", test.param)
		require.ErrorContains(t, err, "Can't parse value for '"+test.param+"': ")
		require.ErrorContains(t, err, test.text)
	}
	draft, err := Builtin().Parse(json.RawMessage(command(`"argv":["a"],"locks":[],"opportunistic_locks":null,"opportunistic_count":1`)))
	require.NoError(t, err)
	require.Equal(t, `{"argv":["a"],"env":{},"locks":[],"opportunistic_count":1,`+commonDefaults+`"OP_ID":"OP_RUN_COMMAND"}`, string(draft.Input))
}

// A bare name that is also a node or an instance is refused; either full name is accepted.
func TestBareLockNames(t *testing.T) {
	resources := handmadeResources(t)
	check := func(params string) error {
		draft, err := Builtin().Parse(json.RawMessage(command(`"argv":["a"],` + params)))
		require.NoError(t, err)
		return Builtin().CheckBareLockNames(draft.Input, resources)
	}
	require.EqualError(t, check(`"locks": [["n2", "shared"]]`),
		`"n2" in 'locks' is the name of a free lock and of a cluster's node: write lock/n2 for the free lock, node/n2 for the lock of the node`)
	require.EqualError(t, check(`"opportunistic_locks": [["mail", "shared"]]`),
		`"mail" in 'opportunistic_locks' is the name of a free lock and of a cluster's instance: write lock/mail for the free lock, instance/mail for the lock of the instance`)
	require.NoError(t, check(`"locks": [["deploy", "shared"], ["lock/n2", "shared"], ["node/n2", "shared"]]`))
	require.NoError(t, Builtin().CheckBareLockNames(json.RawMessage(`{"OP_ID":"OP_TEST_DELAY","locks":[["n2","shared"]]}`), resources))
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
		draft, err := Builtin().Parse(json.RawMessage(raw))
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lock.Merge(Builtin().Declare(draft.Input, r))
			}
		})
	}
}
