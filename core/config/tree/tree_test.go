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

// Chunks have all entries in their order, and maps share the chunks of common nodes.
func TestChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		made := 0
		encode := func(keys []string, values []int) (chunk []byte) {
			made++
			for i, k := range keys {
				chunk = fmt.Appendf(chunk, "%s=%d,", k, values[i])
			}
			return chunk
		}
		text := func(m Map[int]) string {
			var all []byte
			for chunk := range m.Chunks(encode) {
				all = append(all, chunk...)
			}
			return string(all)
		}
		var m Map[int]
		for i := range rapid.IntRange(0, 300).Draw(t, "size") {
			m = m.Put(fmt.Sprintf("%03d", i*7%300), i)
		}
		before := text(m)
		var next Map[int]
		if k := fmt.Sprintf("%03d", rapid.IntRange(0, 299).Draw(t, "k")); rapid.Bool().Draw(t, "put") {
			next = m.Put(k, -1)
		} else {
			next = m.Delete(k)
		}
		made = 0
		var want []byte
		for k, v := range next.All() {
			want = fmt.Appendf(want, "%s=%d,", k, v)
		}
		require.Equal(t, string(want), text(next))
		require.LessOrEqual(t, made, 2, "only the changed node, and what it was split into")
		require.Equal(t, before, text(m))
	})
}

func collect(m Map[int]) map[string]int { return maps.Collect(m.All()) }
