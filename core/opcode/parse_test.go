package opcode

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGanetisTexts has the answers of a real Ganeti 3.0.2, after "Failed to parse request: SubmitJob: ". All opcodes
// have a reason, because Ganeti reports a missing reason first.
func TestGanetisTexts(t *testing.T) {
	for _, test := range []struct{ raw, text string }{
		{`{"OP_ID": "OP_NO_SUCH", "reason": []}`, `Unknown opcode OP_NO_SUCH`},
		{`{"OP_ID": "OP_TEST_DELAY", "reason": []}`, `key 'duration' not found, object contains only ["OP_ID","reason"]`},
		{
			`{"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "nosuch": 1, "reason": []}`,
			`Superfluous dictionary keys: ["nosuch"], but only ["OP_ID","comment","debug_level","depends","dry_run","duration",` +
				`"interruptible","no_locks","on_master","on_node_uuids","on_nodes","priority","reason","repeat"] allowed.`,
		},
		{`{}`, `key 'OP_ID' not found, object contains only []`},
	} {
		_, err := Builtin().Parse(json.RawMessage(test.raw))
		require.EqualError(t, err, test.text)
	}
	for _, test := range []struct{ raw, prefix, allowed string }{
		{
			`{"OP_ID": "OP_TEST_DELAY", "duration": "x", "reason": []}`,
			`Can't parse value for 'duration': Unable to read Double`,
			": want a number (in the range of a double), found a string",
		},
		{
			`{"duration": 0.01, "on_master": true, "on_nodes": [], "on_node_uuids": null, "repeat": 0, "interruptible": false,` +
				`"no_locks": true, "dry_run": null, "debug_level": null, "priority": -99, "depends": null, "comment": null,` +
				`"reason": [], "OP_ID": "OP_TEST_DELAY"}`,
			`Can't parse value for 'priority': Invalid string value for type OpSubmitPriority: -99`,
			": want -10 (high), 0 (normal) or 10 (low), found -99",
		},
	} {
		_, err := Builtin().Parse(json.RawMessage(test.raw))
		require.EqualError(t, err, test.prefix+test.allowed)
	}
}

func delay(fields string) string { return `{"OP_ID":"OP_TEST_DELAY","duration":1` + fields + `}` }

func command(fields string) string { return `{"OP_ID":"OP_RUN_COMMAND",` + fields + `}` }

const delayDefaults = `"on_master":true,"on_nodes":[],"repeat":0,"interruptible":false,"no_locks":true,`

const commonDefaults = `"priority":0,"depends":null,"comment":null,"reason":[],`

