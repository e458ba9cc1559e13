package filter

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
)

const testUUID = "0ac5a6a1-0d6e-4c8c-8a1e-0123456789ab"

func request(uuid, priority, predicates, action, reason string) (Rule, error) {
	q := ReplaceRequest{UUID: json.RawMessage(uuid), Priority: json.RawMessage(priority), Predicates: json.RawMessage(predicates), Action: json.RawMessage(action), Reason: json.RawMessage(reason)}
	return q.Rule(0)
}

func TestARequestBecomesARule(t *testing.T) {
	predicates := `[["jobid", [">",  "id", "watermark"]], ["opcode", ["=", "a.b", "\u00e4"]], ["reason", null]]`
	rule, err := request(`null`, `0`, predicates, `["RATE_LIMIT", 10]`, `[["gnt:user", "maintenance", 1795175164723123456], ["", "", -1]]`)
	require.NoError(t, err)
	require.EqualExportedValues(t, Rule{
		Predicates:  json.RawMessage(predicates),
		Action:      Action{RateLimit, 10},
		ReasonTrail: []Reason{{"gnt:user", "maintenance", 1795175164723123456}, {"", "", -1}},
	}, rule)

	for i, name := range []string{"ACCEPT", "PAUSE", "REJECT", "CONTINUE"} {
		rule, err = request(`"`+testUUID+`"`, `7`, `[]`, `"`+name+`"`, `[]`)
		require.NoError(t, err)
		require.EqualExportedValues(t, Rule{UUID: testUUID, Priority: 7, Predicates: json.RawMessage(`[]`), Action: Action{Verb: Verb(i)}, ReasonTrail: []Reason{}}, rule)
	}
}

func TestWhatIsWrongInARequestIsNamed(t *testing.T) {
	good := [5]string{`null`, `0`, `[]`, `"PAUSE"`, `[]`}
	huge := `[["reason", ["==", "reason", "` + strings.Repeat("x", predicatesMax) + `"]]]`
	for _, c := range []struct {
		arg        int
		text, want string
	}{
		{0, `5`, `uuid: want null or a string, found 5`},
		{1, `-1`, `priority: want a non-negative integer, found -1`},
		{1, `1.0`, `priority: want a non-negative integer, found 1.0`},
		{1, `"1"`, `priority: want a non-negative integer, found "1"`},
		{1, ``, `priority: want a non-negative integer, found nothing`},
		{2, `null`, `predicates: want a list, found null`},
		{2, `{}`, `predicates: want a list, found {}`},
		{2, huge, `predicates: 65570 bytes are too many, at most 65536 are allowed`},
		{2, `["jobid"]`, `predicates[0]: want a list of a name and an expression, found "jobid"`},
		{2, `[["jobid"]]`, `predicates[0]: want a list of a name and an expression, found ["jobid"]`},
		{2, `[["jobid", null, null]]`, `predicates[0]: want a list of a name and an expression, found ["jobid", null, null]`},
		{2, `[["jobid", null], ["users", null]]`, `predicates[1][0]: want one of jobid, name, user, reason, opcode, lock, found "users"`},
		{2, `[[5, null]]`, `predicates[0][0]: want one of jobid, name, user, reason, opcode, lock, found 5`},
		{2, `[["opcode", ["&", ["=~", "a", "["]]]]`, "predicates[0][1][1][2]: the pattern \"[\" is not in RE2 syntax: error parsing regexp: missing closing ]: `[`"},
		{2, `[["jobid", ["!", ["==", "ID", 5]]]]`, `predicates[0][1][1]: unknown field "ID", a jobid predicate has id (a number)`},
		{2, `[["lock", ["==", "uuid", "x"]]]`, `predicates[0][1]: unknown field "uuid", a lock predicate has name (a string), mode (a string)`},
		{2, `[["user", ["=~", "uid", "x"]]]`, `predicates[0][1]: the operator =~ can never hold of the field uid (a number)`},
		{2, `[["jobid", ["==", "id", "5"]]]`, `predicates[0][1]: an id is compared with a number or with "watermark", found "5"`},
		{2, `[["jobid", ["=~", "id", "5"]]]`, `predicates[0][1]: the operator =~ can never hold of the field id (a number)`},
		{2, `[["reason", ["==", "text", 5]]]`, `predicates[0][1]: unknown field "text", a reason predicate has source (a string), reason (a string), timestamp (a number)`},
		{2, `[["reason", ["?", "reason"]]]`, `predicates[0][1]: the operator ? can never hold of the field reason (a string)`},
		{2, `[["reason", ["=[]", "source", "x"]]]`, `predicates[0][1]: the operator =[] can never hold of the field source (a string)`},
		{2, `[["reason", ["|", ["=~", "timestamp", "x"]]]]`, `predicates[0][1][1]: the operator =~ can never hold of the field timestamp (a number)`},
		{3, `"pause"`, `action: want one of ACCEPT, PAUSE, REJECT, CONTINUE or ["RATE_LIMIT", n], found "pause"`},
		{3, `"RATE_LIMIT"`, `action: want one of ACCEPT, PAUSE, REJECT, CONTINUE or ["RATE_LIMIT", n], found "RATE_LIMIT"`},
		{3, `["PAUSE", 1]`, `action: want one of ACCEPT, PAUSE, REJECT, CONTINUE or ["RATE_LIMIT", n], found ["PAUSE", 1]`},
		{3, `["RATE_LIMIT"]`, `action: want one of ACCEPT, PAUSE, REJECT, CONTINUE or ["RATE_LIMIT", n], found ["RATE_LIMIT"]`},
		{3, `["RATE_LIMIT", 0]`, `action[1]: want a positive integer, found 0`},
		{3, `["RATE_LIMIT", "5"]`, `action[1]: want a positive integer, found "5"`},
		{4, `null`, `reason: want a list, found null`},
		{4, `[["a", "b", 1], ["a", "b"]]`, `reason[1]: want [source, reason, nanoseconds since 1970], found ["a", "b"]`},
		{4, `[["a", 5, 1]]`, `reason[0]: want [source, reason, nanoseconds since 1970], found ["a", 5, 1]`},
		{4, `[["a", "b", 1.5]]`, `reason[0]: want [source, reason, nanoseconds since 1970], found ["a", "b", 1.5]`},
	} {
		args := good
		args[c.arg] = c.text
		_, err := request(args[0], args[1], args[2], args[3], args[4])
		require.IsType(t, &Invalid{}, err, c.text)
		require.Equal(t, c.want, err.Error())
	}
	for _, uuid := range []string{"", "x", strings.ToUpper(testUUID), testUUID + "0", strings.ReplaceAll(testUUID, "-", "0"), strings.Replace(testUUID, "-", "g", 1)} {
		_, err := request(`"`+uuid+`"`, good[1], good[2], good[3], good[4])
		require.Equal(t, &BadUUID{uuid}, err)
		require.Contains(t, err.Error(), "Unable to parse UUID")
	}
}

