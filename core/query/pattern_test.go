package query

import (
	"encoding/json"
	"fmt"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/messages"
)

func either(patterns ...string) json.RawMessage {
	filter := []any{"|"}
	for _, p := range patterns {
		filter = append(filter, []any{"=~", "status", p})
	}
	data, err := json.Marshal(filter)
	if err != nil {
		panic(err)
	}
	return data
}

func TestPatternsThatCostTooMuchAreRefusedByName(t *testing.T) {
	hundred := func(p string) json.RawMessage {
		var patterns []string
		for i := range 100 {
			patterns = append(patterns, p+strings.Repeat("z", i))
		}
		return either(patterns...)
	}
	for _, c := range []struct {
		filter json.RawMessage
		want   string // "": accepted
	}{
		{either(strings.Repeat(`\pL{1000}`, 80)), ""},
		{either(strings.Repeat(`a{1000}`, 200)), `filter[1][2]: the pattern "` + strings.Repeat(`a{1000}`, 14) + `a{"… is too complex: all patterns together may have 100000 instructions, repetitions written out`},
		{either(`x+`, strings.Repeat(`(a{10}){100}`, 100)), `filter[2][2]: the pattern "(a{10})`},
		{either(strings.Repeat(`\pL`, 101)), `filter[1][2]: the pattern "\\pL\\pL`},
		{hundred(`a{900}`), ""},
		{hundred(`a{1000}`), `instructions`},
		{hundred(strings.Repeat(`\pL`, 100)), `instructions`},
	} {
		_, err := Parse(c.filter)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
}

// genPattern draws a pattern with the operators that make programs large: repetitions within repetitions, alternatives,
// classes.
func genPattern(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth == 0 {
			return rapid.SampledFrom([]string{`a`, `bc`, `.`, `\d`, `[^a-f]`, `\pL`, `(?i)k`, `^`, `\b`, ``, `[a-b]`, `(?s).`}).Draw(t, "leaf")
		}
		sub := func() string { return genPattern(rapid.IntRange(0, depth-1).Draw(t, "depth")).Draw(t, "sub") }
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0:
			return sub() + sub()
		case 1:
			return `(?:` + sub() + `|` + sub() + `)`
		case 2:
			return `(` + sub() + `)` + rapid.SampledFrom([]string{`*`, `+`, `?`, `*?`, `+?`, `??`}).Draw(t, "many")
		}
		low := rapid.IntRange(0, 12).Draw(t, "low")
		high := low + rapid.IntRange(0, 12).Draw(t, "more")
		times := rapid.SampledFrom([]string{fmt.Sprintf(`{%d}`, low), fmt.Sprintf(`{%d,}`, low), fmt.Sprintf(`{%d,%d}`, low, high)}).Draw(t, "times")
		return `(?:` + sub() + `)` + times
	})
}

func TestAPatternIsNoLargerThanItWasMeasured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := genPattern(5).Draw(t, "pattern")
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return // repeated too often
		}
		measured := 2 + instructions(tree)
		program, err := syntax.Compile(tree.Simplify())
		require.NoError(t, err)
		if measured <= instructionsMax {
			require.LessOrEqual(t, len(program.Inst), measured, text)
		}
	})
}

// FuzzWhatAnExpressionCosts: the memory of any expression is bounded by its length and by the limits of its patterns.
func FuzzWhatAnExpressionCosts(f *testing.F) {
	for _, p := range []string{`a`, strings.Repeat(`\pL{1000}`, 3000), strings.Repeat(`[^\pL]`, 5000), strings.Repeat(`(?:(?:a?){30}){30}`, 1000), strings.Repeat(`(?i)\pL`, 4000), strings.Repeat(`[\pL\PN]{1000}`, 1000)} {
		f.Add([]byte(either(p)))
		f.Add([]byte(either(p, p+"b", p+"c", p+"d")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		expr, err := Parse(data)
		runtime.ReadMemStats(&after)
		const expressionMax = 64 << 20
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(expressionMax+1000*len(data)))
		if err == nil {
			require.Less(t, expr.cost, instructionsMax+len(data))
		}
	})
}

func TestAFilterThatTakesTooLongIsRefused(t *testing.T) {
	q, err := Jobs.NewQuery([]string{"id"}, either(`(x+x+){300}y`))
	require.NoError(t, err)
	item := &JobItem{ID: 1, Info: &messages.JobInfo{}}
	many := testsMax/q.filter.cost + 1
	q.testsLeft -= (many - 3) * q.filter.cost // as if these items had been examined
	for range 3 {
		_, _, err = q.Match(item, LevelInfo)
		if err != nil {
			break
		}
	}
	var tooMuch *FilterTooExpensive
	require.ErrorAs(t, err, &tooMuch)
	require.ErrorContains(t, err, "the filter takes too long")

	plain, err := Jobs.NewQuery([]string{"id"}, either(`^(queued|waiting|running)$`))
	require.NoError(t, err)
	require.Greater(t, testsMax/plain.filter.cost, 10_000_000, "jobs that a usual filter may be asked about")
}