func TestNormalisation(t *testing.T) {
	for _, test := range []struct{ name, raw, input string }{
		{"defaults", delay(``), `{"duration":1,` + delayDefaults + commonDefaults + `"OP_ID":"OP_TEST_DELAY"}`},
		{
			"nulls are absent",
			delay(`,"on_master":null,"on_nodes":null,"repeat":null,"on_node_uuids":null,"dry_run":null,"debug_level":null,` +
				`"priority":null,"depends":null,"comment":null,"reason":null`),
			`{"duration":1,` + delayDefaults + commonDefaults + `"OP_ID":"OP_TEST_DELAY"}`,
		},
		{
			"everything set, order and blanks",
			"\n{ \"reason\" : [ [\"a  b\", \"\", 1] ], \"OP_ID\" : \"OP_TEST_DELAY\", \"comment\":\"c\\u00e4\", \"depends\":[ ],\t" +
				`"priority": -10, "debug_level": 3, "dry_run": false, "no_locks": false, "interruptible":true, "repeat": 2,` +
				`"on_node_uuids": [ "u" , "v" ], "on_nodes": ["n"], "on_master": false, "duration": 1.0e-2 }` + "\r\n",
			`{"duration":1.0e-2,"on_master":false,"on_nodes":["n"],"on_node_uuids":["u","v"],"repeat":2,"interruptible":true,` +
				`"no_locks":false,"dry_run":false,"debug_level":3,"priority":-10,"depends":[],"comment":"c\u00e4",` +
				`"reason":[["a  b","",1]],"OP_ID":"OP_TEST_DELAY"}`,
		},
		{
			"ids of dependencies become numbers",
			delay(`,"depends":[["12",["success"]],[-1,[]],["-3",["error","canceled"]],[0,[]]]`),
			`{"duration":1,` + delayDefaults + `"priority":0,` +
				`"depends":[[12,["success"]],[-1,[]],[-3,["error","canceled"]],[0,[]]],"comment":null,"reason":[],"OP_ID":"OP_TEST_DELAY"}`,
		},
		{
			"escaped keys",
			`{"OP\u005fID":"OP_TEST\u005fDELAY","d\u0075ration":0}`,
			`{"duration":0,` + delayDefaults + commonDefaults + `"OP_ID":"OP_TEST_DELAY"}`,
		},
		{
			"numbers keep their spelling",
			`{"OP_ID":"OP_TEST_DELAY","duration":1234567890123456789.000000000000000001E+0}`,
			`{"duration":1234567890123456789.000000000000000001E+0,` + delayDefaults + commonDefaults + `"OP_ID":"OP_TEST_DELAY"}`,
		},
		{
			"command",
			command(`"argv":["gzip","-9","file"]`),
			`{"argv":["gzip","-9","file"],"env":{},` + commonDefaults + `"OP_ID":"OP_RUN_COMMAND"}`,
		},
		{
			"command with everything",
			command(`"timeout":1.5,"stdin":"","cwd":"/","env":{"A":"1"},"argv":["x",""],"secret_env":null,"priority":10`),
			`{"argv":["x",""],"env":{"A":"1"},"cwd":"/","stdin":"","timeout":1.5,"priority":10,"depends":null,"comment":null,` +
				`"reason":[],"OP_ID":"OP_RUN_COMMAND"}`,
		},
		{
			"null for a required parameter that takes it",
			`{"OP_ID":"OP_TEST_DUMMY","result":null,"messages":[],"fail":{"a":[null]},"submit_jobs":0}`,
			`{"result":null,"messages":[],"fail":{"a":[null]},"submit_jobs":0,` + commonDefaults + `"OP_ID":"OP_TEST_DUMMY"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			draft, err := Builtin().Parse(json.RawMessage(test.raw))
			require.NoError(t, err)
			require.Equal(t, test.input, string(draft.Input))
			require.Nil(t, draft.Secrets)
			requireIdempotent(t, draft)
		})
	}
}

func TestDraftPriority(t *testing.T) {
	for _, priority := range []int{-10, 0, 10} {
		draft, err := Builtin().Parse(json.RawMessage(delay(fmt.Sprintf(`,"priority":%d`, priority))))
		require.NoError(t, err)
		require.Equal(t, priority, draft.Priority)
	}
}

func TestRefusals(t *testing.T) {
	const noID = ""
	for _, test := range []struct{ raw, opcode, param, text string }{
		{`[]`, noID, "", "an opcode must be an object, found a list"},
		{` "x"`, noID, "", "an opcode must be an object, found a string"},
		{`null`, noID, "", "an opcode must be an object, found null"},
		{``, noID, "", "an opcode must be valid JSON"},
		{`{"OP_ID":}`, noID, "", "an opcode must be valid JSON"},
		{"{\"OP_ID\":\"\xff\"}", noID, "", "an opcode must be valid UTF-8"},
		{`{"reason":[]}`, noID, "OP_ID", `key 'OP_ID' not found, object contains only ["reason"]`},
		{`{"OP_ID":1}`, noID, "OP_ID", `Can't parse value for 'OP_ID': want a string, found 1`},
		{`{"OP_ID":"OP_A","OP_ID":"OP_B"}`, noID, "OP_ID", `key "OP_ID" is given twice, an opcode may have each key once`},
		{delay(`,"duration":2`), "OP_TEST_DELAY", "duration", `key "duration" is given twice, an opcode may have each key once`},
		{delay(`,"repe\u0061t":1,"repeat":1`), "OP_TEST_DELAY", "repeat", `key "repeat" is given twice, an opcode may have each key once`},
		{delay(`,"repeat":1.0`), "OP_TEST_DELAY", "repeat", `Can't parse value for 'repeat': want an integer of at least 0, found 1.0`},
		{delay(`,"repeat":1e2`), "OP_TEST_DELAY", "repeat", `Can't parse value for 'repeat': want an integer of at least 0, found 1e2`},
		{delay(`,"repeat":-1`), "OP_TEST_DELAY", "repeat", `Can't parse value for 'repeat': want an integer of at least 0, found -1`},
		{delay(`,"repeat":9223372036854775808`), "OP_TEST_DELAY", "repeat", `Can't parse value for 'repeat': want an integer of at least 0, found 9223372036854775808`},
		{delay(`,"on_master":1`), "OP_TEST_DELAY", "on_master", `Can't parse value for 'on_master': want true or false, found 1`},
		{delay(`,"on_nodes":["a",""]`), "OP_TEST_DELAY", "on_nodes", `Can't parse value for 'on_nodes': at [1] want a non-empty string, found an empty string`},
		{delay(`,"on_nodes":{}`), "OP_TEST_DELAY", "on_nodes", `Can't parse value for 'on_nodes': want a list, each element a non-empty string, found an object`},
		{delay(`,"on_node_uuids":3`), "OP_TEST_DELAY", "on_node_uuids", `Can't parse value for 'on_node_uuids': want null or a list, each element a non-empty string, found 3`},
		{`{"OP_ID":"OP_TEST_DELAY","duration":null}`, "OP_TEST_DELAY", "duration", `Can't parse value for 'duration': Unable to read Double: want a number (in the range of a double), found null`},
		{`{"OP_ID":"OP_TEST_DELAY","duration":1e999}`, "OP_TEST_DELAY", "duration", `Can't parse value for 'duration': Unable to read Double: want a number (in the range of a double), found 1e999`},
		{delay(`,"priority":5`), "OP_TEST_DELAY", "priority", `Can't parse value for 'priority': Invalid string value for type OpSubmitPriority: 5: want -10 (high), 0 (normal) or 10 (low), found 5`},
		{delay(`,"priority":"0"`), "OP_TEST_DELAY", "priority", `Can't parse value for 'priority': want -10 (high), 0 (normal) or 10 (low), found a string`},
		{delay(`,"reason":[["a","b"]]`), "OP_TEST_DELAY", "reason", `Can't parse value for 'reason': at [0] want a list of 3 elements: a string; a string; an integer (of at most 64 bits, without fraction or exponent), found a list of 2`},
		{delay(`,"reason":[["a","b",1.5]]`), "OP_TEST_DELAY", "reason", `Can't parse value for 'reason': at [0][2] want an integer (of at most 64 bits, without fraction or exponent), found 1.5`},
		{delay(`,"depends":[[-1,null]]`), "OP_TEST_DELAY", "depends", `Can't parse value for 'depends': at [0][1] want a list, each element one of "canceled", "success", "error", found null`},
		{delay(`,"depends":[[1,["queued"]]]`), "OP_TEST_DELAY", "depends", `Can't parse value for 'depends': at [0][1][0] want one of "canceled", "success", "error", found "queued"`},
		{delay(`,"depends":[[1.0,[]]]`), "OP_TEST_DELAY", "depends", `Can't parse value for 'depends': at [0][0] want a job id (an integer or a decimal string, negative for a relative one), found 1.0`},
		{delay(`,"depends":[["+1",[]]]`), "OP_TEST_DELAY", "depends", `Can't parse value for 'depends': at [0][0] want a job id (an integer or a decimal string, negative for a relative one), found "+1"`},
		{delay(`,"on_nodes":` + strings.Repeat("[", 65) + strings.Repeat("]", 65)), "OP_TEST_DELAY", "on_nodes", `Can't parse value for 'on_nodes': it is nested too deeply, at most 64 levels are allowed`},
		{delay(`,"reason":[{"a":1,"b":2,"\u0061":3}]`), "OP_TEST_DELAY", "reason", `Can't parse value for 'reason': an object in it has the same key twice`},
		{command(`"argv":[]`), "OP_RUN_COMMAND", "argv", `Can't parse value for 'argv': want a list of at least one string, the first not empty, none with NUL, found a list`},
		{command(`"argv":["a"],"env":{"A=B":"1"}`), "OP_RUN_COMMAND", "env", `Can't parse value for 'env': at (a key) want a non-empty string without '=' and NUL, found a string`},
		{command(`"argv":["a"],"env":{"A":1}`), "OP_RUN_COMMAND", "env", `Can't parse value for 'env': at "A" want a string without NUL, found 1`},
		{command(`"argv":["a"],"timeout":0`), "OP_RUN_COMMAND", "timeout", `Can't parse value for 'timeout': want null or a number of seconds greater than 0 and at most 1000000000, found 0`},
		{command(`"argv":["a"],"cwd":"tmp"`), "OP_RUN_COMMAND", "cwd", `Can't parse value for 'cwd': want null or an absolute path (a string that begins with /, without NUL), found a string`},
		{command(`"argv":["a"],"lock":[]`), "OP_RUN_COMMAND", "lock", `Superfluous dictionary keys: ["lock"], but only ["OP_ID","argv","comment","cwd","debug_level","depends","dry_run","env","keep_output","kind","limits","locks","opportunistic_count","opportunistic_locks","priority","reason","retry","secret_env","stdin","timeout"] allowed.`},
		{
			command(`"argv":["a"],"secret_env":{"A":3}`), "OP_RUN_COMMAND", "secret_env",
			`Can't parse value for 'secret_env': want null or an object, each key a non-empty string without '=' and NUL and ` +
				`each value a string without NUL, found something else (not shown, it is secret)`,
		},
	} {
		_, err := Builtin().Parse(json.RawMessage(test.raw))
		requireInvalid(t, err, test.opcode, test.param)
		require.Equal(t, test.text, err.Error())
	}
}

func TestCommandParameters(t *testing.T) {
	for fields, ok := range map[string]bool{
		`"argv":["a"]`:                               true,
		`"argv":["a",""]`:                            true,
		`"argv":["a\u0001\n"]`:                       true,
		`"argv":[""]`:                                false,
		`"argv":["a\u0000"]`:                         false,
		`"argv":["a","\u0000"]`:                      false,
		`"argv":["a",1]`:                             false,
		`"argv":"a"`:                                 false,
		`"argv":null`:                                false,
		`"env":{}`:                                   false, // argv is missing
		`"argv":["a"],"env":null`:                    true,
		`"argv":["a"],"env":{"":"1"}`:                false,
		`"argv":["a"],"env":{"A\u0000":"1"}`:         false,
		`"argv":["a"],"env":{"A\u003d":"1"}`:         false,
		`"argv":["a"],"env":{"A":"\u0000"}`:          false,
		`"argv":["a"],"env":{"A":"=","B":""}`:        true,
		`"argv":["a"],"env":{"A":"1","A":"2"}`:       false,
		`"argv":["a"],"env":[]`:                      false,
		`"argv":["a"],"cwd":"/tmp/x"`:                true,
		`"argv":["a"],"cwd":"/tmp\u0000"`:            false,
		`"argv":["a"],"cwd":""`:                      false,
		`"argv":["a"],"stdin":"\u0000"`:              true,
		`"argv":["a"],"stdin":1`:                     false,
		`"argv":["a"],"timeout":0.001`:               true,
		`"argv":["a"],"timeout":1000000000`:          true,
		`"argv":["a"],"timeout":1e9`:                 true,
		`"argv":["a"],"timeout":1000000000.1`:        false,
		`"argv":["a"],"timeout":-1`:                  false,
		`"argv":["a"],"timeout":1e-999`:              false,
		`"argv":["a"],"timeout":"5"`:                 false,
		`"argv":["a"],"secret_env":{"A":"1"}`:        true,
		`"argv":["a"],"secret_env":{"A=":"1"}`:       false,
		`"argv":["a"],"secret_env":{"A":null}`:       false,
		`"argv":["a"],"secret_env":{"A":{"B":"1"}}`:  false,
		`"argv":["a"],"secret_env":{"A":"1\u0000 "}`: false,
	} {
		_, err := Builtin().Parse(json.RawMessage(command(fields)))
		require.Equal(t, ok, err == nil, "%s: %v", fields, err)
	}
}

func TestSecretsAreTakenOut(t *testing.T) {
	for _, test := range []struct{ raw, hidden, secrets string }{
		{
			command(`"argv":["a"],"secret_env":{ "TOKEN" : "s3cr3t", "b":"" }`),
			`"secret_env":{"TOKEN":"<redacted>","b":"<redacted>"}`,
			`{"secret_env":{"TOKEN":"s3cr3t","b":""}}`,
		},
		{
			`{"OP_ID":"OP_TEST_OS_PARAMS","osparams_secret":{"a":"s3cr3t","b":{"c":[1, "s3cr3t", null, true, [], {}]}}}`,
			`"osparams_secret":{"a":"<redacted>","b":{"c":["<redacted>","<redacted>","<redacted>","<redacted>",[],{}]}}`,
			`{"osparams_secret":{"a":"s3cr3t","b":{"c":[1,"s3cr3t",null,true,[],{}]}}}`,
		},
		{
			`{"OP_ID":"OP_INSTANCE_REINSTALL","instance_name":"i","osparams_private":{"p":"clear"},"osparams_secret":{"a":7}}`,
			`"osparams_private":{"p":"clear"},"osparams_secret":{"a":"<redacted>"}`,
			`{"osparams_secret":{"a":7}}`,
		},
		{`{"OP_ID":"OP_TEST_OS_PARAMS","osparams_secret":{}}`, `"osparams_secret":{}`, ``},
		{`{"OP_ID":"OP_TEST_OS_PARAMS","osparams_secret":null}`, `{"priority":0`, ``},
	} {
		draft, err := Builtin().Parse(json.RawMessage(test.raw))
		require.NoError(t, err)
		require.Contains(t, string(draft.Input), test.hidden)
		require.NotContains(t, string(draft.Input), "s3cr3t")
		require.Equal(t, test.secrets, string(draft.Secrets))
		require.Equal(t, test.secrets == "", draft.Secrets == nil)
		requireIdempotent(t, draft)
		again, err := Builtin().Parse(draft.Input)
		require.NoError(t, err)
		require.Nil(t, again.Secrets, "what is left of a secret is none")
	}
}

func TestNoErrorTellsASecret(t *testing.T) {
	for _, value := range []string{
		`"s3cr3t"`, `["s3cr3t"]`, `{"A=s3cr3t":"x"}`, `{"A":["s3cr3t"]}`, `{"A":"s3cr3t\u0000"}`, `{"s3cr3t":1}`, `{"A":"s3cr3t"`,
		`{"A":"s3cr3t","A":"s3cr3t"}`, `{"s3cr3t":"","s3cr3t":""}`, strings.Repeat(`["s3cr3t",`, 70) + `1` + strings.Repeat(`]`, 70),
		"{\"A\":\"s3cr3t\xff\"}",
	} {
		for _, prefix := range []string{
			`{"OP_ID":"OP_RUN_COMMAND","argv":["x"],"secret_env":`,
			`{"OP_ID":"OP_RUN_COMMAND","argv":"x","secret_env":`,
			`{"OP_ID":"OP_RUN_COMMAND","argv":["x"],"nosuch":1,"secret_env":`,
			`{"OP_ID":"OP_RUN_COMMAND","argv":["x"],"secret_env":1,"secret_env":`,
			`{"OP_ID":"OP_NO_SUCH","secret_env":`,
			`{"secret_env":`,
		} {
			_, err := Builtin().Parse(json.RawMessage(prefix + value + `}`))
			require.Error(t, err)
			require.NotContains(t, err.Error(), "s3cr3t")
		}
	}
}

func TestSizeLimit(t *testing.T) {
	fill := func(n int) string { return command(`"argv":["a"],"stdin":"` + strings.Repeat("x", n) + `"`) }
	_, err := Builtin().Parse(json.RawMessage(fill(SizeMax - 1000)))
	require.NoError(t, err)
	_, err = Builtin().Parse(json.RawMessage(fill(SizeMax)))
	require.ErrorContains(t, err, "too large")
	// Fits as submitted, but no longer with the defaults.
	_, err = Builtin().Parse(json.RawMessage(fill(SizeMax - len(fill(0)))))
	require.ErrorContains(t, err, "too large")
}

func TestErrorsStayShort(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	for _, raw := range []string{
		`{"OP_ID":"` + long + `"}`,
		delay(`,"` + long + `":1`),
		delay(`,"on_nodes":` + strings.Repeat("1", 1<<20)),
		delay(`,"depends":[["` + long + `",[]]]`),
		delay(`,"depends":[[1,["` + long + `"]]]`),
		command(`"argv":["a"],"env":{"` + long + `":1}`),
		`{` + strings.Repeat(`"x":1,`, 1<<16) + `"x":1}`,
	} {
		_, err := Builtin().Parse(json.RawMessage(raw))
		require.Error(t, err)
		require.Less(t, len(err.Error()), 1000)
	}
}

func TestDepends(t *testing.T) {
	for _, test := range []struct {
		input string
		want  []Dependency
	}{
		{`{}`, nil},
		{`{"depends":null}`, nil},
		{` {"depends" : [ ] }`, nil},
		{`{"depends":[[7,["success","error"]],[-1,[]],["12",["canceled"]]]}`, []Dependency{
			{Job: 7, Statuses: []string{"success", "error"}}, {Job: -1}, {Job: 12, Statuses: []string{"canceled"}},
		}},
		{`{"OP_ID":"OP_UNKNOWN","x":{"depends":[[1,[]]]},"depends":[[2,[]]]}`, []Dependency{{Job: 2}}},
	} {
		got, err := Depends(json.RawMessage(test.input))
		require.NoError(t, err, test.input)
		require.Equal(t, test.want, got, test.input)
	}
	for _, input := range []string{
		``, `null`, `[]`, `7`, `{"depends":{}}`, `{"depends":[1]}`, `{"depends":[[-1,null]]}`, `{"depends":[[-1]]}`,
		`{"depends":[["x",[]]]}`, `{"depends":[[1,["running"]]]}`, `{"depends":[[1,[]],]}`, `{"depends":[[1,[]]}`,
	} {
		_, err := Depends(json.RawMessage(input))
		var invalid *Invalid
		require.ErrorAs(t, err, &invalid, input)
	}
}

// TestJobFiles parses the opcodes in job files of a real Ganeti 3.0.2, written by its daemon (compact) and by its job
// process (with spaces, and with null for unset parameters).
func TestJobFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/job-*.json")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		var job struct {
			Ops []struct {
				Input json.RawMessage `json:"input"`
			} `json:"ops"`
		}
		require.NoError(t, json.Unmarshal(data, &job))
		require.NotEmpty(t, job.Ops)
		for _, op := range job.Ops {
			draft, err := Builtin().Parse(op.Input)
			require.NoError(t, err, path)
			requireIdempotent(t, draft)

			var want, got map[string]any
			require.NoError(t, json.Unmarshal(op.Input, &want))
			require.NoError(t, json.Unmarshal(draft.Input, &got))
			for key, value := range want {
				if _, stored := got[key]; !stored && value == nil {
					delete(want, key)
				}
			}
			require.Equal(t, want, got, path)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	raw := json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND", "argv": ["gzip", "-9", "/var/backups/some-file.tar"], ` +
		`"env": {"PATH": "/usr/bin:/bin", "LANG": "C"}, "cwd": "/var/backups", "timeout": 600, "priority": 0, ` +
		`"depends": [[-1, ["success"]]], "reason": [["gnt:client:lockstep", "run", 1795175118595666000]]}`)
	c := Builtin()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Parse(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// An opcode with a secret that cannot be redacted is refused: no secret may reach the disk.
func TestSecretsOfANestedOpcodeAreRefused(t *testing.T) {
	parse := func(secret string) error {
		_, err := Builtin().Parse(json.RawMessage(`{"OP_ID": "OP_INSTANCE_MULTI_ALLOC", "instances": [{"OP_ID": "OP_INSTANCE_CREATE", "osparams_secret": ` + secret + `}]}`))
		return err
	}
	err := parse(`{"password": "sesame"}`)
	require.ErrorContains(t, err, "instances")
	require.NotContains(t, err.Error(), "sesame")
	require.NoError(t, parse(`null`))
	require.NoError(t, parse(`{"password": "<redacted>"}`))
}

func TestRunCommandRefusesLocksThatCannotBe(t *testing.T) {
	const want = `want the name of a lock: cluster/BGL, or one of instance/, nodegroup/, node/, node-res/ and network/ followed by a name, or by [lockset] for all of its kind; or a name of 1 to 100 letters, digits, dots, underscores, hyphens and slashes, with or without lock/ before it, found `
	for _, test := range []struct{ params, param, text string }{
		{`"locks": [["nodes/a", "shared"]]`, "locks", `at [0][0] ` + want + `"nodes/a": did you mean node/a? A lock of your own with this name is lock/nodes/a`},
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
