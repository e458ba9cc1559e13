package opcode

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/demand/demandtest"
	"lockstep/core/lock"
)

// drain is an example with nearly all features.
func drain() Definition {
	return Definition{
		Name: "OP_SITE_DRAIN", Doc: "Moves work away.", Summary: "nodes",
		Params: []ParamDefinition{
			{Name: "nodes", Type: "List of NonEmptyString", Required: true, Doc: "From where."},
			{Name: "target", Type: "NonEmptyString"},
			{Name: "speed", Type: "OneOf slow, fast", Default: json.RawMessage(` "slow" `)},
			{Name: "force", Type: "Boolean", Default: json.RawMessage(`false`)},
			{Name: "limit", Type: "Integer"},
			{Name: "wait", Type: "Seconds", Default: json.RawMessage(`90.50`)},
			{Name: "dir", Type: "AbsolutePath"},
			{Name: "options", Type: "Anything"},
			{Name: "password", Type: "String", Secret: true},
		},
		Command: []string{"drain", "--speed=${speed}", "--force=${force}", "--limit=${limit}", "${target}", "--", "${nodes}", "$${x} $$ $1 ${speed}${speed}"},
		Env:     map[string]string{"MODE": "drain-${speed}", "TARGET": "${target}", "PW": "pw:${password}"},
		Cwd:     "${dir}", Stdin: "${options}", Timeout: "${wait}",
		Locks: []LockDefinition{{"node/${nodes}", "exclusive"}, {"node/${target}", "shared"}, {"nodegroup/[lockset]", "shared"}, {"instance/${speed}.${nodes}", "shared"}},
	}
}

func drainCatalogue(t testing.TB) *Catalogue {
	c, err := Builtin().With([]Definition{drain()})
	require.NoError(t, err)
	return c
}

func parsed(t testing.TB, c *Catalogue, raw string) Draft {
	d, err := c.Parse(json.RawMessage(raw))
	require.NoError(t, err)
	return d
}

func handmadeResources(t testing.TB) *config.Resources {
	data, err := os.ReadFile("../config/testdata/resources.json")
	require.NoError(t, err)
	return config.ResourcesOf(configtest.Complete(t, data))
}

func requiredLocks(t *testing.T, c *Catalogue, input json.RawMessage, resources *config.Resources) string {
	n, err := c.RequiredLocks(input, resources)
	require.NoError(t, err)
	return demandtest.ShowRequiredLocks(n)
}

func TestADefinitionAddsAnOpcode(t *testing.T) {
	c := drainCatalogue(t)
	_, known := Builtin().Lookup("OP_SITE_DRAIN")
	require.False(t, known)
	op, known := c.Lookup("OP_SITE_DRAIN")
	require.True(t, known && op.Defined())
	require.Len(t, c.Names(), len(Builtin().Names())+1)
	require.Equal(t, "From where.", op.Params[0].Doc)

	d := parsed(t, c, `{"OP_ID": "OP_SITE_DRAIN", "nodes": ["n1", "n2"], "password": "sesame"}`)
	require.Equal(t, `{"nodes":["n1","n2"],"speed":"slow","force":false,"wait":90.50,"password":"<redacted>",`+commonDefaults+`"OP_ID":"OP_SITE_DRAIN"}`, string(d.Input))
	require.Equal(t, `{"password":"sesame"}`, string(d.Secrets))
	require.Equal(t, "SITE_DRAIN(n1 n2)", c.Summary(d.Input))
	require.Equal(t, "SITE_DRAIN", Summary(d.Input), "the built-in catalogue does not know what to show")

	require.Equal(t, lock.Declaration{BGL: true}, Builtin().Declare(d.Input, nil))
	require.Equal(t, "instance S slow.n1 slow.n2, nodegroup S ALL, node X n1-uuid n2-uuid", demandtest.ShowDeclaration(c.Declare(d.Input, handmadeResources(t))))
	require.Equal(t, "cluster/BGL S, instance/slow.n1 S, instance/slow.n2 S, nodegroup/[lockset] S, node/n1-uuid X, node/n2-uuid X",
		requiredLocks(t, c, d.Input, handmadeResources(t)))

	both := parsed(t, c, `{"OP_ID": "OP_SITE_DRAIN", "nodes": ["n1"], "target": "n1"}`)
	require.Equal(t, "cluster/BGL S, instance/slow.n1 S, nodegroup/[lockset] S, node/n1 X", requiredLocks(t, c, both.Input, nil),
		"the stronger mode includes the other")
}

