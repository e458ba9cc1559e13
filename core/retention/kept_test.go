package retention

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The output that stays is within the bound, unless only jobs that have not ended have some. Those that ended first go first, none goes
// without need, and none of a job that has not ended.
func TestTheOldestKeptOutputGoesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.Int64Range(10, 1000).Draw(t, "bound")
		all := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) KeptOutput {
			return KeptOutput{Job: rapid.Int64Range(1, 100).Draw(t, "job"), Bytes: rapid.Int64Range(0, 400).Draw(t, "bytes"),
				EndUs: rapid.Int64Range(0, 5).Draw(t, "end")}
		}), 0, 10, func(k KeptOutput) int64 { return k.Job }).Draw(t, "all")
		remove, full := TrimKept(all, bound)

		var stay, gone []KeptOutput
		var sum, stays, unended int64
		for _, k := range all {
			sum += k.Bytes
			if slices.Contains(remove, k.Job) {
				gone = append(gone, k)
				require.NotZero(t, k.EndUs, "it has not ended")
				continue
			}
			stays += k.Bytes
			if k.EndUs == 0 {
				unended += k.Bytes
			} else {
				stay = append(stay, k)
			}
		}
		require.Len(t, remove, len(gone), "each once")
		if stays > bound {
			require.Empty(t, stay)
		}
		for _, g := range gone {
			for _, s := range stay {
				require.LessOrEqual(t, g.EndUs, s.EndUs)
			}
		}
		if len(remove) > 0 { // the last one was necessary
			last := slices.IndexFunc(gone, func(k KeptOutput) bool { return k.Job == remove[len(remove)-1] })
			require.Greater(t, stays+gone[last].Bytes, bound)
		}
		if !MayExceed(sum, bound) {
			require.Empty(t, remove)
			require.False(t, full)
		}
		if unended > bound {
			require.True(t, full)
		}
		if unended == 0 {
			require.False(t, full, "removal is enough")
		}
	})
}

// The tenth that is left is for what jobs write until they notice.
func TestKeepingStopsBelowTheBound(t *testing.T) {
	for bytes, want := range map[int64]bool{899: false, 900: true, 1001: true} {
		remove, full := TrimKept([]KeptOutput{{Job: 2, Bytes: bytes}, {Job: 1, Bytes: 200, EndUs: 1}}, 1000)
		require.Equal(t, want, full)
		require.Equal(t, []int64{1}, remove, "%d", bytes)
	}
}
