package job

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSubmissionName(t *testing.T) {
	for input, want := range map[string]string{
		`{}`: "", `{"reason": []}`: "", `not JSON`: "", `{"reason": "lockstep:request"}`: "",
		`{"reason": [["a", "b", 1], ["lockstep:request", "x", 2]]}`:                 "x",
		`{"reason": [["lockstep:request"], ["lockstep:request", "y", 2]]}`:          "y",
		`{"reason": [["a", "lockstep:request", 1]]}`:                                "",
		`{"reason": [["lockstep:request", 5, 1]]}`:                                  "",
		`{"reason": [["lockstep:request", "` + strings.Repeat("x", 201) + `", 1]]}`: "",
	} {
		require.Equal(t, want, SubmissionName(json.RawMessage(input)), input)
	}
}

// A repeated submission has the same opcodes, except for entries that the daemon has added to the reason trail.
func TestSameSubmission(t *testing.T) {
	const kept = `{"OP_ID": "X", "a": [1, {"b": "<redacted>"}], "reason": [["c", "d", 1], ["lockstep:request", "n", 1], ["gnt:opcode:x", "job=1;index=0", 2]]}`
	for again, same := range map[string]bool{
		`{"OP_ID":"X","a":[1,{"b":"<redacted>"}],"reason":[["c","d",7],["lockstep:request","n",7]]}`:        true,
		`{"a": [1, {"b": "<redacted>"}], "OP_ID": "X", "reason": [["c", "d", 1]]}`:                          true,
		`{"OP_ID": "X", "a": [1, {"b": "<redacted>"}]}`:                                                     true,
		`{"OP_ID": "Y", "a": [1, {"b": "<redacted>"}], "reason": [["c", "d", 1]]}`:                          false,
		`{"OP_ID": "X", "a": [1, {"b": "<redacted>"}, 2], "reason": [["c", "d", 1]]}`:                       false,
		`{"OP_ID": "X", "a": [1, {"b": "<redacted>", "c": 1}], "reason": [["c", "d", 1]]}`:                  false,
		`{"OP_ID": "X", "a": [1, {"b": "<redacted>"}], "e": null, "reason": [["c", "d", 1]]}`:               false,
		`{"OP_ID": "X", "reason": [["c", "d", 1]]}`:                                                         false,
		`{"OP_ID": "X", "a": [1, {"b": "<redacted>"}], "reason": [["c", "rate-limit:1:x", 1]]}`:             false,
		`{"OP_ID": "X", "a": [1, {"b": "<redacted>"}], "reason": [["c","d",1],["e","f",1],["g","h",1],[]]}`: false,
		`no object`: false,
	} {
		require.Equal(t, same, SameSubmission(json.RawMessage(kept), json.RawMessage(again)), again)
	}
}

// Entries of a source are found in any spelling of its name. All other bytes stay.
func TestWithoutReasons(t *testing.T) {
	for input, want := range map[string]string{
		`{"OP_ID": "A"}`: `{"OP_ID": "A"}`,
		`{"reason": [["lockstep:user", "x", 1]]}`:   `{"reason": []}`,
		`{"reason": [["lockstep:use\u0072", "x"]]}`: `{"reason": []}`,
		`{"reason": [["a\n", "lockstep:user", 1], ["lockstep:user"], [1, 2], "lockstep:user",["b","",2] ], "x": 1.50}`: `{"reason": [["a\n", "lockstep:user", 1], [1, 2], "lockstep:user", ["b","",2]], "x": 1.50}`,
		`{"reason": "lockstep:user"}`:      `{"reason": "lockstep:user"}`,
		`{"reason": {"lockstep:user": 1}}`: `{"reason": {"lockstep:user": 1}}`,
		`not JSON lockstep:user`:           `not JSON lockstep:user`,
	} {
		require.Equal(t, want, string(WithoutReasons(json.RawMessage(input), UserSource)), input)
	}
}
