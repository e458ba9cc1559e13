package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func benchmark(b *testing.B, file string, run func(data []byte, j *Job)) {
	data := captured(b)[file]
	j, err := Decode(data)
	require.NoError(b, err)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		run(data, j)
	}
}

func decode(data []byte, _ *Job) { _, _ = Decode(data) }
func encode(_ []byte, j *Job)    { _ = Encode(j) }

const (
	benchSpaced  = "job-4969.running-cancel-refused.json"       // 1.2 kB
	benchCompact = "job-4963.canceled-while-queued.json"        // 0.9 kB
	benchLogs    = "job-17628.error-partial-multi-op-logs.json" // 8.4 kB
)

func BenchmarkDecodeSpaced(b *testing.B)  { benchmark(b, benchSpaced, decode) }
func BenchmarkDecodeCompact(b *testing.B) { benchmark(b, benchCompact, decode) }
func BenchmarkDecodeLogs(b *testing.B)    { benchmark(b, benchLogs, decode) }
func BenchmarkEncodeSpaced(b *testing.B)  { benchmark(b, benchSpaced, encode) }
func BenchmarkEncodeCompact(b *testing.B) { benchmark(b, benchCompact, encode) }
func BenchmarkEncodeLogs(b *testing.B)    { benchmark(b, benchLogs, encode) }
