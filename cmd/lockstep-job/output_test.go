package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/outflow"
)

// On a slow disk the log takes output slowly. What the command has written before its end is in the log nevertheless,
// even if another process holds the pipe open.
func TestOutputThatIsStillInThePipeIsKept(t *testing.T) {
	text := "first\n" + strings.Repeat("more\n", 5000)
	var out *output
	var got strings.Builder
	out, err := newOutput(func(entries []jobproc.LogEntry) {
		if entries[0].Kind == job.LogStderr { // its end
			return
		}
		if got.Len() == 0 { // the first write took so long that the timeout has passed
			_, err := out.stdout().WriteString(strings.TrimPrefix(text, "first\n"))
			require.NoError(t, err)
			require.NoError(t, out.streams[0].reader.SetReadDeadline(time.Now()))
		}
		for _, e := range entries {
			if e.Kind == job.LogOpen {
				require.JSONEq(t, `["stdout"]`, string(e.Payload))
				continue
			}
			require.Nil(t, e.Payload)
			require.Equal(t, job.LogStdout, e.Kind)
			got.Write(e.Output)
		}
	}, newRelay("", 1, outflow.NewSource(outflow.Standard(time.Hour), false), nil, nil), nil)
	require.NoError(t, err)
	_, err = out.stdout().WriteString("first\n")
	require.NoError(t, err)
	require.NoError(t, out.stderr().Close())
	out.startCopying()
	out.finish()
	require.True(t, text == got.String(), "%d of %d bytes", got.Len(), len(text))
}
