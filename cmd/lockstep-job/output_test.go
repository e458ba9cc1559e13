package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/outflow"
	"lockstep/edge/outputs/end"
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
	}, newRelay("", 1, outflow.NewSource(outflow.Standard(time.Hour), outflow.Position{}, false), nil, nil), nil)
	require.NoError(t, err)
	_, err = out.stdout().WriteString("first\n")
	require.NoError(t, err)
	require.NoError(t, out.stderr().Close())
	out.startCopying()
	out.finish()
	require.True(t, text == got.String(), "%d of %d bytes", got.Len(), len(text))
}

// A process that the command has left behind may write more than is kept for a follower that takes nothing. The opcode ends nevertheless,
// because it has locks, and the follower is told why it misses output.
func TestOutputAfterTheEndOfTheCommandWaitsForNoReader(t *testing.T) {
	b := newRelayed(t, true)
	said := make(chan string, 1)
	b.note = func(complaint string) { said <- complaint }
	c := b.pair(end.Hello{Job: 7, Follows: true}, 0)
	marker := filepath.Join(t.TempDir(), "begun")
	parameters, err := json.Marshal(map[string]any{"argv": []string{"/bin/sh", "-c",
		`setsid sh -c ': > "$0"; exec cat /dev/zero' "$0" & until [ -e "$0" ]; do sleep 0.01; done`, marker}})
	require.NoError(t, err)
	x := &execution{id: 7, livelock: "none", lease: &lease{}, relay: b.relay, emit: func([]jobproc.LogEntry) {}}
	ended := make(chan jobproc.Outcome)
	go func() { ended <- x.runCommand(parameters) }()
	select {
	case outcome := <-ended:
		require.False(t, outcome.Failed, "%s", outcome.Result)
	case <-time.After(time.Minute):
		require.FailNow(t, "the opcode waits for the reader")
	}
	require.Equal(t, "no reader has taken the output of a command that has ended; the job goes on without one", <-said)
	require.NoError(t, b.finish(true))
	reader := end.NewReader(c.reader, outflow.Position{})
	for err == nil {
		_, _, err = reader.Next()
	}
	require.True(t, reader.Ended)
	require.Positive(t, reader.Missing.Stdout)
}
