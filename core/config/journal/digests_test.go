package journal

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The last digests are kept in order, also by an older value after both went on in different ways.
func TestDigests(t *testing.T) {
	var d digests
	var want []Digest
	for i := range 3 * digestsMax {
		before := d
		d = before.with(Digest(fmt.Sprint(i)))
		other := before.with("other")
		require.Equal(t, Digest("other"), other.last(0))
		want = append(want, Digest(fmt.Sprint(i)))
		want = want[max(0, len(want)-digestsMax):]
		require.Equal(t, len(want), d.len())
		if i%97 == 0 || i > 3*digestsMax-50 {
			require.Equal(t, want, d.all())
			require.Equal(t, d.all(), digestsOf(d.all()).all())
			for age := range want {
				require.Equal(t, want[len(want)-1-age], d.last(age))
			}
		}
	}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { d = d.with("x") }), 1.1)
}
