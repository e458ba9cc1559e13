package tree

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A Map behaves like a sorted built-in map, and old versions do not change.
func TestMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("%03d", rapid.IntRange(0, 400).Draw(t, "key")) })
		model := map[string]int{}
		for _, k := range rapid.SliceOfN(key, 0, 300).Draw(t, "start") {
			model[k] = len(model)
		}
		var sorted []Entry[int]
		for _, k := range slices.Sorted(maps.Keys(model)) {
			sorted = append(sorted, Entry[int]{k, model[k]})
		}
		m := Of(sorted)
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			k := key.Draw(t, "k")
			before, count := collect(m), m.Len()
			next := m.Delete(k)
			if rapid.Bool().Draw(t, "put") {
				next, model[k] = m.Put(k, i), i
			} else {
				delete(model, k)
			}
			if i%40 == 0 {
				require.Equal(t, before, collect(m))
				require.Equal(t, count, m.Len())
			}
			m = next
		}
		require.Equal(t, model, collect(m))
		require.Equal(t, len(model), m.Len())
		low := key.Draw(t, "low")
		var from []string
		for k := range m.From(low) {
			from = append(from, k)
		}
		want := slices.DeleteFunc(slices.Sorted(maps.Keys(model)), func(k string) bool { return k < low })
		require.Equal(t, len(want), len(from))
		require.True(t, slices.Equal(want, from))
		for k, v := range model {
			got, found := m.Get(k)
			require.True(t, found && got == v)
		}
	})
}

func collect(m Map[int]) map[string]int { return maps.Collect(m.All()) }
