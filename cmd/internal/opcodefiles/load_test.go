package opcodefiles

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/opcode"
)

const drainYAML = `# Moves the work of some nodes away.
name: OP_SITE_DRAIN
doc: Moves work away.
summary: nodes
params:
  - name: nodes
    type: List of NonEmptyString
    required: true
    doc: From where.
  - {name: speed, type: "OneOf slow, fast", default: slow}
  - {name: wait, type: Seconds, default: 90.50}
  - {name: extra, type: Anything, default: {a: [1, 2.0, yes, ~, 2026-01-02, 0x10], "b": null}}
  - {name: password, type: String, secret: true}
command:
  - /usr/local/sbin/drain
  - --speed=${speed}
  - -n
  - 3
  - "${nodes}"
env:
  PW: ${password}
  DEBUG: true
cwd: /var/tmp
stdin: |
  first line
  ${extra}
timeout: ${wait}
locks:
  node/${nodes}: exclusive
  nodegroup/[lockset]: shared
`

func writeFiles(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

func TestLoadOpcodes(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"b.yaml": drainYAML, "a.yaml": "name: OP_A\ncommand: [a]\n---\nname: OP_B\ncommand: [b]\ntimeout: 60\n---\nname: OP_C\ncommand: [c]\ntimeout: 1h30m\n",
		"README": "no YAML", ".a.yaml": "{", "a.yaml~": "{", "old.yml": "{",
	})
	definitions, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, []opcode.Definition{
		{Name: "OP_A", Command: []string{"a"}},
		{Name: "OP_B", Command: []string{"b"}, Timeout: "60"},
		{Name: "OP_C", Command: []string{"c"}, Timeout: "5400"},
		{
			Name: "OP_SITE_DRAIN", Doc: "Moves work away.", Summary: "nodes",
			Params: []opcode.ParamDefinition{
				{Name: "nodes", Type: "List of NonEmptyString", Required: true, Doc: "From where."},
				{Name: "speed", Type: "OneOf slow, fast", Default: json.RawMessage(`"slow"`)},
				{Name: "wait", Type: "Seconds", Default: json.RawMessage(`90.50`)},
				{Name: "extra", Type: "Anything", Default: json.RawMessage(`{"a":[1,2.0,"yes",null,"2026-01-02",16],"b":null}`)},
				{Name: "password", Type: "String", Secret: true},
			},
			Command: []string{"/usr/local/sbin/drain", "--speed=${speed}", "-n", "3", "${nodes}"},
			Env:     map[string]string{"PW": "${password}", "DEBUG": "true"},
			Cwd:     "/var/tmp", Stdin: "first line\n${extra}\n", Timeout: "${wait}",
			Locks: []opcode.LockDefinition{{Lock: "node/${nodes}", Mode: "exclusive"}, {Lock: "nodegroup/[lockset]", Mode: "shared"}},
		},
	}, definitions)
	c, err := opcode.Builtin().With(definitions)
	require.NoError(t, err)
	_, known := c.Lookup("OP_SITE_DRAIN")
	require.True(t, known)
}

func TestNoOpcodesDeclared(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		definitions, err := Load(dir)
		require.NoError(t, err)
		require.Empty(t, definitions)
	}
	_, err := Load("/dev/null")
	require.ErrorContains(t, err, "read opcodes: ")
}

func TestLoadFilesThatAreNamed(t *testing.T) {
	dir := writeFiles(t, map[string]string{"b.yaml": "name: OP_B\ncommand: [b]\n", "a.new": "name: OP_A\ncommand: [a]\n", "c.yaml": "name: OP_B\ncommand: [c]\n"})
	definitions, err := LoadFiles([]string{filepath.Join(dir, "b.yaml"), filepath.Join(dir, "a.new")})
	require.NoError(t, err)
	require.Equal(t, []opcode.Definition{{Name: "OP_B", Command: []string{"b"}}, {Name: "OP_A", Command: []string{"a"}}}, definitions)

	_, err = LoadFiles([]string{filepath.Join(dir, "b.yaml"), filepath.Join(dir, "c.yaml"), filepath.Join(dir, "d.yaml")})
	require.EqualError(t, err, filepath.Join(dir, "c.yaml")+":1: name: there is an opcode OP_B already\n"+
		filepath.Join(dir, "d.yaml")+": no such file or directory")
}

