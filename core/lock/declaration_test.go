package lock

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func demands() *rapid.Generator[Demand] {
	return rapid.Custom(func(t *rapid.T) Demand {
		w := Demand{Kind: DemandKind(rapid.IntRange(int(Nothing), int(AllExclusive)).Draw(t, "known"))}
		if w.Kind == SharedSet || w.Kind == ExclusiveSet {
			known := w.Kind
			w = SharedSetOf(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4).Draw(t, "names")...)
			w.Kind = known
		}
		return w
	})
}

// covers reports whether the demand more includes the demand less.
func covers(more, less Demand) bool {
	if less.Kind == Nothing {
		return true
	}
	kind, mode := more.Kind.shared() >= less.Kind.shared(), more.Kind >= ExclusiveSet || less.Kind < ExclusiveSet
	for _, name := range less.Names {
		if more.Names != nil && !slices.Contains(more.Names, name) {
			return false
		}
	}
	return kind && mode
}

func TestJoinIsTheLeastThatCoversBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := demands().Draw(t, "a"), demands().Draw(t, "b"), demands().Draw(t, "c")
		ab := a.Join(b)
		require.True(t, covers(ab, a) && covers(ab, b), "%v", ab)
		if covers(c, a) && covers(c, b) {
			require.True(t, covers(c, ab), "%v covers both, but not %v", c, ab)
		}
		require.Equal(t, a, a.Join(a))
		require.Equal(t, ab, b.Join(a))
		require.Equal(t, a.Join(b.Join(c)), ab.Join(c))
		require.Equal(t, ab.Kind == SharedSet || ab.Kind == ExclusiveSet, len(ab.Names) > 0)
	})
}

func TestMergeIsTheWorstCaseOfEachLevel(t *testing.T) {
	require.Equal(t, Declaration{}, Merge())
	one := DeclarationOf(Item{Member(Node, "b"), Shared}, Item{Member(Node, "a"), Shared}, Item{BGL, Shared}, Item{ConfigLock, Exclusive})
	require.Equal(t, Declaration{Demands: [Levels]Demand{Node - Instance: {SharedSet, []string{"a", "b"}}}}, one)
	require.Equal(t, one, Merge(one))

	two := DeclarationOf(Item{Member(Node, "c"), Exclusive}, Item{Group(Instance), Shared}, Item{BGL, Exclusive}, Item{Member(Network, "n"), None})
	require.Equal(t, Declaration{BGL: true, Demands: [Levels]Demand{
		0: {AllShared, nil}, Node - Instance: {ExclusiveSet, []string{"a", "b", "c"}},
	}}, Merge(one, two))
	require.Equal(t, []string{"a", "b"}, one.At(Node).Names, "what was merged is as it was")
}

func TestDeclarationOfIsAllItsItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Declaration
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Item {
			name := rapid.SampledFrom([]string{"node/a", "node/b", "node/c", "node/[lockset]", "network/a", "cluster/BGL", "cluster/config", "lock/x", "lock/y"}).Draw(t, "lock")
			l, _ := ParseLock(name)
			return Item{l, Mode(rapid.IntRange(int(None), int(Exclusive)).Draw(t, "mode"))}
		}), 0, 6).Draw(t, "items")
		for _, i := range items {
			all = append(all, DeclarationOf(i))
		}
		require.Equal(t, Merge(all...), DeclarationOf(items...))
	})
}
