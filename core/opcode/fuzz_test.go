package opcode

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/lock"
)

// checkParse checks for any bytes that nothing panics, that errors have the documented type, and that a parsed opcode
// parses to itself.
func checkParse(t require.TestingT, raw json.RawMessage) {
	_ = Summary(raw)
	_, _ = Depends(raw)
	_ = Builtin().Declare(raw, nil)
	_, _ = Builtin().RequiredLocks(raw, nil)
	draft, err := Builtin().Parse(raw)
	if err != nil {
		var invalid *Invalid
		require.ErrorAs(t, err, &invalid)
		require.NotEmpty(t, invalid.Text)
		return
	}
	require.True(t, json.Valid(draft.Input))
	require.True(t, draft.Secrets == nil || json.Valid(draft.Secrets))
	require.NotEqual(t, "INVALID_OP", Summary(draft.Input))
	_, err = Depends(draft.Input)
	require.NoError(t, err)
	requireIdempotent(t, draft)
	requireDeclared(t, draft)
}

// requireDeclared checks that the required locks are declared, and in lock order.
func requireDeclared(t require.TestingT, draft Draft) {
	required, err := Builtin().RequiredLocks(draft.Input, nil)
	if err != nil {
		var failure *Failure
		require.ErrorAs(t, err, &failure)
		return
	}
	declared := Builtin().Declare(draft.Input, nil)
	require.Equal(t, declared, lock.Merge(declared, lock.DeclarationOf(required.Request...)))
	for _, i := range required.AnyOf { // which of them it will hold is unknown
		var unknown lock.Declaration
		unknown.At(i.Lock.Level()).Kind = map[lock.Mode]lock.DemandKind{lock.Shared: lock.UnknownShared, lock.Exclusive: lock.UnknownExclusive}[i.Mode]
		require.Equal(t, declared, lock.Merge(declared, unknown))
	}
	for _, items := range [][]lock.Item{required.Request, required.AnyOf} {
		for i := range items {
			require.True(t, i == 0 || items[i-1].Lock.Compare(items[i].Lock) < 0)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "reason": []}`,
		`{"OP_ID": "OP_TEST_DELAY", "duration": "x", "depends": [[-1, null]]}`,
		`{"OP_ID":"OP_RUN_COMMAND","argv":["a","\u00e4\ud83d\ude00\n"],"env":{"A":"b"},"secret_env":{"C":"d"},"timeout":1e3}`,
		`{"OP_ID":"OP_RUN_COMMAND","argv":["a"],"locks":[["node/a","shared"],["cluster/BGL","exclusive"]],"opportunistic_locks":[["network/\u0062","exclusive"]],"opportunistic_count":1}`,
		`{"OP_ID":"OP_TEST_OS_PARAMS","osparams_secret":{"a":[1,{"b":null}]}}`,
		`{"OP_ID":"OP_TEST_JQUEUE","log_messages":["first","","third"],"depends":[["7",["success"]],[-1,[]]],"priority":-10}`,
		`{"OP_ID":"OP_INSTANCE_SET_PARAMS","instance_name":"i","nics":[["add",-1,{"mode":"bridged"}]],"disks":[[0,{"mode":"rw"}]]}`,
		`{"OP_ID":"OP_TEST_DUMMY","result":{"":[[[]]]},"messages":1e400,"fail":-0,"submit_jobs":"\ud800"}`,
		`{"OP_ID`, `{"a":1,}`, `[{}]`, `{"OP_ID":"OP_TAGS_GET","kind":"node"}`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { checkParse(t, raw) })
}