func TestMistakesInOpcodesSayWhere(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"empty":           {"", ": there is no opcode in it"},
		"comment":         {"# nothing\n", ": there is no opcode in it"},
		"syntax":          {"name: OP_A\n  command: [a]\n", ":2: mapping values are not allowed in this context"},
		"open":            {"name: OP_A\ncommand: [a\n", ":"},
		"list":            {"- name: OP_A\n", `:1: want "key: value" lines, found a list`},
		"unknown":         {"name: OP_A\ncommand: [a]\ncommands: [b]\n", ":3: commands: there is no such field, but command, cwd, doc, env, keep_output, limits, locks, name, params, retry, stdin, submit, summary, timeout, user"},
		"retry":           {"name: OP_A\ncommand: [a]\nretry: 6\n", ":3: retry: want null, a number of further tries from 1 to 5"},
		"retry within":    {"name: OP_A\ncommand: [a]\nretry:\n  times: 2\n  delay: soon\n", ":5: retry.delay: want a number of seconds"},
		"retry on":        {"name: OP_A\ncommand: [a]\nretry:\n  times: 2\n  on: [signal]\n", ":5: retry.on: want a list of exit statuses"},
		"retry no times":  {"name: OP_A\ncommand: [a]\nretry:\n  delay: 1s\n", ":3: retry.times: want a number of further tries"},
		"user":            {"name: OP_A\ncommand: [a]\nuser: 0\n", `:3: user: "0" is no name of a user`},
		"submit":          {"name: OP_A\ncommand: [a]\nsubmit: all\n", `:3: submit: want true, or a list`},
		"submitter":       {"name: OP_A\ncommand: [a]\nsubmit: [alice, 'group:']\n", `:3: submit: "group:" names no user and no group`},
		"unknown within":  {"name: OP_A\ncommand: [a]\nparams:\n- name: a\n  type: String\n  kind: x\n", ":6: params[0].kind: there is no such field, but default, doc, name, required, secret, type"},
		"twice":           {"name: OP_A\ncommand: [a]\nname: OP_B\n", `:3: the key "name" is given twice`},
		"no list":         {"name: OP_A\ncommand: a b\n", `:2: command: want a list, found "a b"`},
		"no text":         {"name: OP_A\ncommand:\n- a\n- [b]\n", `:4: command[1]: want a text, found a list`},
		"nothing":         {"name: OP_A\ncommand: [a]\nstdin:\n", `:3: stdin: want a text, found nothing`},
		"colon":           {"name: OP_A\ncommand:\n- a\n- b: c\n", `:4: command[1]: want a text, found "key: value" lines (text with a colon in it needs quotes)`},
		"flag":            {"name: OP_A\ncommand: [a]\nparams:\n- {name: a, type: String, required: maybe}\n", `:4: params[0].required: want true or false, found "maybe"`},
		"no JSON":         {"name: OP_A\ncommand: [a]\nparams:\n- {name: a, type: Float, default: .inf}\n", `:4: .inf is not a number that JSON has`},
		"alias":           {"name: &n OP_A\ncommand: [a, *n]\ncwd: *n\n", `:3: cwd: `},
		"endless alias":   {"name: OP_A\ncommand: [a]\nparams:\n- {name: a, type: Anything, default: &c [*c]}\n", `:4: the file is nested too deeply or its aliases make it too large`},
		"merge":           {"name: OP_A\ncommand: [a]\nenv:\n  <<: {A: b}\n", `:4: merging with << is not supported; write the keys out`},
		"missing":         {"\nname: OP_A\n", `:2: command: it is missing: name a program, and its arguments`},
		"known":           {"name: OP_QUERY\ncommand: [a]\n", `:1: name: there is an opcode OP_QUERY already`},
		"type":            {"name: OP_A\ncommand: [a]\nparams:\n- name: a\n  type: string\n", `:5: params[0].type: type "string": unknown type "string"; there are, for instance, String`},
		"no type":         {"name: OP_A\ncommand: [a]\nparams:\n- name: a\n", `:4: params[0].type: type "": unknown type ""`},
		"default":         {"name: OP_A\ncommand: [a]\nparams:\n- name: a\n  type: Integer\n  default: x\n", `:6: params[0].default: want an integer`},
		"template":        {"name: OP_A\ncommand:\n- a\n- ${x}\n", `:4: command[1]: ${x} stands for no parameter of this opcode`},
		"variable":        {"name: OP_A\ncommand: [a]\nenv:\n  A: b\n  C.D: ${x}\n", `:5: env.C.D: ${x} stands for no parameter`},
		"lock":            {"name: OP_A\ncommand: [a]\nlocks:\n  node/a: shared\n  nodes/b: shared\n", `:5: locks[1].lock: did you mean node/b? A lock of your own with this name is lock/nodes/b`},
		"mode":            {"name: OP_A\ncommand: [a]\nlocks:\n  node/a: share\n", `:4: locks[0].mode: want shared or exclusive, found "share"`},
		"lock twice":      {"name: OP_A\ncommand: [a]\nlocks:\n  node/a: shared\n  node/a: exclusive\n", `:5: the key "node/a" is given twice`},
		"second document": {"name: OP_A\ncommand: [a]\n---\nname: OP_A\ncommand: [a]\n", `:4: name: there is an opcode OP_A already`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeFiles(t, map[string]string{"x.yaml": test.content})
			definitions, err := Load(dir)
			require.Nil(t, definitions)
			require.ErrorContains(t, err, filepath.Join(dir, "x.yaml")+test.want)
			require.NotContains(t, err.Error(), "\n", "one mistake, one line")
		})
	}
}

