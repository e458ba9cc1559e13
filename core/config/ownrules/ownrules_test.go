package ownrules_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/config/ownrules"
)

// Property: the patch between two sets of rules, also after it was encoded and applied twice, leads from one to the other.
func TestPatches(t *testing.T) {
	genRules := rapid.Custom(func(t *rapid.T) ownrules.Rules {
		var r ownrules.Rules
		for uuid, text := range rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{`{"x": 1}`, `{"x":2}`, "{\n\"y\":\"<\"}"}), 0, 3).Draw(t, "rules") {
			var err error
			r, err = r.Put(uuid, json.RawMessage(text))
			require.NoError(t, err)
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		before, after := genRules.Draw(t, "before"), genRules.Draw(t, "after")
		patch := after.Changes(before)
		encoded, err := json.Marshal(patch)
		require.NoError(t, err)
		var decoded ownrules.Patch
		require.NoError(t, json.Unmarshal(encoded, &decoded))
		got := before
		for range 2 {
			got, err = got.Apply(decoded)
			require.NoError(t, err)
			require.Equal(t, after.All() == nil, got.All() == nil)
			require.JSONEq(t, jsonOf(t, after), jsonOf(t, got))
		}
		require.Nil(t, after.Changes(after))
	})
}

func jsonOf(t require.TestingT, r ownrules.Rules) string {
	text, err := json.Marshal(r.All())
	require.NoError(t, err)
	return string(text)
}

func TestWhatIsNoRule(t *testing.T) {
	var r ownrules.Rules
	for _, text := range []string{"", "5", "[]", "{", "null"} {
		_, err := r.Put("u", json.RawMessage(text))
		require.Error(t, err, text)
	}
	require.Nil(t, r.Get("u"))
	require.Equal(t, r, r.Delete("u"))
}
