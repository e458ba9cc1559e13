package socket

import (
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/core/ownership"
	"lockstep/core/wire"
)

// listen listens on the unix socket at path.
func listen(t *testing.T, path string, options Options) *Listener {
	t.Helper()
	l, err := ListenUnix(path, ownership.Rules{}.Of(ownership.AdminSocket))
	require.NoError(t, err)
	return NewListener(l, options)
}

// A connection that was offered to the former gateway, and not served, is served by the
// next gateway.
func TestAConnectionIsOfferedToTheNextGateway(t *testing.T) {
	sys := actor.NewActorSystem()
	t.Cleanup(sys.Shutdown)
	told := make(chan struct{}, 1)
	former := sys.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, is := ctx.Message().(*conn.Opened); is {
			told <- struct{}{}
		}
	}))
	next := sys.Root.Spawn(serving())
	var gateway atomic.Pointer[actor.PID]
	gateway.Store(former)
	path := filepath.Join(t.TempDir(), "s")
	listener := listen(t, path, Options{MaxFrame: 1 << 10, Idle: time.Minute})
	served := make(chan error, 1)
	go func() { served <- listener.Serve(sys, gateway.Load) }()

	client, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer client.Close()
	<-told
	gateway.Store(next)
	requireServed(t, client)
	require.NoError(t, listener.Close())
	require.NoError(t, <-served)
}

// A connection that came before the gateway had started is served when the gateway starts. So is a connection whose
// message was lost in a crash of the gateway.
func TestAConnectionIsOfferedToTheSameGatewayAgain(t *testing.T) {
	sys := actor.NewActorSystem()
	t.Cleanup(sys.Shutdown)
	const name = "gateway"
	lost := make(chan struct{})
	sys.EventStream.Subscribe(func(event any) {
		if letter, is := event.(*actor.DeadLetterEvent); is && letter.PID.Id == name {
			close(lost)
		}
	})
	path := filepath.Join(t.TempDir(), "s")
	listener := listen(t, path, Options{MaxFrame: 1 << 10, Idle: time.Minute})
	served := make(chan error, 1)
	go func() { served <- listener.Serve(sys, func() *actor.PID { return sys.NewLocalPID(name) }) }()

	client, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer client.Close()
	<-lost
	_, err = sys.Root.SpawnNamed(serving(), name)
	require.NoError(t, err)
	requireServed(t, client)
	require.NoError(t, listener.Close())
	require.NoError(t, <-served)
}

// serving makes a gateway that serves all connections.
func serving() *actor.Props {
	return actor.PropsFromFunc(func(ctx actor.Context) {
		if m, is := ctx.Message().(*conn.Opened); is {
			ctx.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
				switch ctx.Message().(type) {
				case *actor.Started:
					m.Conn.Serve(ctx.Self())
				case *conn.Received:
					m.Conn.Answer([]byte("served"))
				}
			}))
		}
	})
}

func requireServed(t *testing.T, client net.Conn) {
	t.Helper()
	require.NoError(t, wire.WriteFrame(client, []byte("hello")))
	require.NoError(t, client.SetReadDeadline(time.Now().Add(serveTimeout/2)))
	frame, err := wire.NewReader(client, 1<<10).ReadFrame()
	require.NoError(t, err)
	require.Equal(t, "served", string(frame))
}
