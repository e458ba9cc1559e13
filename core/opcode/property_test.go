package opcode

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Each secret contains the mark, and no other text does.
const mark = "s3cr3t"

// cString is any text without NUL.
func cString() *rapid.Generator[string] {
	return rapid.Map(rapid.String(), func(s string) string { return strings.ReplaceAll(s, "\x00", "0") })
}

func environment(value *rapid.Generator[string]) *rapid.Generator[map[string]string] {
	name := rapid.Map(cString(), func(s string) string { return "V" + strings.ReplaceAll(s, "=", "_") })
	return rapid.MapOfN(name, value, 0, 4)
}

// optional puts a drawn value into the opcode, or null, or nothing.
func optional[V any](t *rapid.T, opcode map[string]any, key string, value *rapid.Generator[V]) {
	switch rapid.IntRange(0, 3).Draw(t, key+" given") {
	case 0:
	case 1:
		opcode[key] = nil
	default:
		opcode[key] = value.Draw(t, key)
	}
}

// drawCommon draws the common parameters.
func drawCommon(t *rapid.T, opcode map[string]any) {
	optional(t, opcode, "dry_run", rapid.Bool())
	optional(t, opcode, "debug_level", rapid.IntRange(0, 9))
	optional(t, opcode, "priority", rapid.SampledFrom([]int{-10, 0, 10}))
	optional(t, opcode, "comment", rapid.String())
	optional(t, opcode, "depends", rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []any {
		var id any = rapid.Int64().Draw(t, "id")
		if rapid.Bool().Draw(t, "id as a string") {
			id = json.Number(rapid.StringMatching(`-?[0-9]{1,15}`).Draw(t, "id")).String()
		}
		return []any{id, rapid.SliceOfN(rapid.SampledFrom([]string{"canceled", "success", "error"}), 0, 3).Draw(t, "statuses")}
	}), 0, 3))
	optional(t, opcode, "reason", rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []any {
		return []any{rapid.String().Draw(t, "source"), rapid.String().Draw(t, "text"), rapid.Int64().Draw(t, "time")}
	}), 0, 3))
}

func drawCommand(t *rapid.T) map[string]any {
	program := rapid.Map(cString(), func(s string) string { return "p" + s })
	argv := append([]string{program.Draw(t, "program")}, rapid.SliceOfN(cString(), 0, 4).Draw(t, "arguments")...)
	opcode := map[string]any{"OP_ID": "OP_RUN_COMMAND", "argv": argv}
	optional(t, opcode, "env", environment(cString()))
	optional(t, opcode, "secret_env", environment(rapid.Map(cString(), func(s string) string { return mark + s })))
	optional(t, opcode, "cwd", rapid.Map(cString(), func(s string) string { return "/" + s }))
	optional(t, opcode, "stdin", rapid.String())
	optional(t, opcode, "timeout", rapid.Float64Range(1e-9, 1e9))
	level := rapid.SampledFrom([]string{"instance", "nodegroup", "node", "node-res"})
	optional(t, opcode, "locks", drawLocks(rapid.Map(level, func(l string) string { return l + "/" })))
	optional(t, opcode, "opportunistic_locks", drawLocks(rapid.Just("network/")))
	drawCommon(t, opcode)
	return opcode
}

func drawLocks(prefix *rapid.Generator[string]) *rapid.Generator[[][2]string] {
	return rapid.Custom(func(t *rapid.T) [][2]string {
		locks := [][2]string{}
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z"]+`), 0, 4, rapid.ID).Draw(t, "names") {
			mode := rapid.SampledFrom([]string{"shared", "exclusive"}).Draw(t, "mode")
			locks = append(locks, [2]string{prefix.Draw(t, "level") + name, mode})
		}
		return locks
	})
}

func drawDelay(t *rapid.T) map[string]any {
	opcode := map[string]any{"OP_ID": "OP_TEST_DELAY", "duration": rapid.Float64().Draw(t, "duration")}
	node := rapid.StringMatching(`[a-z][a-z0-9.]*`)
	optional(t, opcode, "on_master", rapid.Bool())
	optional(t, opcode, "on_nodes", rapid.SliceOf(node))
	optional(t, opcode, "on_node_uuids", rapid.SliceOf(node))
	optional(t, opcode, "repeat", rapid.IntRange(0, 1<<40))
	optional(t, opcode, "interruptible", rapid.Bool())
	optional(t, opcode, "no_locks", rapid.Bool())
	drawCommon(t, opcode)
	return opcode
}

func TestParseProperties(t *testing.T) {
	for name, draw := range map[string]func(*rapid.T) map[string]any{"command": drawCommand, "delay": drawDelay} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			opcode := draw(t)
			raw, err := json.Marshal(opcode)
			require.NoError(t, err)
			if rapid.Bool().Draw(t, "with blanks") {
				raw, err = json.MarshalIndent(opcode, " ", "\t")
				require.NoError(t, err)
			}
			before := string(raw)
			draft, err := Builtin().Parse(raw)
			require.NoError(t, err)
			require.Equal(t, before, string(raw), "the input was written to")
			requireIdempotent(t, draft)
			requireSameValues(t, opcode, draft)
			requireDeclared(t, draft)

			require.NotContains(t, string(draft.Input), mark)
			require.NotContains(t, Summary(draft.Input), mark)
			requireOneLine(t, Summary(draft.Input))

			depends, err := Depends(draft.Input)
			require.NoError(t, err)
			submitted, err := Depends(raw)
			require.NoError(t, err)
			require.Equal(t, submitted, depends)
		}))
	}
}

// requireSameValues compares the submitted values with the stored ones and with the secrets.
func requireSameValues(t require.TestingT, opcode map[string]any, draft Draft) {
	var stored, secrets map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(draft.Input, &stored))
	if draft.Secrets != nil {
		require.NoError(t, json.Unmarshal(draft.Secrets, &secrets))
	}
	for key, value := range opcode {
		if value == nil || key == "depends" {
			continue
		}
		want, err := json.Marshal(value)
		require.NoError(t, err)
		if key == "secret_env" {
			if string(want) != "{}" {
				require.Equal(t, string(want), string(secrets[key]))
			}
			continue
		}
		require.Equal(t, string(want), string(stored[key]), key)
	}
}

func requireOneLine(t require.TestingT, line string) {
	for _, r := range line {
		require.NotContains(t, "\n\r\v\f\u0085\u2028\u2029\x00\x1b", string(r))
	}
}

// TestBrokenOpcodes changes one byte of a valid opcode.
func TestBrokenOpcodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(drawCommand(t))
		require.NoError(t, err)
		raw[rapid.IntRange(0, len(raw)-1).Draw(t, "where")] = rapid.Byte().Draw(t, "what")
		checkParse(t, raw)
	})
}
