package opcode

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTypes(t *testing.T) {
	voc := newVocabulary(map[string]string{"Pair": "Tuple of (Integer, None or Pear)", "Pear": "OneOf pear"})
	for _, test := range []struct {
		expr, words string
		yes, no     []string
	}{
		{"None or Boolean", "null or true or false", []string{"null", "true", "false"}, []string{"0", `"true"`, "[]"}},
		{"String", "a string", []string{`""`, `"null"`}, []string{"null", "1", "{}"}},
		{"NonEmptyString", "a non-empty string", []string{`" "`}, []string{`""`, "null"}},
		{"Integer", integer.description, []string{"0", "-0", "-1", "9223372036854775807"}, []string{"1.0", "1e0", "9223372036854775808", `"1"`}},
		{"GreaterThanZero", "an integer greater than 0", []string{"1"}, []string{"0", "-1", "1.0"}},
		{"Float", float.description, []string{"0", "-1", "1e3", "1.0E-2", "1e-999"}, []string{"1e999", `"1"`, "null", "[1]"}},
		{"Anything", "any value", []string{"null", "[]", "{}", "1"}, nil},
		{"OneOf a, b-c_d", `one of "a", "b-c_d"`, []string{`"a"`, `"b-c_d"`, `"\u0061"`}, []string{`"b"`, `"a,"`, "null"}},
		{"EqualOrGreaterThanZero and (Less than 16)", "an integer of at least 0 and an integer less than 16", []string{"0", "15"}, []string{"16", "-1", "1.5"}},
		{"List of (None or Integer)", "a list, each element null or " + integer.description, []string{"[]", "[1,null]"}, []string{"{}", "[true]", "null"}},
		{"Set of OneOf x", `a list, each element "x"`, []string{"[]", `["x","x"]`}, []string{`["y"]`}},
		{"List of Anything", "a list", []string{"[]", "[{}]"}, []string{"{}"}},
		{"Pair", `a list of 2 elements: ` + integer.description + `; null or "pear"`, []string{`[1,"pear"]`, "[1,null]"}, []string{"[1]", "[]", "[1,null,null]", "[null,1]", "{}"}},
		{"Dictionary with keys of Anything and values of Anything", "an object", []string{"{}", `{"a":[]}`}, []string{"[]", "null"}},
		{
			"Dictionary with keys of NonEmptyString and values of Pear", `an object, each key a non-empty string and each value "pear"`,
			[]string{"{}", `{"a":"pear"}`}, []string{`{"":"pear"}`, `{"a":"b"}`},
		},
		{"Private Integer", integer.description, []string{"1"}, []string{"1.0"}},
		{"IPv4Address", "an IPv4 address", []string{`"192.0.2.1"`}, []string{`"192.0.2.256"`, `"::1"`, `"192.0.2.0/24"`, `""`, "1"}},
		{"IPv6Address", "an IPv6 address", []string{`"::1"`, `"2001:db8::1"`}, []string{`"fe80::1%eth0"`, `"192.0.2.1"`}},
		{"IPv4Network", ipv4Network.description, []string{`"192.0.2.0/24"`, `"192.0.2.1/32"`}, []string{`"192.0.2.1"`, `"192.0.2.0/33"`, `"::/0"`}},
		{"IPv6Network", ipv6Network.description, []string{`"2001:db8::/32"`}, []string{`"2001:db8::"`, `"10.0.0.0/8"`}},
	} {
		parsed, err := voc.parse(test.expr)
		require.NoError(t, err)
		require.Equal(t, test.words, parsed.String())
		for _, v := range test.yes {
			require.Nil(t, parsed.check(json.RawMessage(v)), "%s: %s", test.expr, v)
		}
		for _, v := range test.no {
			require.NotNil(t, parsed.check(json.RawMessage(v)), "%s: %s", test.expr, v)
		}
	}
}

// TestMismatchNamesThePlace uses the most involved types that Ganeti has.
func TestMismatchNamesThePlace(t *testing.T) {
	for _, test := range []struct{ opcode, param, value, text string }{
		{"OP_INSTANCE_SET_PARAMS", "nics", `[["add",-1,{"mode":1}]]`, `at [0][2]."mode" want null or a string, found 1`},
		{"OP_INSTANCE_SET_PARAMS", "nics", `[["add",{"modus":"x"}]]`, `at [0][1].(a key) want one of "bridge", "ip", "link", "mac", "mode", "name", "network", "vlan", found "modus"`},
		{"OP_INSTANCE_SET_PARAMS", "nics", `[["swap",0,{}]]`, `at [0][0] want one of "add", "attach", "detach", "modify", "remove", found "swap"`},
		{"OP_CLUSTER_SET_PARAMS", "uid_pool", `[[1,2],[3]]`, `at [1] want a list of 2 elements: ` + integer.description + `; ` + integer.description + `, found a list of 1`},
		{"OP_CLUSTER_SET_PARAMS", "hvparams", `{"kvm":{"a":1},"xen-pvm":1}`, `at "xen-pvm" want an object, found 1`},
		{"OP_NETWORK_ADD", "network", `"10.0.0.0"`, `want an IPv4 network as 192.0.2.0/24, found "10.0.0.0"`},
		{"OP_INSTANCE_GROW_DISK", "disk", `16`, `want an integer less than 16, found 16`},
		{"OP_INSTANCE_REINSTALL", "osparams_private", `"hunter2"`, `want null or an object, found a string`},
	} {
		op, ok := Builtin().Lookup(test.opcode)
		require.True(t, ok)
		bad := op.Params[op.index[test.param]].Type.check(json.RawMessage(test.value))
		require.NotNil(t, bad, test.param)
		require.Equal(t, test.text, bad.text())
	}
}
