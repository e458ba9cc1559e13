package jobproc

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
)

// follower reads a log after each write, and knows where in its stream each piece belongs.
type follower struct {
	serial  int64
	account job.OutputAccount
	got     map[string]int // bytes that arrived, by stream
}

func (f *follower) read(t require.TestingT, j *job.Job, written map[string][]byte) {
	for _, entry := range j.LogAfter(f.serial) {
		require.Greater(t, entry.Serial, f.serial)
		f.serial = entry.Serial
		f.account.Add(entry.Type, entry.Payload)
		stream, piece, ok := job.DecodeOutput(entry.Type, entry.Payload)
		if !ok {
			continue
		}
		end := bytesOf(f.account.Delivered, stream) + bytesOf(f.account.Missing, stream)
		require.True(t, bytes.Equal(written[stream][end-int64(len(piece)):end], piece), "the piece of %s up to byte %d", stream, end)
		f.got[stream] += len(piece)
	}
}

func bytesOf(o job.Output, stream string) int64 {
	if stream == job.LogStdout {
		return o.Stdout.Bytes
	}
	return o.Stderr.Bytes
}

// However output arrives, and whenever the file is written, each piece of the log is what was written at its place, the log stays within
// its bound, and what it lacks is counted.
func TestOutputIsInTheLogOrCountedAsMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 4000
		ganeti := rapid.Bool().Draw(t, "ganeti")
		ops := rapid.IntRange(1, 2).Draw(t, "opcodes")
		m, err := New(newJob(ops), []LaunchSpec{{LogLimit: limit}, {LogLimit: limit}})
		require.NoError(t, err)
		m.log.ganeti = ganeti
		m.Start(at(1))
		written, n := map[string][]byte{}, 0
		all := follower{got: map[string]int{}}
		late := follower{got: map[string]int{}}
		write := func() {
			j, err := job.Decode(m.Encode())
			require.NoError(t, err)
			all.read(t, j, written)
		}
		for range ops {
			m.Permitted(at(1))
			for range rapid.IntRange(0, 12).Draw(t, "chunks") {
				stream := rapid.SampledFrom([]string{job.LogStdout, job.LogStderr}).Draw(t, "stream")
				var chunk bytes.Buffer
				end := rapid.SampledFrom([]string{"\n", "\r\n", " ", "\xff", "\n\n"}).Draw(t, "end")
				for range rapid.IntRange(1, 500).Draw(t, "lines") {
					n++
					fmt.Fprintf(&chunk, "%d%s", n, end)
				}
				if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
					chunk.Write(bytes.Repeat([]byte("long "), 500))
				}
				m.Output(stream, bytes.Clone(chunk.Bytes()), at(2))
				written[stream] = append(written[stream], chunk.Bytes()...)
				switch rapid.IntRange(0, 9).Draw(t, "then") {
				case 0:
					write()
				case 1:
					m.Log("message", []byte(`"between"`), at(2))
				case 2:
					m.Output(stream, nil, at(2))
				}
			}
			m.Done(Outcome{}, at(3))
			write()
		}
		require.Less(t, len(m.Encode()), ops*(2*limit+8000))
		late.read(t, m.Job(), written)
		for _, f := range []follower{all, late} {
			for _, stream := range []string{job.LogStdout, job.LogStderr} {
				require.EqualValues(t, len(written[stream]), bytesOf(f.account.Delivered, stream)+bytesOf(f.account.Missing, stream))
				require.EqualValues(t, f.got[stream], bytesOf(f.account.Delivered, stream))
			}
			lines := f.account.Delivered.Plus(f.account.Missing)
			require.EqualValues(t, bytes.Count(written[job.LogStdout], []byte("\n")), lines.Stdout.Lines)
			require.EqualValues(t, bytes.Count(written[job.LogStderr], []byte("\n")), lines.Stderr.Lines)
		}
	})
}

// Output between two writes costs no entry for what is dropped.
func BenchmarkOutput(b *testing.B) {
	for name, chunk := range map[string][]byte{"zeros": make([]byte, 64<<10), "lines": bytes.Repeat([]byte("1234567\n"), 8<<10)} {
		b.Run(name, func(b *testing.B) {
			m, err := New(newJob(1), nil)
			require.NoError(b, err)
			m.Start(at(1))
			m.Permitted(at(1))
			b.SetBytes(int64(len(chunk)))
			for b.Loop() {
				m.Output(job.LogStdout, chunk, at(2))
			}
		})
	}
}
