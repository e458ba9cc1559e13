package natural

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNaturalOrder(t *testing.T) {
	for _, ordered := range []string{
		"|0|00|01|1|2|10|-|a", "a|a0|a1|a2|a10|a10b|ab", "disk.spindles|disk.spindles/0|disk.spindles/2|disk.spindles/10", "node2.x|node10.x", "node-res/a|node/01b|node/1|node/2|node/10|node/a|node/a2|node/a10", "1a|1b",
	} {
		names := strings.Split(ordered, "|")
		for i := range names {
			for k := range names {
				require.Equal(t, sign(i-k), sign(Compare(names[i], names[k])), "%q %q", names[i], names[k])
			}
		}
	}
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// Two names are equal only if they are the same, and the order is transitive.
func TestNaturalOrderIsAnOrder(t *testing.T) {
	name := rapid.StringMatching(`[ab/.0-2]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		require.Equal(t, sign(Compare(a, b)), -sign(Compare(b, a)))
		require.Equal(t, a == b, Compare(a, b) == 0)
		if Compare(a, b) < 0 && Compare(b, c) < 0 {
			require.Negative(t, Compare(a, c))
		}
	})
}
