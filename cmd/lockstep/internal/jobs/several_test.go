package jobs

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A line that never ends is not kept until its end.
func TestALineOfSeveralJobsIsBounded(t *testing.T) {
	const size = 3*lineMax + 5
	part := strings.Repeat("x", lineMax)
	for _, chunk := range []int{1000, size} {
		var to bytes.Buffer
		w := &prefixWriter{to: &to, prefix: "7| "}
		for rest := strings.Repeat("x", size); rest != ""; {
			n, err := w.Write([]byte(rest[:min(chunk, len(rest))]))
			require.NoError(t, err)
			rest = rest[n:]
			require.LessOrEqual(t, len(w.line), lineMax)
		}
		_, err := w.Write([]byte("\nlast"))
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		require.Equal(t, strings.Repeat("7| "+part+"\n", 3)+"7| xxxxx\n7| last\n", to.String())
	}
}