func TestTheErrorListsAllMistakesOfAllFiles(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"a.yaml": "name: OP_A\ncommand: [a]\ncwd: b\ntimeout: c\n",
		"b.yaml": "name: OP_B\nkommand: [a]\n",
		"c.yaml": "name: OP_A\ncommand: [a]\n",
		"d.yaml": "{",
		"e.yaml": "name: OP_E\ncommand: [e]\n",
	})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "f.yaml"), 0o700))
	_, err := Load(dir)
	require.Error(t, err)
	var places []string
	for line := range strings.Lines(err.Error()) {
		place, _, _ := strings.Cut(strings.TrimPrefix(line, dir+"/"), ": ")
		places = append(places, place)
	}
	require.Equal(t, []string{"a.yaml:3", "a.yaml:4", "b.yaml:2", "c.yaml:1", "d.yaml:1", "f.yaml"}, places, "%v", err)
}

// Limits of a declaration are the default of the parameter limits, and its mistakes name their line.
func TestTheLimitsOfAnOpcode(t *testing.T) {
	load := func(limits string) error {
		definitions, err := Load(writeFiles(t, map[string]string{"a.yaml": "name: OP_A\ncommand: [a]\nlimits:\n  nice: 5\n  " + limits + "\n"}))
		if err != nil {
			return err
		}
		c, err := opcode.Builtin().With(definitions)
		require.NoError(t, err)
		op, known := c.Lookup("OP_A")
		require.True(t, known)
		i := slices.IndexFunc(op.Params, func(p opcode.Param) bool { return p.Name == "limits" })
		require.JSONEq(t, `{"nice": 5, "memory": "2G"}`, string(op.Params[i].Default))
		return nil
	}
	require.NoError(t, load("memory: 2G"))
	require.ErrorContains(t, load("memory: banana"), `a.yaml:5: limits.memory: want a size from 1MiB on, like "2G" or "512MiB"`)
	require.ErrorContains(t, load("swap: 1"), "a.yaml:5: limits.swap: want only memory, cpus, tasks, io_weight and nice here")
}

func TestTheRetriesOfAnOpcode(t *testing.T) {
	for field, want := range map[string]string{
		"": "", "retry: 3\n": `3`,
		"retry: {times: 5, delay: 10s, max_delay: 10m, on: [1, 75, timeout, lost]}\n": `{"times": 5, "delay": 10, "max_delay": 600, "on": [1, 75, "timeout", "lost"]}`,
	} {
		definitions, err := Load(writeFiles(t, map[string]string{"a.yaml": "name: OP_A\ncommand: [a]\n" + field}))
		require.NoError(t, err, field)
		if want == "" {
			require.Nil(t, definitions[0].Retry)
			continue
		}
		require.JSONEq(t, want, string(definitions[0].Retry))
		c, err := opcode.Builtin().With(definitions)
		require.NoError(t, err)
		op, known := c.Lookup("OP_A")
		require.True(t, known)
		i := slices.IndexFunc(op.Params, func(p opcode.Param) bool { return p.Name == "retry" })
		require.JSONEq(t, want, string(op.Params[i].Default), "a submission without the parameter has the policy of the file")
	}
}

func TestWhoMaySubmitAnOpcode(t *testing.T) {
	for field, want := range map[string]opcode.Submitters{
		"":                               {},
		"submit: true\n":                 {All: true},
		"submit: false\n":                {},
		"submit: [alice, 'group:dba']\n": {Users: []string{"alice"}, Groups: []string{"dba"}},
	} {
		definitions, err := Load(writeFiles(t, map[string]string{"x.yaml": "name: OP_A\ncommand: [a]\nuser: submitter\n" + field}))
		require.NoError(t, err)
		require.Equal(t, want, definitions[0].Submitters, field)
		catalogue, err := opcode.Builtin().With(definitions)
		require.NoError(t, err)
		op, _ := catalogue.Lookup("OP_A")
		require.Equal(t, opcode.AsSubmitter, op.RunAs())
		require.Equal(t, want, op.MaySubmit())
	}
}
