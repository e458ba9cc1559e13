package main

import (
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/wire"
)

// serve is a daemon that gives the answers of the test; nil is no answer.
func serve(t *testing.T, answer func(method string, args []json.RawMessage) []byte) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	var open sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); open.Wait() })
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go func() {
				for reader := wire.NewReader(conn, wire.MaxFrame); ; {
					frame, err := reader.ReadFrame()
					if err != nil {
						return
					}
					if request, err := wire.DecodeRequest(frame); err == nil {
						if encoded := answer(request.Method, request.Args); encoded != nil {
							_ = wire.WriteFrame(conn, encoded)
						}
					}
				}
			}()
		}
	})
	return socket
}

func result(t *testing.T, value any) []byte {
	encoded, err := wire.EncodeResult(value)
	require.NoError(t, err)
	return encoded
}

// refusals answers the first two calls with an error, and later calls with a value.
func refusals(t *testing.T, class string, value any) func(string, []json.RawMessage) []byte {
	var mu sync.Mutex
	left := 2
	return func(string, []json.RawMessage) []byte {
		mu.Lock()
		defer mu.Unlock()
		if left--; left >= 0 {
			return wire.EncodeError(class, "a text")
		}
		return result(t, value)
	}
}

func newTestShell(t *testing.T, socket string) *shell {
	t.Helper()
	j := job.New(1, []json.RawMessage{json.RawMessage(`{"OP_ID": "OP_TEST_DELAY"}`)}, []int{0}, job.Timestamp{Sec: 1}, "livelock")
	p, err := jobproc.NewProcess(j, nil, jobproc.Identity{Livelock: "livelock", ReportSizeMax: jobproc.ReportSizeMax})
	require.NoError(t, err)
	s := newShell(p, &lease{}, nil, place{runDir: t.TempDir()}, nil)
	s.queue.socket, s.lines[jobproc.LockLine].connections.socket = socket, socket
	return s
}

// An executing opcode repeats its call if the node is not the master or if the class of the error is unknown.
func TestAnOpcodeAsksAgainUntilADaemonHasDecided(t *testing.T) {
	for _, class := range []string{"NotMaster", "JobQueueDrainError", "SomethingNew"} {
		var got int
		require.NoError(t, newTestShell(t, serve(t, refusals(t, class, 5))).queue.ask("QueryClusterInfo", nil, &got))
		require.Equal(t, 5, got)
	}
	refuses := func(string, []json.RawMessage) []byte { return wire.EncodeError("GenericError", "a text") }
	require.ErrorContains(t, newTestShell(t, serve(t, refuses)).queue.ask("QueryClusterInfo", nil, nil), "a text")
}

// A call replaces the call under way on its line. It is made when the connection of that call is closed. Calls on
// other lines continue.
func TestACallReplacesTheOneBeforeOnItsLine(t *testing.T) {
	arrived := make(chan string, 8)
	s := newTestShell(t, serve(t, func(method string, _ []json.RawMessage) []byte {
		arrived <- method
		if method == "never" {
			return nil
		}
		return result(t, method)
	}))
	next := func() string {
		select {
		case method := <-arrived:
			return method
		case <-time.After(30 * time.Second):
			require.Fail(t, "no call comes")
			return ""
		}
	}
	type answer struct {
		result []byte
		err    error
	}
	answers := map[string]chan answer{"never": make(chan answer, 1), "other": make(chan answer, 1), "second": make(chan answer, 1)}
	call := func(line jobproc.Line, method string) {
		s.lines[line].call(jobproc.Call{Method: method, Timeout: time.Minute}, func(result []byte, err error) { answers[method] <- answer{result, err} })
	}
	call(jobproc.LockLine, "never")
	require.Equal(t, "never", next())
	call(jobproc.ReportLine, "other")
	require.Equal(t, "other", next())
	require.Equal(t, `"other"`, string((<-answers["other"]).result))
	call(jobproc.LockLine, "second")
	require.Equal(t, "second", next())
	require.ErrorIs(t, (<-answers["never"]).err, context.Canceled)
	require.Equal(t, `"second"`, string((<-answers["second"]).result))
}
