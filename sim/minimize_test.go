package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What a seed draws can be written down: the same run comes of it.
func TestARecipeIsTheRun(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		for seed := range uint64(40) {
			p := Case{Seed: seed, Nodes: nodes, Steps: 5000, Faults: "all"}
			drawn, err := p.Run(nil)
			require.NoError(t, err)
			text, err := json.Marshal(drawn.Recipe)
			require.NoError(t, err)
			p.Recipe = &Recipe{}
			require.NoError(t, json.Unmarshal(text, p.Recipe))
			written, err := p.Run(nil)
			require.NoError(t, err)
			require.Equal(t, drawn.Sum, written.Sum, "nodes %d, seed %d: %s", nodes, seed, text)
		}
	}
}

// A run that fails is made small, and still fails in the same way.
func TestMinimize(t *testing.T) {
	for _, p := range []Case{
		{Nodes: 1, Steps: 20_000, Faults: "all", Plant: "unsynced-ends"},
		{Seed: 30, Nodes: 3, Steps: 20_000, Faults: "all", Plant: "forgotten-jobs"}, // few runs make it small
	} {
		t.Run(p.Plant, func(t *testing.T) {
			all := firstBroken(t, &p)
			m, err := Minimize(p, 120, nil)
			require.NoError(t, err)
			require.Equal(t, all.Err.(*Violation).Checker, m.Result.Err.(*Violation).Checker)
			t.Logf("%d strikes to %d, %d requests to %d, in %d runs", len(all.Recipe.Strikes),
				len(m.Case.Recipe.Strikes), len(all.Recipe.Asks), len(m.Case.Recipe.Asks), m.Runs)
			require.Less(t, len(m.Case.Recipe.Strikes)+len(m.Case.Recipe.Asks), (len(all.Recipe.Strikes)+len(all.Recipe.Asks))/2)

			again, err := m.Case.Run(nil)
			require.NoError(t, err)
			require.Equal(t, m.Result.Sum, again.Sum)
		})
	}
}

// firstBroken finds a seed whose run fails, with several faults, from that of the case on.
func firstBroken(t *testing.T, c *Case) Result {
	for c.Seed = max(c.Seed, 1); c.Seed < 200; c.Seed++ {
		r, err := c.Run(nil)
		require.NoError(t, err)
		if r.Err != nil && len(r.Recipe.Strikes) > 3 {
			return r
		}
	}
	require.Fail(t, "no run has failed")
	return Result{}
}

func TestMinimizeAGoodRun(t *testing.T) {
	_, err := Minimize(Case{Seed: 1, Nodes: 1, Steps: 100, Faults: "none"}, 10, nil)
	require.ErrorIs(t, err, ErrGood)
}

func TestShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		needed := rapid.SliceOfNDistinct(rapid.IntRange(0, 50), 0, 5, rapid.ID).Draw(t, "needed")
		list := make([]int, 51)
		for i := range list {
			list[i] = i
		}
		best := list
		shrink(list, func(some []int) bool {
			for _, n := range needed {
				if !slices.Contains(some, n) {
					return false
				}
			}
			best = some
			return true
		})
		require.ElementsMatch(t, needed, best)
	})
}

func TestStrikesAsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Strike{Kind: strikeKind(rapid.IntRange(1, int(strikeKinds)-1).Draw(t, "kind")), At: rapid.Uint64().Draw(t, "at"),
			How: rapid.SliceOfN(rapid.IntRange(0, 1<<40), 0, 4).Draw(t, "how")}
		if len(s.How) == 0 {
			s.How = nil
		}
		var read Strike
		text, err := s.MarshalText()
		require.NoError(t, err)
		require.NoError(t, read.UnmarshalText(text))
		require.Equal(t, s, read)
	})
	for _, text := range []string{"", "disk", "@1", "fire@1", "disk@x", "disk@1:", "disk@1:-2", "disk@1:2,"} {
		require.Error(t, new(Strike).UnmarshalText([]byte(text)), text)
	}
}

func TestATraceHasItsCase(t *testing.T) {
	p := Case{Seed: 7, Nodes: 1, Steps: 300, Faults: "crash,disk", Plant: "lost-serial", Recipe: &Recipe{Strikes: []Strike{{Kind: strikeCrash, At: 40, How: []int{0}}}, Asks: []Ask{}}}
	var trace bytes.Buffer
	r, err := p.WriteTrace(&trace)
	require.NoError(t, err)
	lines := bufio.NewScanner(&trace)
	read, err := ReadCase(lines)
	require.NoError(t, err)
	require.Equal(t, p, read)
	count := 0
	for lines.Scan() {
		count++
	}
	require.Greater(t, count, 50)
	again, err := read.Run(nil)
	require.NoError(t, err)
	require.Equal(t, r.Sum, again.Sum)

	for _, text := range []string{"", "hello\n", traceMagic, traceMagic + "\n{", traceMagic + "\n{\"fire\":1}\n"} {
		_, err := ReadCase(bufio.NewScanner(strings.NewReader(text)))
		require.Error(t, err, text)
	}
}
