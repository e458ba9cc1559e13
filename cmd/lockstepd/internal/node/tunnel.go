package node

import (
	"context"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi"
	"lockstep/actors/standby"
	"lockstep/core/wire"
	"lockstep/edge/peer"
)

// tunnels connect clients of this node to the master.
type tunnels struct {
	credentials *peer.Credentials
	root        *actor.RootContext
}

// Open is part of standby.Tunnels. It connects to the master at an address; to gets each answer of the master, and TunnelClosed at the
// end.
func (t *tunnels) Open(address string, to *actor.PID) standby.Tunnel {
	ctx, cancel := context.WithCancel(context.Background())
	tunnel := &tunnel{requests: make(chan []byte, 1), cancel: cancel}
	go func() {
		tunnel.carry(ctx, t.credentials, address, func(frame []byte) { t.root.Send(to, &standby.TunnelAnswer{Frame: frame}) })
		tunnel.Close()
		t.root.Send(to, &standby.TunnelClosed{})
	}()
	return tunnel
}

// tunnel carries one request at a time, and its answer.
type tunnel struct {
	requests chan []byte
	cancel   func()
	once     sync.Once
}

// Send is part of standby.Tunnel. It sends one request to the master, and does not wait for the answer.
func (t *tunnel) Send(frame []byte) { t.requests <- frame }

// Close is part of standby.Tunnel. It ends the connection to the master; a second call does nothing.
func (t *tunnel) Close() { t.once.Do(t.cancel) }

// carry forwards requests to the node at address, and its answers, until either end closes. A failure closes it.
func (t *tunnel) carry(ctx context.Context, credentials *peer.Credentials, address string, answer func(frame []byte)) {
	conn, err := credentials.Dial(ctx, address, peer.ProtocolLuxi)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	reader := wire.NewReader(conn, answerFrameMax)
	for {
		select {
		case <-ctx.Done():
			return
		case frame := <-t.requests:
			if conn.SetDeadline(time.Now().Add(luxi.Idle)) != nil || ctx.Err() != nil || wire.WriteFrame(conn, frame) != nil {
				return
			}
			if conn.SetReadDeadline(time.Time{}) != nil || ctx.Err() != nil {
				return // the master bounds the time of an answer
			}
			frame, err := reader.ReadFrame()
			if err != nil {
				return
			}
			answer(frame)
		}
	}
}

// answerFrameMax bounds an answer of the master, in bytes: a list of a million jobs.
const answerFrameMax = 1 << 30
