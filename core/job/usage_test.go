package job

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsageInTheResultOfACommand(t *testing.T) {
	u := Usage{CPUSeconds: 1.987654, MemoryPeakBytes: 12_345_678, MemoryOf: MemoryOfProcess}
	for _, result := range []json.RawMessage{
		json.RawMessage(`{"exit_status": 0}`),
		ErrorResult("OpExecError", `a brace } and "usage"`, map[string]any{"exit_status": 3}),
	} {
		require.Nil(t, UsageIn(result))
		used := WithDetail(result, "usage", u)
		require.True(t, json.Valid(used), string(used))
		require.Equal(t, &u, UsageIn(used))
		if f, ok := ParseFailure(used); ok {
			require.Equal(t, 3, *f.ExitStatus)
		}
	}
	require.JSONEq(t, `{"exit_status": 0, "usage": {"cpu_seconds": 0.5}}`,
		string(WithDetail(json.RawMessage(`{"exit_status": 0}`), "usage", Usage{CPUSeconds: 0.5})))
	for _, other := range []string{``, `null`, `"usage"`, `["usage"]`, `["C", ["usage"]]`, `{"usage": 5}`, `["C", ["t", {"usage": []}]]`} {
		require.Nil(t, UsageIn(json.RawMessage(other)), other)
	}
}

func TestUsageInWords(t *testing.T) {
	for want, u := range map[string]Usage{
		"0s of CPU": {},
		"1.99s of CPU, at most 12 MB of memory in one process": {CPUSeconds: 1.987654, MemoryPeakBytes: 12_345_678, MemoryOf: MemoryOfProcess},
		"1h0m0s of CPU, at most 2.0 GB of memory":              {CPUSeconds: 3600.4, MemoryPeakBytes: 2_000_000_000, MemoryOf: MemoryOfGroup},
		"10ms of CPU, at most 999 bytes of memory":             {CPUSeconds: 0.0099, MemoryPeakBytes: 999, MemoryOf: MemoryOfGroup},
	} {
		require.Equal(t, want, u.String())
	}
}
