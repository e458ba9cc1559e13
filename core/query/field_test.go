package query

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The fields are exactly those that a real server lists, in its order.
func TestTheFieldsOfEveryKind(t *testing.T) {
	data, err := os.ReadFile("testdata/query-fields.json")
	require.NoError(t, err)
	var golden map[string][][3]string
	require.NoError(t, json.Unmarshal(data, &golden))
	require.Len(t, kinds, len(golden))
	for kind, want := range golden {
		definitions, err := Definitions(kind, nil)
		require.NoError(t, err)
		var got [][3]string
		for _, d := range definitions {
			got = append(got, [3]string{d.Name, d.Title, string(d.Type)})
			require.NotEmpty(t, d.Doc, d.Name)
			require.NotContains(t, d.Title, " ", "clients align columns by words") // Ganeti's titles have no spaces
		}
		require.Equal(t, want, got, kind)
	}
}

func TestFieldsAsAsked(t *testing.T) {
	got, err := Definitions("job", []string{"status", "nosuch", "id"})
	require.NoError(t, err)
	require.Equal(t, []string{"status", "nosuch", "id"}, []string{got[0].Name, got[1].Name, got[2].Name})
	require.Equal(t, Definition{"nosuch", "nosuch", UnknownType, `There is no field "nosuch"`}, got[1])
	all, err := Definitions("job", []string{})
	require.NoError(t, err)
	require.Len(t, all, 16)

	_, err = Definitions("cluster", nil)
	require.Equal(t, &UnknownKind{"cluster"}, err)
	require.True(t, OpcodeOnly("cluster") && OpcodeOnly("os"))
	_, err = Definitions("nosuch", nil)
	require.EqualError(t, err, `"nosuch" is not a kind of things that can be asked for; there are export, filter, group, instance, job, lock, network, node`)
	require.False(t, OpcodeOnly("nosuch"))
}

// appendJSON writes the same as encoding/json.
func TestValuesAsJSON(t *testing.T) {
	for _, v := range []any{nil, true, false, "", "plain", "q\"\\\x03\n<é>", 1, int32(-2), int64(3), 2.5, [2]int64{1, 2}, []string{}, []string{"a", "\t"},
		[]int{1, -2}, []any{}, []any{1, "a", nil, []any{true}}, [][4]any{{1, [2]int64{3, 4}, "message", json.RawMessage(`"x"`)}},
		json.RawMessage(`{"a": 1}`), map[string]int{"k": 1}} {
		want, err := json.Marshal(v)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(appendJSON(nil, v)))
		require.NotContains(t, string(appendJSON(nil, v)), "\x03")
	}
	require.Equal(t, "null", string(appendJSON(nil, json.RawMessage(nil))))
	require.Panics(t, func() { appendJSON(nil, func() {}) })
}
