package words

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A value is shown with its unit, and is typed so.
func TestSettingsHaveUnits(t *testing.T) {
	for _, c := range []struct{ key, value, text string }{
		{"archive_after", "2592000", "30d"}, {"archive_after", "null", "null"}, {"archive_after", "0", "0s"}, {"predictive_tick", "0.5", "500ms"},
		{"log_limit", "1000000", "1MB"}, {"output_total", "0", "0"}, {"order", `"expected"`, "expected"}, {"keep_output", "true", "true"}, {"keep_last", "3", "3"},
	} {
		require.Equal(t, c.text, FormatSetting(c.key, json.RawMessage(c.value)))
		again, err := ParseSetting(c.key, c.text, json.RawMessage(c.value))
		require.NoError(t, err)
		require.JSONEq(t, c.value, string(again), c.key)
	}
	zero, err := ParseSetting("archive_after", "0", json.RawMessage("60"))
	require.NoError(t, err)
	require.Equal(t, "0", string(zero))
	for key, typed := range map[string]string{"archive_after": "30", "log_limit": "big", "keep_last": "three"} {
		_, err := ParseSetting(key, typed, json.RawMessage("5"))
		require.ErrorContains(t, err, "the setting "+key)
	}
}

func TestConditionsInWords(t *testing.T) {
	for predicates, want := range map[string]string{
		`[]`: "all", `[["jobid",[">","id","watermark"]]]`: "job > 7", `{`: "{", `{"a": 1}`: `{"a":1}`,
		`[["jobid",["|",["=","id",2],["=","id",4]]]]`:                               "job is 2 or 4",
		`[["opcode",["=[]","argv","<b>"]],["user",["=","name","ann"]]]`:             `argv contains "<b>"; user is "ann"`,
		`[["opcode",["&",["=","OP_ID","OP_TEST_DELAY"],["!",[">","duration",5]]]]]`: "opcode is OP_TEST_DELAY and not (duration > 5)",
	} {
		require.Equal(t, want, Conditions(json.RawMessage(predicates), 7))
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "64kB": 64_000, "1.5 MB": 1_500_000, "2GiB": 2 << 30, "7b": 7, "1pb": 1e15} {
		size, err := parseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, size, text)
	}
	for _, text := range []string{"", "big", "-1", "1 XB", "99999PB", "1e3"} {
		_, err := parseSize(text)
		require.ErrorContains(t, err, "is not a size", text)
	}
}
