package query

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// An interrupted search finds what the compiled pattern finds.
func TestAnInterruptedSearchFindsTheSame(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "b", ".", "^", "$", `\b`, `\B`, "(?i:B)", "[^a]", `\pL`, "é", "(?m:^)", "(?m:$)", `\A`, `\z`, "\n", "(a|ab)", "(?s:.)"})
	suffix := rapid.SampledFrom([]string{"", "", "*", "+", "?", "{2,3}", "*?"})
	text := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "B", "é", "\n", " ", "_", "\xff", "ſ"}), 0, 12)
	rapid.Check(t, func(t *rapid.T) {
		var pattern strings.Builder
		for range rapid.IntRange(1, 6).Draw(t, "pieces") {
			pattern.WriteString("(?:" + piece.Draw(t, "piece") + ")" + suffix.Draw(t, "suffix"))
			if rapid.IntRange(0, 5).Draw(t, "alternative") == 0 {
				pattern.WriteString("|")
			}
		}
		p, err := NewPatternBudget().compile(pattern.String())
		require.NoError(t, err)
		p.cost = directMax // as if it were large
		in := []byte(strings.Join(text.Draw(t, "text"), ""))
		work := 1
		s, found := p.Search(in, &work)
		for done := s == nil; !done; {
			work = 1
			found, done = s.Continue(&work)
		}
		require.Equal(t, regexp.MustCompile(pattern.String()).Match(in), found, "%q in %q", pattern.String(), in)
	})
}

// No piece of a search costs more than its work and one character, whatever the text.
func TestASearchIsMadeInPieces(t *testing.T) {
	p, err := NewPatternBudget().compile("(a|aa){250}b")
	require.NoError(t, err)
	text := []byte(strings.Repeat("a", 100_000))
	work := 50_000
	s, _ := p.Search(text, &work)
	pieces := 1
	for s != nil {
		require.Greater(t, work, -2*p.cost)
		pieces++
		work = 50_000
		if found, done := s.Continue(&work); done {
			require.False(t, found)
			break
		}
	}
	require.Greater(t, pieces, 100)
}

func BenchmarkSearch(b *testing.B) {
	p, err := NewPatternBudget().compile("(a|aa){250}b")
	require.NoError(b, err)
	text := []byte(strings.Repeat("a", 10_000))
	steps := 0
	for b.Loop() {
		work := math.MaxInt
		p.Search(text, &work)
		steps = math.MaxInt - work
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(steps), "ns/step")
}