// A name whose first word is no level is that of a free lock, whatever the values of parameters are.
func TestShortLockNamesInADefinition(t *testing.T) {
	for name, want := range map[string]string{
		"deploy":       "lock/deploy X",
		"db/x":         "lock/db/x X",
		"db/${target}": "lock/db/e/n1 X",
		"nod${target}": "lock/node/n1 X",
		"lock/a":       "lock/a X",
	} {
		d := drain()
		d.Locks = []LockDefinition{{name, "exclusive"}}
		c, err := Builtin().With([]Definition{d})
		require.NoError(t, err, name)
		input := parsed(t, c, `{"OP_ID": "OP_SITE_DRAIN", "nodes": ["n1"], "target": "e/n1"}`).Input
		require.Equal(t, "cluster/BGL S, "+want, requiredLocks(t, c, input, nil), name)
	}
}

func TestExpansion(t *testing.T) {
	c := drainCatalogue(t)
	expand := func(raw string) string {
		d := parsed(t, c, raw)
		command, err := c.Expand(d.Input, d.Secrets)
		require.NoError(t, err)
		text, err := json.Marshal(command)
		require.NoError(t, err)
		_, err = Builtin().Parse(append([]byte(`{"OP_ID":"OP_RUN_COMMAND",`), text[1:]...))
		require.NoError(t, err, "it has the shape of the command's parameters")
		return string(text)
	}
	require.JSONEq(t, `{"argv": ["drain", "--speed=slow", "--force=false", "--", "n1", "n 2;", "${x} $$ $1 slowslow"],
		"env": {"MODE": "drain-slow"}, "timeout": 90.5}`,
		expand(`{"OP_ID": "OP_SITE_DRAIN", "nodes": ["n1", "n 2;"]}`))
	require.JSONEq(t, `{"argv": ["drain", "--speed=fast", "--force=true", "--limit=-7", "a\"b\\", "--", "${x} $$ $1 fastfast"],
		"env": {"MODE": "drain-fast", "TARGET": "a\"b\\"}, "secret_env": {"PW": "pw:sesame"}, "cwd": "/tmp", "timeout": 1,
		"stdin": "{\"a\":[1,2.0]}"}`,
		expand(`{"OP_ID": "OP_SITE_DRAIN", "nodes": [], "target": "a\"b\\", "speed": "fast", "force": true, "limit": -7,
			"dir": "/tmp", "wait": 1, "options": {"a": [1, 2.0]}, "password": "sesame"}`))
}

func TestExpansionWithoutItsSecrets(t *testing.T) {
	c := drainCatalogue(t)
	d := parsed(t, c, `{"OP_ID": "OP_SITE_DRAIN", "nodes": [], "password": "sesame"}`)
	_, err := c.Expand(d.Input, nil)
	var failure *Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, "OpPrereqError", failure.Class)
	require.ErrorContains(t, err, "the value of password is gone")

	_, err = Builtin().Expand(d.Input, d.Secrets)
	require.Equal(t, &Failure{Class: "OpCodeUnknown", Text: "Unknown opcode"}, err)
	_, err = c.Expand(json.RawMessage(`{"OP_ID":"OP_RUN_COMMAND"}`), nil)
	require.Equal(t, &Failure{Class: "OpCodeUnknown", Text: "Unknown opcode"}, err)
}

