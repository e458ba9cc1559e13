package heap

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// element has a key that may be equal to that of another element.
type element struct{ key, index int }

type byKey struct{}

func (byKey) Before(a, b *element) bool   { return a.key < b.key }
func (byKey) Moved(x *element, index int) { x.index = index }

// TestAHeapIsASortedList compares a heap with a list of its elements.
func TestAHeapIsASortedList(t *testing.T) {
	keys := rapid.IntRange(0, 50)
	rapid.Check(t, func(t *rapid.T) {
		var h Heap[*element, byKey]
		var all []*element
		remove := func(x *element) { all = slices.DeleteFunc(all, func(other *element) bool { return other == x }) }
		change := func(f func(t *rapid.T, x *element)) func(*rapid.T) {
			return func(t *rapid.T) {
				if len(all) > 0 {
					f(t, rapid.SampledFrom(all).Draw(t, "element"))
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				for _, key := range rapid.SliceOf(keys).Draw(t, "keys") {
					x := &element{key: key, index: -1}
					all = append(all, x)
					h.Push(x)
				}
			},
			"remove": change(func(t *rapid.T, x *element) {
				h.Remove(x.index)
				remove(x)
			}),
			"fix": change(func(t *rapid.T, x *element) {
				x.key = keys.Draw(t, "key")
				h.Fix(x.index)
			}),
			"filter": change(func(t *rapid.T, x *element) {
				keep := func(other *element) bool { return other.key%3 != x.key%3 }
				seen := 0
				h.Filter(func(other *element) bool {
					seen++
					return keep(other)
				})
				require.Equal(t, len(all), seen)
				all = slices.DeleteFunc(all, func(other *element) bool { return !keep(other) })
			}),
			"": func(t *rapid.T) {
				require.ElementsMatch(t, all, h.Items())
				require.Equal(t, len(all), h.Len())
				for i, x := range h.Items() {
					require.Equal(t, i, x.index)
					require.LessOrEqual(t, h.Items()[max(0, i-1)/2].key, x.key)
				}
			},
		})
		for last := 0; h.Len() > 0; {
			first := h.First()
			require.GreaterOrEqual(t, first.key, last)
			require.Same(t, first, h.Pop())
			remove(first)
			last = first.key
		}
		require.Empty(t, all)
	})
}

// TestAShortHeapKeepsNoLongArray checks that a long backlog does not occupy memory after its end.
func TestAShortHeapKeepsNoLongArray(t *testing.T) {
	var h Heap[*element, byKey]
	for key := range 10_000 {
		h.Push(&element{key: key})
	}
	h.Filter(func(x *element) bool { return x.key < 5_000 })
	for h.Len() > 10 {
		h.Pop()
	}
	require.LessOrEqual(t, cap(h.items), shrinkAbove)
	for range 10 {
		h.Pop()
	}
	require.Zero(t, h.Len())
}
