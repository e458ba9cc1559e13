package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/sim/longtest"
)

// The random choices of a seed can be recorded, and a run from the record equals the run from
// the seed.
func TestARecipeIsTheRun(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			for seed := range longtest.Times(uint64(40)) {
				p := Repro{Seed: seed, Nodes: nodes, Steps: 5000, Faults: "all"}
				drawn, err := p.Run(nil)
				require.NoError(t, err)
				text, err := json.Marshal(drawn.Recipe)
				require.NoError(t, err)
				p.Recipe = &Recipe{}
				require.NoError(t, json.Unmarshal(text, p.Recipe))
				written, err := p.Run(nil)
				require.NoError(t, err)
				require.Equal(t, drawn.Sum, written.Sum, "seed %d: %s", seed, text)
			}
		})
	}
}

// A failing run is reduced, and still fails in the same way.
func TestMinimize(t *testing.T) {
	longtest.Skip(t)
	for _, p := range []Repro{
		{Seed: 20, Nodes: 1, Steps: 20_000, Faults: "all", Mutation: "unsynced-ends"},
		{Seed: 40, Nodes: 3, Steps: 20_000, Faults: "all", Mutation: "forgotten-jobs"}, // few runs make it small
	} {
		t.Run(p.Mutation, func(t *testing.T) {
			t.Parallel()
			all := firstBroken(t, &p)
			m, err := Minimize(p, 120, nil)
			require.NoError(t, err)
			require.Equal(t, all.Err.(*Violation).Checker, m.Result.Err.(*Violation).Checker)
			t.Logf("%d faults to %d, %d requests to %d, in %d runs", len(all.Recipe.Faults),
				len(m.Repro.Recipe.Faults), len(all.Recipe.Requests), len(m.Repro.Recipe.Requests), m.Runs)
			require.Less(t, len(m.Repro.Recipe.Faults)+len(m.Repro.Recipe.Requests), (len(all.Recipe.Faults)+len(all.Recipe.Requests))/2)

			again, err := m.Repro.Run(nil)
			require.NoError(t, err)
			require.Equal(t, m.Result.Sum, again.Sum)
		})
	}
}

// firstBroken finds the first seed, from the seed of c on, whose run fails and has several
// faults.
func firstBroken(t *testing.T, c *Repro) Result {
	for c.Seed = max(c.Seed, 1); c.Seed < 200; c.Seed++ {
		r, err := c.Run(nil)
		require.NoError(t, err)
		if r.Err != nil && len(r.Recipe.Faults) > 3 {
			return r
		}
	}
	require.Fail(t, "no run has failed")
	return Result{}
}

func TestMinimizeAGoodRun(t *testing.T) {
	_, err := Minimize(Repro{Seed: 1, Nodes: 1, Steps: 100, Faults: "none"}, 10, nil)
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
		s := Fault{Kind: faultKind(rapid.IntRange(1, int(faultKindCount)-1).Draw(t, "kind")), At: rapid.Uint64().Draw(t, "at"),
			Choices: rapid.SliceOfN(rapid.IntRange(0, 1<<40), 0, 4).Draw(t, "how")}
		if len(s.Choices) == 0 {
			s.Choices = nil
		}
		var read Fault
		text, err := s.MarshalText()
		require.NoError(t, err)
		require.NoError(t, read.UnmarshalText(text))
		require.Equal(t, s, read)
	})
	for _, text := range []string{"", "disk", "@1", "fire@1", "disk@x", "disk@1:", "disk@1:-2", "disk@1:2,"} {
		require.Error(t, new(Fault).UnmarshalText([]byte(text)), text)
	}
}

func TestATraceHasItsCase(t *testing.T) {
	p := Repro{Seed: 7, Nodes: 1, Steps: 300, Faults: "crash,disk", Mutation: "lost-serial", Recipe: &Recipe{Faults: []Fault{{Kind: faultCrash, At: 40, Choices: []int{0}}}, Requests: []Request{}}}
	var trace bytes.Buffer
	r, err := p.WriteTrace(&trace)
	require.NoError(t, err)
	lines := bufio.NewScanner(&trace)
	read, err := ReadRepro(lines)
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
		_, err := ReadRepro(bufio.NewScanner(strings.NewReader(text)))
		require.Error(t, err, text)
	}
}
