package socket

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/core/wire"
	"lockstep/edge/admission"
)

// A connection whose request waits, for an event or for its turn, gives way to a new one. One whose request is at work does not.
func TestARequestThatWaitsGivesWay(t *testing.T) {
	sys := actor.NewActorSystem()
	t.Cleanup(sys.Shutdown)
	received, closed := make(chan string, 10), make(chan struct{}, 10)
	serve := actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *conn.Received:
			received <- string(m.Frame)
		case *conn.Closed:
			closed <- struct{}{}
		}
	})
	gateway := sys.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, is := ctx.Message().(*conn.Opened); is {
			m.Conn.Serve(ctx.Spawn(serve))
		}
	}))
	turnOf := func(frame []byte) (admission.Class, bool) {
		switch {
		case strings.Contains(string(frame), "wait"):
			return admission.Wait, true
		case strings.Contains(string(frame), "list"):
			return admission.Preview, true
		}
		return 0, false
	}
	path := filepath.Join(t.TempDir(), "s")
	listener := listen(t, path, Options{MaxFrame: 1 << 10, MaxConns: 2, Idle: time.Minute, Turn: turnOf})
	served := make(chan error, 1)
	go func() { served <- listener.Serve(sys, func() *actor.PID { return gateway }) }()
	ask := func(text string) net.Conn {
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		require.NoError(t, wire.WriteFrame(c, []byte(text)))
		return c
	}
	requireEnded := func(c net.Conn) {
		t.Helper()
		if _, err := io.Copy(io.Discard, c); err != nil {
			require.ErrorIs(t, err, syscall.ECONNRESET) // it ends before its request is read
		}
		<-closed
	}

	ask("list 1")
	require.Equal(t, "list 1", <-received)
	waiter := ask("wait")
	require.Equal(t, "wait", <-received)
	second := ask("list 2") // waits for the turn that one client leaves to others
	requireEnded(waiter)
	ask("work")
	requireEnded(second)
	require.Equal(t, "work", <-received)
	refused, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer refused.Close()
	require.NoError(t, refused.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = refused.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Empty(t, received)

	require.NoError(t, listener.Close())
	require.NoError(t, <-served)
}

// A request of a megabyte or more is decoded to several times its size, so a client has one of them at work.
func TestLargeRequestsOfOneClientWorkOneAfterTheOther(t *testing.T) {
	sys := actor.NewActorSystem()
	t.Cleanup(sys.Shutdown)
	received := make(chan *conn.Received, 10)
	served := make(chan conn.Conn, 10)
	gateway := sys.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *conn.Opened:
			m.Conn.Serve(ctx.Self())
			served <- m.Conn
		case *conn.Received:
			received <- m
		}
	}))
	path := filepath.Join(t.TempDir(), "s")
	table := admission.NewTable()
	listener := listen(t, path, Options{MaxFrame: 4 << 20, Idle: time.Minute, Table: table})
	ended := make(chan error, 1)
	go func() { ended <- listener.Serve(sys, func() *actor.PID { return gateway }) }()
	send := func(size int) conn.Conn {
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		server := <-served
		go func() { _ = wire.WriteFrame(c, make([]byte, size)) }()
		return server
	}
	first := send(1 << 20)
	require.Len(t, (<-received).Frame, 1<<20)
	send(2 << 20)
	send(1000)
	require.Len(t, (<-received).Frame, 1000, "a small one does not wait")
	require.Equal(t, 1, table.Active(admission.Bulk))
	first.Answer([]byte("x"))
	require.Len(t, (<-received).Frame, 2<<20)
	require.NoError(t, listener.Close())
	require.NoError(t, <-ended)
}
