package opcode

import (
	"encoding/json"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/rawjson"
)

func TestBuiltinHasEveryOpcode(t *testing.T) {
	c := Builtin()
	names := c.Names()
	require.Len(t, names, 75+1)
	require.True(t, sort.StringsAreSorted(names))
	names[0] = "changed"
	require.NotEqual(t, "changed", c.Names()[0])

	for _, name := range c.Names() {
		op, ok := c.Lookup(name)
		require.True(t, ok, name)
		require.Equal(t, name, op.Name)
		n := len(op.Params)
		require.GreaterOrEqual(t, n, 6, name)
		var common []string
		for _, p := range op.Params[n-6:] {
			common = append(common, p.Name)
		}
		require.Equal(t, []string{"dry_run", "debug_level", "priority", "depends", "comment", "reason"}, common, name)
		for _, p := range op.Params {
			require.NotEmpty(t, p.Type.String(), "%s %s", name, p.Name)
		}
	}
	_, ok := c.Lookup("OP_NO_SUCH")
	require.False(t, ok)
}

func TestSecretParameters(t *testing.T) {
	var secret []string
	for _, name := range Builtin().Names() {
		op, _ := Builtin().Lookup(name)
		for _, p := range op.Params {
			if p.Secret {
				secret = append(secret, name+" "+p.Name)
			}
		}
	}
	require.Equal(t, []string{
		"OP_INSTANCE_CREATE osparams_secret",
		"OP_INSTANCE_REINSTALL osparams_secret",
		"OP_RUN_COMMAND secret_env",
		"OP_TEST_OS_PARAMS osparams_secret",
	}, secret)
	require.Equal(t, []string{"osparams_secret", "secret_env"}, Builtin().SecretNames())
}

// sample is the JSON of one value of the type.
func sample(t *testing.T, of Type) string {
	switch of := of.(type) {
	case oneOf:
		return `"` + of[0] + `"`
	case lessThan:
		return "0"
	case list:
		return "[" + sample(t, of.element) + "]"
	case tuple:
		parts := make([]string, len(of))
		for i, part := range of {
			parts[i] = sample(t, part)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case dictionary:
		if of.key == anything {
			return `{"a key":` + sample(t, of.value) + "}"
		}
		return "{" + sample(t, of.key) + ":" + sample(t, of.value) + "}"
	case private:
		return sample(t, of.inner)
	case union:
		return sample(t, of[len(of)-1])
	case intersection:
		return sample(t, of[0])
	case retryPolicyType:
		return `{"times":3,"delay":0.5,"max_delay":60,"on":[75,"lost"]}`
	case limitsType:
		return `{"memory":"2G","cpus":1.5,"tasks":200,"io_weight":50,"nice":10}`
	case *scalarType:
		return samplePlain(t, of)
	}
	require.Failf(t, "no sample", "of type %T", of)
	return ""
}

func samplePlain(t *testing.T, of *scalarType) string {
	for _, candidate := range []string{
		`7`, `true`, `"some text"`, `"192.0.2.7"`, `"192.0.2.0/24"`, `"2001:db8::7"`, `"2001:db8::/32"`, `"/tmp"`, `["true"]`,
		`null`, `10`, `"node/a"`,
	} {
		if of.accepts(json.RawMessage(candidate)) {
			return candidate
		}
	}
	require.Failf(t, "no sample", "of %s", of)
	return ""
}

// build is an opcode with a sample for each selected parameter.
func build(t *testing.T, op *Opcode, wanted func(*Param) bool) json.RawMessage {
	fields := []string{`"OP_ID":"` + op.Name + `"`}
	for i := range op.Params {
		if p := &op.Params[i]; wanted(p) {
			value := sample(t, p.Type)
			switch p.Name {
			case "opportunistic_locks": // of another level than locks
				value = `[["instance/a","shared"]]`
			case "opportunistic_count":
				value = "1"
			}
			fields = append(fields, `"`+p.Name+`":`+value)
		}
	}
	return json.RawMessage("{" + strings.Join(fields, ",") + "}")
}

func TestEveryOpcodeParses(t *testing.T) {
	for _, name := range Builtin().Names() {
		op, _ := Builtin().Lookup(name)
		for kind, wanted := range map[string]func(*Param) bool{
			"minimal":  (*Param).Required,
			"complete": func(*Param) bool { return true },
		} {
			raw := build(t, op, wanted)
			draft, err := Builtin().Parse(raw)
			require.NoError(t, err, "%s: %s", kind, raw)
			require.Equal(t, name, draft.Name)
			require.True(t, json.Valid(draft.Input), "%s", draft.Input)
			requireOrder(t, op, draft.Input, wanted)
			requireIdempotent(t, draft)
			require.True(t, strings.HasPrefix(Summary(draft.Input), strings.TrimPrefix(name, "OP_")), Summary(draft.Input))
		}
	}
}

// requireOrder checks that the input has exactly the expected keys, in order.
func requireOrder(t *testing.T, op *Opcode, input json.RawMessage, given func(*Param) bool) {
	var want, got []string
	for i := range op.Params {
		p := &op.Params[i]
		if given(p) || string(p.Default) != "null" || p.Name == "depends" || p.Name == "comment" {
			want = append(want, p.Name)
		}
	}
	for key := range rawjson.Members(input) {
		got = append(got, string(rawjson.Unquote(key)))
	}
	require.Equal(t, append(want, "OP_ID"), got, op.Name)
}

func requireIdempotent(t require.TestingT, draft Draft) {
	again, err := Builtin().Parse(draft.Input)
	require.NoError(t, err)
	require.Equal(t, string(draft.Input), string(again.Input))
	require.Equal(t, draft.Priority, again.Priority)
	require.Equal(t, draft.Name, again.Name)
}

func TestEveryParameterRefusesAnotherType(t *testing.T) {
	for _, name := range Builtin().Names() {
		op, _ := Builtin().Lookup(name)
		for i := range op.Params {
			p := &op.Params[i]
			if p.Type == anything {
				continue
			}
			raw := build(t, op, func(q *Param) bool { return q.Required() && q != p })
			bad := strings.TrimSuffix(string(raw), "}") + `,"` + p.Name + `":[[[[{"s3cr3t":"s3cr3t"}]]]]}`
			if _, err := Builtin().Parse(json.RawMessage(bad)); err != nil {
				requireInvalid(t, err, name, p.Name)
				require.NotContains(t, err.Error(), "s3cr3t")
			} else {
				require.Contains(t, p.Type.String(), "a list", "%s %s takes everything", name, p.Name)
			}
		}
	}
}

func requireInvalid(t *testing.T, err error, opcode, param string) {
	t.Helper()
	var invalid *Invalid
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, opcode, invalid.Opcode)
	require.Equal(t, param, invalid.Param)
	require.Equal(t, invalid.Text, err.Error())
}

