package jobfile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlacesInALongLine(t *testing.T) {
	root, err := parseJSON([]byte("[\n [1, \"äö\", 2],\n  {\"a\": 3}]"))
	require.NoError(t, err)
	require.Equal(t, Position{1, 1}, root.at)
	require.Equal(t, Position{2, 2}, root.values[0].at)
	require.Equal(t, Position{2, 12}, root.values[0].values[2].at, "columns count characters")
	require.Equal(t, Position{3, 9}, root.values[1].values[0].at)
}

// The cost of a job does not grow with the file, though it be one line.
func BenchmarkParseFile(b *testing.B) {
	for name, jobs := range map[string]int{"jobs=100": 100, "jobs=10000": 10_000} {
		file := []byte("[" + strings.TrimSuffix(strings.Repeat(`[{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"]}],`, jobs), ",") + "]")
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := parseJSON(file)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*jobs), "µs/job")
		})
	}
}