func TestWhatCannotBeExpandedIsNotAccepted(t *testing.T) {
	c := drainCatalogue(t)
	for param, test := range map[string]struct{ value, want string }{
		"target": {`"[lockset]"`, "[lockset] would be all of them"},
		"nodes":  {`["a", "b\u0000"]`, "it contains NUL"},
		"limit":  {`1.5`, "want an integer"},
	} {
		raw := `{"OP_ID": "OP_SITE_DRAIN", "` + param + `": ` + test.value
		if param != "nodes" {
			raw += `, "nodes": []`
		}
		_, err := c.Parse(json.RawMessage(raw + "}"))
		requireInvalid(t, err, "OP_SITE_DRAIN", param)
		require.ErrorContains(t, err, test.want)
	}

	loose := Definition{Name: "OP_LOOSE", Command: []string{"${program}"}, Cwd: "${dir}", Timeout: "${wait}", Locks: []LockDefinition{{"node/${node}", "shared"}},
		Params: []ParamDefinition{{Name: "program", Type: "String", Required: true}, {Name: "dir", Type: "String"},
			{Name: "wait", Type: "String"}, {Name: "node", Type: "String or (List of String)"}}}
	c, err := Builtin().With([]Definition{loose})
	require.NoError(t, err)
	for params, want := range map[string]string{
		`"program": ""`:                     "the name of the program, which is empty",
		`"program": "a\u0000b"`:             "it contains NUL",
		`"program": "a", "dir": "b"`:        `the working directory would be "b", want an absolute path`,
		`"program": "a", "wait": "b"`:       `the time-out would be "b", want a number of seconds`,
		`"program": "a", "node": ""`:        "it is empty, but a lock is named after it",
		`"program": "a", "node": ["b", ""]`: "it is empty, but a lock is named after it",
	} {
		_, err := c.Parse(json.RawMessage(`{"OP_ID": "OP_LOOSE", ` + params + `}`))
		require.ErrorContains(t, err, want, params)
	}
	for params, want := range map[string]string{
		``: "nothing", `"node": "a", `: "cluster/BGL S, node/a S", `"node": [], `: "nothing", `"node": ["b", "a"], `: "cluster/BGL S, node/a S, node/b S",
	} {
		d := parsed(t, c, `{"OP_ID": "OP_LOOSE", `+params+`"program": "a"}`)
		require.Equal(t, want, requiredLocks(t, c, d.Input, nil))
	}
}