func TestARuleIsStoredAndReadAgain(t *testing.T) {
	text := `{"uuid":"u","watermark":12,"priority":3,"predicates":[["opcode", [ "<",   "a", "\u00e4ä" ]]],"action":["RATE_LIMIT",2],"reason_trail":[["s\"","\u00e4",5],["","",-6]]}`
	rule, err := Decode([]byte(text))
	require.NoError(t, err)
	require.Equal(t, Rule{"u", 12, 3, json.RawMessage(`[["opcode", [ "<",   "a", "\u00e4ä" ]]]`), Action{RateLimit, 2}, []Reason{{`s"`, "ä", 5}, {"", "", -6}}, 0, nil}, rule)
	require.Equal(t, text, string(Encode(&rule)))

	inner, err := json.Marshal([]any{rule.Action, Action{Verb: Reject}, rule.ReasonTrail})
	require.NoError(t, err)
	require.JSONEq(t, `[["RATE_LIMIT", 2], "REJECT", [["s\"", "ä", 5], ["", "", -6]]]`, string(inner))

	rule, err = Decode([]byte(`{"uuid": "u", "watermark": 1, "priority": 0, "predicates": ["what a newer program understands"], "action": "ACCEPT", "reason_trail": [], "more": 1}`))
	require.NoError(t, err)
	require.Equal(t, `{"uuid":"u","watermark":1,"priority":0,"predicates":["what a newer program understands"],"action":"ACCEPT","reason_trail":[]}`, string(Encode(&rule)))
}

func TestStoredRulesThatCannotBeRead(t *testing.T) {
	whole := `{"uuid": "u", "watermark": 12, "priority": 3, "predicates": [], "action": "PAUSE", "reason_trail": []}`
	for from, c := range map[string][2]string{
		`"uuid": "u"`:        {`"uuid": ""`, "uuid: missing"},
		`"watermark": 12`:    {`"watermark": "12"`, `watermark: want a non-negative integer, found "12"`},
		`"priority": 3`:      {`"prio": 3`, "priority: want a non-negative integer, found nothing"},
		`"predicates": []`:   {`"predicates": null`, "predicates: want a list, found null"},
		`"PAUSE"`:            {`null`, `action: want one of ACCEPT, PAUSE, REJECT, CONTINUE or ["RATE_LIMIT", n], found null`},
		`"reason_trail": []`: {`"reason_trail": [1]`, `reason[0]: want [source, reason, nanoseconds since 1970], found 1`},
		whole:                {`[]`, `filter rule: not a filter rule: json: cannot unmarshal array into Go value of type struct`},
	} {
		_, err := Decode([]byte(strings.Replace(whole, from, c[0], 1)))
		require.IsType(t, &Invalid{}, err)
		require.True(t, strings.HasPrefix(err.Error(), c[1]), err.Error())
	}
	_, err := Decode([]byte(whole))
	require.NoError(t, err)
}

func TestEncodeAndDecodeAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := Rule{
			UUID:        rapid.StringN(1, 40, -1).Draw(t, "uuid"),
			Watermark:   job.ID(rapid.Int64Min(0).Draw(t, "watermark")),
			Priority:    rapid.Int64Min(0).Draw(t, "priority"),
			Predicates:  json.RawMessage(rapid.SampledFrom([]string{`[]`, `[["jobid",null]]`, "[ 1,\t{\"a\":\"<&>\"} ]"}).Draw(t, "predicates")),
			Action:      Action{Verb: Verb(rapid.IntRange(0, int(RateLimit)).Draw(t, "verb"))},
			ReasonTrail: []Reason{},
		}
		if rule.Action.Verb == RateLimit {
			rule.Action.Limit = rapid.Int64Min(1).Draw(t, "limit")
		}
		for range rapid.IntRange(0, 3).Draw(t, "reasons") {
			rule.ReasonTrail = append(rule.ReasonTrail, Reason{rapid.String().Draw(t, "source"), rapid.String().Draw(t, "text"), rapid.Int64().Draw(t, "nanos")})
		}
		got, err := Decode(Encode(&rule))
		require.NoError(t, err)
		require.Equal(t, rule, got)
	})
}

func TestRulesAreLookedAtInOrder(t *testing.T) {
	all := []Rule{{UUID: "b", Priority: 1, Watermark: 5}, {UUID: "a", Priority: 1, Watermark: 5}, {UUID: "z", Priority: 0, Watermark: 9}, {UUID: "c", Priority: 1, Watermark: 2}, {UUID: "B", Priority: 1, Watermark: 5}}
	for i := range all {
		all[i].Predicates = json.RawMessage(`[]`)
	}
	set, err := NewSet(all)
	require.NoError(t, err)
	var order []string
	for _, rule := range set.Rules() {
		order = append(order, rule.UUID)
	}
	require.Equal(t, []string{"z", "c", "B", "a", "b"}, order)
	require.Equal(t, "b", all[0].UUID, "the caller's list was sorted")
}

// Rules that Ganeti's programs cannot read are known by their predicates, or by their end.
func TestRulesThatGanetiCannotRead(t *testing.T) {
	for predicates, want := range map[string]bool{
		`[]`: true, `[["jobid", null], ["opcode", null], ["reason", null]]`: true,
		`[["jobid", null], ["lock", null]]`: false, `[["user", null]]`: false, `[["name", null]]`: false,
	} {
		rule, err := request(`null`, `0`, predicates, `"PAUSE"`, `[]`)
		require.NoError(t, err)
		require.Equal(t, want, rule.IsGanetis(), predicates)
	}
	q := ReplaceRequest{UUID: json.RawMessage(`"` + testUUID + `"`), Priority: json.RawMessage(`1`), Predicates: json.RawMessage(`[]`),
		Action: json.RawMessage(`"PAUSE"`), Reason: json.RawMessage(`[]`), Lasts: json.RawMessage(`7200`)}
	rule, err := q.Rule(5)
	require.NoError(t, err)
	require.False(t, rule.IsGanetis())
	require.EqualValues(t, 7200e9+5, rule.Until)
	require.False(t, rule.HasEnded(7200e9+4))
	require.True(t, rule.HasEnded(7200e9+5))
	again, err := Decode(Encode(&rule))
	require.NoError(t, err)
	require.Equal(t, rule.Until, again.Until)

	for lasts, want := range map[string]string{
		`0`: "for: want a number of seconds from 1 to 316224000, found 0", `-1`: "for: want a non-negative integer, found -1",
		`1.5`: "for: want a non-negative integer, found 1.5", `"2h"`: `for: want a non-negative integer, found "2h"`,
		`316224001`: "for: want a number of seconds from 1 to 316224000, found 316224001",
	} {
		q.Lasts = json.RawMessage(lasts)
		_, err := q.Rule(0)
		require.EqualError(t, err, want)
	}
}
