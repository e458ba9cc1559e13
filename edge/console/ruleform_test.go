package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/filter"
)

func TestConditionsOfARule(t *testing.T) {
	for want, c := range map[string]struct {
		join       string
		conditions []condition
	}{
		`[["opcode",["=","OP_ID","OP_RUN_COMMAND"]]]`: {joinAll, []condition{{"opcode", "OP_ID", "=", "OP_RUN_COMMAND"}}},
		`[["opcode",["&",["=","OP_ID","OP_TEST_DELAY"],[">","duration",5]]],["jobid",[">","id",7]]]`: {joinAll,
			[]condition{{"opcode", "OP_ID", "=", "OP_TEST_DELAY"}, {"jobid", "id", ">", "7"}, {"opcode", "duration", ">", "5"}}},
		`[["opcode",["|",["=~","OP_ID","^OP_NODE"],["=","OP_ID","7"]]]]`:    {joinAny, []condition{{"opcode", "OP_ID", "=~", "^OP_NODE"}, {"opcode", "OP_ID", "=", "7"}}},
		`[["jobid",["|",["=","id",3],["=","id",5]]]]`:                       {joinAny, []condition{{"jobid", "id", "=", "3"}, {"jobid", "id", "=", "5"}}},
		`[["opcode",["=","name","5"]],["reason",[">","timestamp",12]]]`:     {joinAll, []condition{{"opcode", "name", "=", `"5"`}, {"reason", "timestamp", ">", "12"}}},
		`[["reason",["=","reason","null"]],["opcode",["=","name","null"]]]`: {joinAll, []condition{{"reason", "reason", "=", "null"}, {"opcode", "name", "=", "null"}}},
		`[["opcode",["|",["=[]","argv","backup"],["=[]","argv","8080"]]]]`:  {joinAny, []condition{{"opcode", "argv", "=[]", "backup"}, {"opcode", "argv", "=[]", "8080"}}},
		`[["lock",["&",["=~","name","^node/n3$"],["=","mode","exclusive"]]],["user",["=","uid",1000]],["name",["=","name","7"]]]`: {joinAll,
			[]condition{{"lock", "name", "=~", "^node/n3$"}, {"lock", "mode", "=", "exclusive"}, {"user", "uid", "=", "1000"}, {"name", "name", "=", "7"}}},
	} {
		got, problem := predicatesOf(c.join, append([]condition{{"reason", "reason", "=", ""}}, c.conditions...))
		require.Empty(t, problem)
		require.Equal(t, want, string(got))
		_, err := (&filter.ReplaceRequest{Priority: []byte("0"), Predicates: got, Action: []byte(`"PAUSE"`), Reason: []byte("[]")}).Rule(0)
		require.NoError(t, err, "the daemon accepts it")
		join, again, ok := conditionsOf(got)
		require.True(t, ok, want)
		require.Equal(t, c.join, join)
		require.ElementsMatch(t, c.conditions, again)
	}
	for want, conditions := range map[string][]condition{
		`[]`: {{Kind: everyJob, Operator: "="}},
		`[["jobid",[">","id","watermark"]],["user",["=","name","ann"]]]`:                                                  {{Kind: newerJobs, Operator: "="}, {"user", "name", "=", "ann"}},
		`[["opcode",["|",["=","OP_ID","OP_TEST_DELAY"],["=","OP_ID","OP_RUN_COMMAND"]]],["lock",["=","name","node/n1"]]]`: {{"opcode", "OP_ID", isOneOf, "OP_TEST_DELAY, OP_RUN_COMMAND"}, {"lock", "name", "=", "node/n1"}},
	} {
		got, problem := predicatesOf(joinAll, conditions)
		require.Empty(t, problem)
		require.Equal(t, want, string(got))
		join, again, ok := conditionsOf(got)
		require.True(t, ok, want)
		require.Equal(t, joinAll, join)
		require.ElementsMatch(t, conditions, again)
	}
	_, problem := predicatesOf(joinAny, []condition{{"opcode", "OP_ID", "=", "x"}, {"jobid", "id", "=", "3"}})
	require.Contains(t, problem, "Make a rule for each part")
	_, problem = predicatesOf(joinAll, []condition{newCondition})
	require.Contains(t, problem, "Say which value")
}

// Predicates that the conditions cannot express are edited as JSON, and are saved as they were.
func TestOtherPredicatesAreJSON(t *testing.T) {
	for _, predicates := range []string{`[["opcode",["!",["=","OP_ID","x"]]]]`, `[["opcode",["=","OP_ID","x"]],["opcode",["=","name","y"]]]`, `[["opcode",null]]`,
		`[["opcode",["&",["=","OP_ID","x"],["|",["=","name","y"]]]]]`, `[["opcode",["=[]","ports",8080]]]`, `[["opcode",["=","OP_ID",7]]]`, `[["opcode",["&"]]]`} {
		f := formOf(ruleRow{Priority: 3, Action: "PAUSE", Predicates: predicates})
		require.Equal(t, predicates, f.JSON)
		q := &request{Request: httptest.NewRequest(http.MethodPost, "/ui/filters/save", nil)}
		q.PostForm = url.Values{"priority": {"3"}, "action": {"PAUSE"}, "json": {f.JSON}}
		_, args, problem := q.ruleForm()
		require.Empty(t, problem)
		require.Equal(t, json.RawMessage(predicates), args[2])
	}
}

// The editor has the time that is left to a rule with an end, in the form in which it takes it.
func TestAFormOfARuleWithAnEnd(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	row := storedRule{UUID: "u", Predicates: json.RawMessage(`[]`), Action: json.RawMessage(`"PAUSE"`), Until: now.Add(90 * time.Minute).UnixNano()}.row(now)
	f := formOf(row)
	require.Equal(t, "1h30m", f.Lasts)
	for text, want := range map[string]any{f.Lasts: int64(5400), "2d": int64(172800), "": nil, "0": nil, "x": nil, "-5s": nil} {
		q := &request{Request: httptest.NewRequest(http.MethodPost, "/ui/filters/save", nil)}
		q.PostForm = url.Values{"priority": {"3"}, "action": {"PAUSE"}, "json": {"[]"}, "lasts": {text}}
		_, args, problem := q.ruleForm()
		require.Equal(t, want == nil && text != "", problem != "", text)
		if want != nil {
			require.Equal(t, want, args[5])
		}
	}
}

func TestAFormHasBoundedConditions(t *testing.T) {
	q := &request{Request: httptest.NewRequest(http.MethodPost, "/ui/filters/preview", nil)}
	q.PostForm = url.Values{"priority": {"0"}, "action": {"PAUSE"}}
	for range 50 {
		for name, value := range map[string]string{"kind": "opcode", "field": "OP_ID", "operator": "=", "value": "x"} {
			q.PostForm.Add(name, value)
		}
	}
	q.PostForm.Add("value", "one more")
	f, _, problem := q.ruleForm()
	require.Empty(t, problem)
	require.Len(t, f.Conditions, conditionsMax)
	f.add()
	require.Len(t, f.Conditions, conditionsMax)
	f = ruleForm{Conditions: []condition{{"jobid", "id", ">", "5"}}}
	f.add()
	require.Equal(t, condition{"jobid", "id", ">", ""}, f.Conditions[1])
}