func TestErrorsOfDefinitions(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*Definition)
		want  string // field: text
	}{
		"name":             {func(d *Definition) { d.Name = "SITE" }, `name: "SITE" is no name for an opcode: want OP_`},
		"small name":       {func(d *Definition) { d.Name = "OP_site" }, "name: "},
		"known":            {func(d *Definition) { d.Name = "OP_TEST_DELAY" }, "name: there is an opcode OP_TEST_DELAY already"},
		"of later":         {func(d *Definition) { d.Name = "OP_NETWORK_RENAME" }, "name: there is an opcode OP_NETWORK_RENAME already"},
		"parameter":        {func(d *Definition) { d.Params[1].Name = "Target" }, `params[1].name: "Target" is no name for a parameter`},
		"common":           {func(d *Definition) { d.Params[4].Name = "priority" }, "params[4].name: every opcode has a parameter priority already"},
		"double":           {func(d *Definition) { d.Params[4].Name = "speed" }, "params[4].name: there is a parameter speed already"},
		"type":             {func(d *Definition) { d.Params[2].Type = "string" }, `params[2].type: type "string": unknown type "string"; there are, for instance, String`},
		"no type":          {func(d *Definition) { d.Params[2].Type = "" }, `params[2].type: `},
		"default":          {func(d *Definition) { d.Params[3].Default = json.RawMessage(`0`) }, "params[3].default: want true or false, found 0"},
		"bad default":      {func(d *Definition) { d.Params[3].Default = json.RawMessage(`{`) }, "params[3].default: an opcode must be valid JSON"},
		"required":         {func(d *Definition) { d.Params[3].Required = true }, "params[3].default: a parameter that is required needs no default"},
		"secret default":   {func(d *Definition) { d.Params[8].Default = json.RawMessage(`"x"`) }, "params[8].default: a secret parameter has no default"},
		"no command":       {func(d *Definition) { d.Command = nil }, "command: it is missing"},
		"empty program":    {func(d *Definition) { d.Command[0] = "" }, "command[0]: it is empty"},
		"optional program": {func(d *Definition) { d.Command[0] = "${target}" }, "command[0]: target cannot be the program"},
		"listed program":   {func(d *Definition) { d.Command[0] = "${nodes}" }, "command[0]: nodes cannot be the program"},
		"list within":      {func(d *Definition) { d.Command[1] = "--nodes=${nodes}" }, "command[1]: nodes is a list: let ${nodes} be an element of its own"},
		"unknown":          {func(d *Definition) { d.Command[1] = "${nobody}" }, "command[1]: ${nobody} stands for no parameter of this opcode"},
		"common in it":     {func(d *Definition) { d.Command[1] = "${priority}" }, "command[1]: ${priority} stands for no parameter"},
		"open":             {func(d *Definition) { d.Command[1] = "a ${nodes" }, "command[1]: ${ without }: write $${"},
		"NUL":              {func(d *Definition) { d.Command[1] = "a\x00" }, "command[1]: it contains NUL"},
		"secret argument":  {func(d *Definition) { d.Command[1] = "-p${password}" }, "command[1]: password is secret, and may be used in env only"},
		"secret input":     {func(d *Definition) { d.Stdin = "${password}" }, "stdin: password is secret"},
		"secret lock":      {func(d *Definition) { d.Locks[0].Lock = "node/${password}" }, "locks[0].lock: password is secret"},
		"secret summary":   {func(d *Definition) { d.Summary = "password" }, "summary: password is secret"},
		"summary":          {func(d *Definition) { d.Summary = "node" }, `summary: "node" is no parameter of this opcode`},
		"variable":         {func(d *Definition) { d.Env["A=B"] = "" }, "env.A=B: the name of a variable must be"},
		"value":            {func(d *Definition) { d.Env["A"] = "${b}" }, "env.A: ${b} stands for no parameter"},
		"directory":        {func(d *Definition) { d.Cwd = "tmp" }, `cwd: want an absolute path`},
		"time-out":         {func(d *Definition) { d.Timeout = "soon" }, `timeout: want a number of seconds greater than 0 and at most 1000000000, found "soon"`},
		"lock":             {func(d *Definition) { d.Locks[1].Lock = "nodes/${target}" }, `locks[1].lock: did you mean node/`},
		"no lock":          {func(d *Definition) { d.Locks[1].Lock = "" }, `locks[1].lock: want the name of a lock: `},
		"open level":       {func(d *Definition) { d.Locks[1].Lock = "${target}/a" }, `locks[1].lock: want the name of a lock: `},
		"cluster":          {func(d *Definition) { d.Locks[1].Lock = "cluster/${target}" }, `locks[1].lock: want the name of a lock: `},
		"configuration":    {func(d *Definition) { d.Locks[1].Lock = "cluster/config" }, `locks[1].lock: want the name of a lock: `},
		"mode":             {func(d *Definition) { d.Locks[1].Mode = "release" }, `locks[1].mode: want shared or exclusive, found "release"`},
		"two lists": {func(d *Definition) { d.Params[1].Type = "List of String"; d.Locks[1].Lock = "node/${nodes}-${target}" },
			"locks[1].lock: only one parameter in the name of a lock can be a list"},
	} {
		t.Run(name, func(t *testing.T) {
			d := drain()
			test.spoil(&d)
			_, err := Builtin().With([]Definition{{Name: "OP_OTHER", Command: []string{"true"}}, d})
			var faults DefinitionErrors
			require.True(t, errors.As(err, &faults))
			require.Equal(t, 1, faults[0].Definition)
			require.Contains(t, err.Error(), d.Name+": "+test.want)
		})
	}
	_, err := Builtin().With([]Definition{drain(), drain(), {Name: "OP_X"}})
	require.EqualError(t, err, "OP_SITE_DRAIN: name: there is an opcode OP_SITE_DRAIN already\nOP_X: command: it is missing: name a program, and its arguments")
}

// Any value stays one argument, and the text around it is unchanged.
func TestTemplatesNeverSplit(t *testing.T) {
	isParam := func(name string) bool { return name == "p" || name == "q" }
	rapid.Check(t, func(t *rapid.T) {
		literal := rapid.StringOf(rapid.SampledFrom([]rune("${}pq a")))
		before, after := literal.Draw(t, "before"), literal.Draw(t, "after")
		value := rapid.String().Draw(t, "value")
		escape := strings.NewReplacer("${", "$${")
		if strings.HasSuffix(before, "$") {
			before += " " // otherwise it would escape the next characters
		}
		source := escape.Replace(before) + "${p}" + escape.Replace(after)
		parsed, wrong := parseTemplate(source, isParam)
		require.Empty(t, wrong, source)
		text, complete := parsed.expand(func(param string) json.RawMessage {
			require.Equal(t, "p", param)
			v, _ := json.Marshal(value)
			return v
		})
		require.True(t, complete)
		require.Equal(t, before+value+after, text)
	})
}
