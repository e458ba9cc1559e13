package submit

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/edge/outputs/end"
)

// A signal ends a run that reads kept output from a daemon that does not answer. What was not read is not said to be missing.
func TestASignalEndsTheReadingOfKeptOutput(t *testing.T) {
	var out, said bytes.Buffer
	interrupts := make(chan os.Signal, 1)
	streams := cli.Streams{Out: &out, Err: &said, Now: time.Now, After: time.After}
	r := &foregroundRun{globals: &cli.Globals{Streams: streams}, streams: streams, interrupts: interrupts, daemon: &client.Session{}, id: 12}
	ctx, cancel := context.WithCancel(t.Context())
	r.makeInterruptible(ctx)
	r.Views = follow.ViewsOf(ctx, r.globals, r.daemon, r.streams, r.id)
	r.SetKept(r.keptInterruptible(ctx, func(part end.Kept, take func([]byte) bool) int64 {
		require.True(t, take([]byte("two\n")))
		interrupts <- syscall.SIGTERM
		<-ctx.Done()
		return part.From + 4
	}, cancel))
	lost := json.RawMessage(`{"missing":{"stdout":{"lines":3,"bytes":24}},"written":{"stdout":{"lines":3,"bytes":24}}}`)
	r.Show([]follow.LogEntry{{Serial: 1, Type: "output-missing", Payload: lost}})
	var exit *cli.ExitError
	require.ErrorAs(t, r.left, &exit)
	require.Equal(t, 143, exit.Code)
	require.Equal(t, "two\n", out.String())
	require.Empty(t, said.String())
}

// An interrupt comes while a stream takes what is written. The writes succeed, and the interrupt waits for the caller.
func TestAnInterruptDuringAWriteIsLeft(t *testing.T) {
	var said bytes.Buffer
	never := make(chan time.Time)
	streams := cli.Streams{Out: &said, Err: &said, After: func(time.Duration) <-chan time.Time { return never }}
	r := &foregroundRun{globals: &cli.Globals{Streams: streams}, streams: streams, interrupts: make(chan os.Signal, 2), id: 12}
	r.makeInterruptible(t.Context())
	r.interrupts <- os.Interrupt
	for range 200 {
		n, err := r.streams.Err.Write([]byte("x"))
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	require.NoError(t, r.left)
	require.Len(t, r.interrupts, 1)
	require.Equal(t, 200, said.Len())
}
