package doctree

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlacesInALongLine(t *testing.T) {
	root, err := ParseJSON([]byte("[\n [1, \"äö\", 2],\n  {\"a\": 3}]"))
	require.NoError(t, err)
	require.Equal(t, Position{1, 1}, root.At)
	require.Equal(t, Position{2, 2}, root.Values[0].At)
	require.Equal(t, Position{2, 12}, root.Values[0].Values[2].At, "columns count characters")
	require.Equal(t, Position{3, 9}, root.Values[1].Values[0].At)
}

// The cost of a job does not grow with the length of a file, even if it is one line.
func BenchmarkParseJSON(b *testing.B) {
	for name, jobs := range map[string]int{"jobs=100": 100, "jobs=10000": 10_000} {
		file := []byte("[" + strings.TrimSuffix(strings.Repeat(`[{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"]}],`, jobs), ",") + "]")
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := ParseJSON(file)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*jobs), "µs/job")
		})
	}
}
