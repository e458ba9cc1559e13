package main

import (
	"encoding/json"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/lock"
	"lockstep/core/wire"
)

// serve is a daemon whose answers a test gives, by method; nil is none.
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

// refusals answers the first calls with an error, and the others with a value.
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

// A node that is not the master has not decided anything: it is asked again, as is one
// whose error has an unknown class.
func TestWhoIsNotTheMasterIsAskedAgain(t *testing.T) {
	for _, class := range []string{"NotMaster", "JobQueueDrainError", "SomethingNew"} {
		r := newReporter(serve(t, refusals(t, class, 5)), 1, "livelock")
		var got int
		require.NoError(t, r.ask("QueryClusterInfo", nil, &got))
		require.Equal(t, 5, got)

		l := newLockClient(serve(t, refusals(t, class, map[string]bool{"Granted": true})), lock.JobOwner(1, "livelock", 2))
		a, err := lock.ParseLock("node/a")
		require.NoError(t, err)
		taken := l.acquire(t.Context(), 0, lock.RequiredLocks{Request: lock.Request{{Lock: a, Mode: lock.Exclusive}}})
		require.NoError(t, taken.err)
		require.Len(t, taken.held, 1)
	}
}

func TestWhatIsRefusedForGood(t *testing.T) {
	refuses := func(string, []json.RawMessage) []byte { return wire.EncodeError("GenericError", "a text") }
	require.ErrorContains(t, newReporter(serve(t, refuses), 1, "livelock").ask("QueryClusterInfo", nil, nil), "a text")
	l := newLockClient(serve(t, refuses), lock.JobOwner(1, "livelock", 2))
	a, err := lock.ParseLock("node/a")
	require.NoError(t, err)
	require.ErrorContains(t, l.acquire(t.Context(), 0, lock.RequiredLocks{Request: lock.Request{{Lock: a, Mode: lock.Exclusive}}}).err, "a text")
}

// While the question for permission waits for its answer, reports are told; and it is
// not asked before what was to be reported then is told.
func TestReportsAreNotHeldUpByAQuestion(t *testing.T) {
	calls := make(chan string, 16)
	permit := make(chan struct{})
	refuse := refusals(t, "NotMaster", nil)
	socket := serve(t, func(method string, args []json.RawMessage) []byte {
		if method == "LockstepBeginOpcode" {
			calls <- method
			<-permit
			return result(t, nil)
		}
		answer := refuse(method, args)
		calls <- string(args[2])
		return answer
	})
	next := func() string {
		select {
		case call := <-calls:
			return call
		case <-time.After(30 * time.Second):
			require.Fail(t, "no call comes")
			return ""
		}
	}
	r := newReporter(socket, 1, "livelock")
	r.report([]byte(`"first"`))
	over := make(chan struct{})
	go func() { r.awaitPermission(1); close(over) }()
	for range 3 { // until it is taken
		require.Equal(t, `"first"`, next())
	}
	require.Equal(t, "LockstepBeginOpcode", next())
	r.report([]byte(`"second"`))
	require.Equal(t, `"second"`, next())
	r.report([]byte(`"third"`))
	require.Equal(t, `"third"`, next())
	close(permit)
	<-over
}
