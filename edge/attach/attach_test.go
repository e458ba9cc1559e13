package attach_test

import (
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/ownership"
	"lockstep/edge/attach"
	"lockstep/edge/socket"
)

// bench is a server, and the listening socket of a queue.
type bench struct {
	t          *testing.T
	path       string
	server     *attach.Server
	queue      *net.UnixListener
	clientPath string
}

func newBench(t *testing.T) *bench {
	dir := t.TempDir()
	b := &bench{t: t, path: filepath.Join(dir, "attach"), clientPath: filepath.Join(dir, "queue")}
	b.listen()
	l, err := net.Listen("unix", b.clientPath)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	b.queue = l.(*net.UnixListener)
	return b
}

func (b *bench) listen() {
	var err error
	b.server, err = attach.Listen(b.path, ownership.Attributes{Mode: 0o600, UID: -1, GID: -1})
	require.NoError(b.t, err)
	server := b.server
	b.t.Cleanup(func() { _ = server.Close() })
}

func (b *bench) dial() (*attach.Client, *attach.Queue) {
	client, err := attach.Dial(b.path, b.queue)
	require.NoError(b.t, err)
	b.t.Cleanup(client.Close)
	queue, err := b.server.Accept()
	require.NoError(b.t, err)
	return client, queue
}

// A client that has connected before the server, or between two servers, is served by the next one.
func TestTheSocketOutlivesTheServer(t *testing.T) {
	b := newBench(t)
	for range 2 {
		c, err := net.Dial("unix", b.clientPath)
		require.NoError(t, err)
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)

		client, queue := b.dial()
		queue.Ready()
		require.NoError(t, client.AwaitReady())
		served, err := queue.Listener.Accept()
		require.NoError(t, err)
		got := make([]byte, 1)
		_, err = served.Read(got)
		require.NoError(t, err)
		require.Equal(t, "x", string(got))
		queue.Close() // as at the end of its process
		require.NoError(t, client.AwaitEnd())
		require.NoError(t, b.server.Close())
		b.listen()
	}
}

// The end of ganeti-luxid, in order and by a crash, ends the queue. An orderly end waits for the server.
func TestTheEndOfTheClient(t *testing.T) {
	b := newBench(t)
	client, queue := b.dial()
	client.End()
	<-queue.Gone()
	queue.Close()
	require.NoError(t, client.AwaitEnd())

	client, queue = b.dial()
	client.Close()
	<-queue.Gone()
	queue.Ready() // to nobody
}

// A queue that cannot be served says why.
func TestARefusedQueue(t *testing.T) {
	b := newBench(t)
	client, queue := b.dial()
	queue.Fail(errors.New("two\nlines"))
	queue.Close()
	require.EqualError(t, client.AwaitReady(), "two; lines")
	var refused *attach.QueueError
	client, queue = b.dial()
	queue.Ready()
	require.NoError(t, client.AwaitReady())
	queue.Fail(errors.New("later"))
	require.ErrorAs(t, client.AwaitEnd(), &refused)

	// A connection without a socket is closed, and the next one is accepted.
	c, err := net.Dial("unix", b.path)
	require.NoError(t, err)
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	_, queue = b.dial()
	queue.Close()
	_, err = attach.Dial(filepath.Join(t.TempDir(), "absent"), b.queue)
	require.Error(t, err)
	require.NoError(t, b.server.Close())
	_, err = b.server.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

// A borrowed listener ends its Accept, and the next borrower serves the clients that wait.
func TestBorrow(t *testing.T) {
	b := newBench(t)
	first := socket.Borrow(b.queue)
	accepted := make(chan error, 1)
	go func() {
		_, err := first.Accept()
		accepted <- err
	}()
	require.NoError(t, first.Close())
	require.NoError(t, first.Close())
	require.ErrorIs(t, <-accepted, net.ErrClosed)
	c, err := net.Dial("unix", b.clientPath)
	require.NoError(t, err)
	defer c.Close()
	served, err := socket.Borrow(b.queue).Accept()
	require.NoError(t, err)
	require.NoError(t, served.Close())
}
