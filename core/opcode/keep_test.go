package opcode

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only opcodes that run a command keep output. Those of Ganeti refuse the parameter with a reason, without it their texts are Ganeti's.
func TestKeepOutput(t *testing.T) {
	site := []Definition{{Name: "OP_SITE_PING", Command: []string{"ping"}}, {Name: "OP_SITE_DUMP", Command: []string{"dump"}, KeepOutput: true}}
	c, err := Builtin().With(site)
	require.NoError(t, err)
	for raw, want := range map[string][2]bool{ // with the setting off, and on
		`{"OP_ID": "OP_RUN_COMMAND", "argv": ["a"]}`:                                  {false, true},
		`{"OP_ID": "OP_RUN_COMMAND", "argv": ["a"], "keep_output": null}`:             {false, true},
		`{"OP_ID": "OP_RUN_COMMAND", "argv": ["a"], "keep_output": true}`:             {true, true},
		`{"OP_ID": "OP_RUN_COMMAND", "argv": ["a"], "keep_output": false}`:            {false, false},
		`{"OP_ID": "OP_RUN_COMMAND", "argv": ["a"], "keep_output": true, "retry": 2}`: {true, true},
		`{"OP_ID": "OP_SITE_PING"}`:                                                   {false, true},
		`{"OP_ID": "OP_SITE_PING", "keep_output": true}`:                              {true, true},
		`{"OP_ID": "OP_SITE_DUMP"}`:                                                   {true, true},
		`{"OP_ID": "OP_SITE_DUMP", "keep_output": false}`:                             {false, false},
		`{"OP_ID": "OP_TEST_DELAY", "duration": 1}`:                                   {false, false},
	} {
		draft, err := c.Parse(json.RawMessage(raw))
		require.NoError(t, err, raw)
		require.Equal(t, want, [2]bool{KeepsOutput(draft.Input, false), KeepsOutput(draft.Input, true)}, raw)
	}
	_, err = c.Parse(json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "duration": 1, "keep_output": true}`))
	require.EqualError(t, err, "keep_output: OP_TEST_DELAY runs no command, so it has no output to keep; "+
		"only OP_RUN_COMMAND and opcodes of opcodes.d have")
	_, err = c.Parse(json.RawMessage(`{"OP_ID": "OP_SITE_PING", "keep_output": "yes"}`))
	require.ErrorContains(t, err, "'keep_output': want null or true or false")
	_, err = Builtin().With([]Definition{{Name: "OP_SITE_X", Command: []string{"x"}, Params: []ParamDefinition{{Name: "keep_output", Type: "String"}}}})
	require.ErrorContains(t, err, "every opcode has a parameter keep_output already")
}