func TestLoadRefuses(t *testing.T) {
	for name, test := range map[string]struct{ facts, want string }{
		"no JSON":          {`{`, "unexpected end"},
		"unknown type":     {`{"opcodes":{"OP_X":{"params":[["a","Nothing"]]}}}`, `OP_X: parameter a: type "Nothing": unknown type "Nothing"`},
		"circular type":    {`{"types":{"A":"List of A"},"opcodes":{"OP_X":{"params":[["a","A"]]}}}`, "type A is made of itself"},
		"half a type":      {`{"opcodes":{"OP_X":{"params":[["a","List of"]]}}}`, `unknown type ""`},
		"rest of a type":   {`{"opcodes":{"OP_X":{"params":[["a","String )"]]}}}`, `unexpected ")"`},
		"open bracket":     {`{"opcodes":{"OP_X":{"params":[["a","(String"]]}}}`, `want ")"`},
		"empty choice":     {`{"opcodes":{"OP_X":{"params":[["a","(OneOf )"]]}}}`, "want a value"},
		"no limit":         {`{"opcodes":{"OP_X":{"params":[["a","Less than x"]]}}}`, "invalid syntax"},
		"too short":        {`{"opcodes":{"OP_X":{"params":[["a"]]}}}`, "has 1 elements"},
		"double parameter": {`{"opcodes":{"OP_X":{"params":[["a","String"],["a","String"]]}}}`, "parameter a is declared twice"},
		"common parameter": {`{"opcodes":{"OP_X":{"params":[["depends","String"]]}}}`, "parameter depends is declared twice"},
		"the id":           {`{"opcodes":{"OP_X":{"params":[["OP_ID","String"]]}}}`, "parameter OP_ID is declared twice"},
		"bad default":      {`{"opcodes":{"OP_X":{"params":[["a","Integer",1.0]]}}}`, "default of parameter a: want an integer"},
		"bad summary":      {`{"opcodes":{"OP_X":{"summary":"b","params":[["a","Integer",1]]}}}`, "which is no parameter"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load([]byte(test.facts))
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := load([]byte(`{"opcodes":{"OP_X":{}}}`), []byte(`{"opcodes":{"OP_X":{}}}`))
	require.ErrorContains(t, err, "OP_X is declared twice")
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := load(ganetiFacts, lockstepFacts); err != nil {
			b.Fatal(err)
		}
	}
}
