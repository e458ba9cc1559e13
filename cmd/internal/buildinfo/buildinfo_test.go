package buildinfo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABuildInWords(t *testing.T) {
	require.Equal(t, "1.2.3 (commit 0123456789ab of 2026-11-22, go1.26.8)",
		Build{Version: "1.2.3", Revision: "0123456789ab", Date: "2026-11-22", Go: "go1.26.8"}.String())
	require.Equal(t, "dev (commit unknown of unknown date, go1.26.8)", Build{Version: "dev", Go: "go1.26.8"}.String())
	require.Equal(t, "dev (commit 0123456789ab with changes of 2026-11-22, go1.26.8)",
		Build{Version: "dev", Revision: "0123456789ab", Date: "2026-11-22", Modified: true, Go: "go1.26.8"}.String())
}

func TestTheDayOfACommit(t *testing.T) {
	require.Equal(t, "2026-11-22", dayOf("2026-11-22T15:49:38+00:00"))
	require.Equal(t, "2026-11-22", dayOf("2026-11-22T15:49:38Z"))
	require.Empty(t, dayOf(""))
	require.Empty(t, dayOf("yesterday"))
}
