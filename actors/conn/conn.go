// Package conn is what the gateways share: the port through which a client's connection reaches the actors, and the
// parts that each gateway has. edge/socket and edge/rapi implement the port, and so does the simulator.
//
//   - [Gateway] accepts connections, spawns an actor for each, and refuses connections while the daemon drains.
//   - [Session] serves one connection: it decodes a request, answers it, and closes the connection.
//   - [Conversation] asks other actors about the current request, and asks again after a restart.
//
// Frames are those of package wire, for both protocols: LUXI and WConfD (queue.md 1.1, locks.md 2.1). Nothing survives
// a crash of the actor that owns these parts: the connection is closed.
package conn

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/access"
)

// Conn is one client's connection, as the actor that serves it sees it. Methods do not block.
type Conn interface {
	// Serve names the actor that gets the connection's messages. Frames arrive as *Received, one at a time: the next
	// one is read after the answer to the last one. The end of the connection arrives as *Closed.
	Serve(to *actor.PID)
	// Reserve asks for memory for the answer to the current request, which has this size in bytes so far, or will have at least. false: the
	// client's other answers have what there is for it, or the client has gone. The actor then answers with an error.
	Reserve(size int) bool
	// Answer sends a frame, in parts, and lets the next request be read. It does not copy them. Several parts are a
	// wire.Result, or of the same form.
	Answer(parts ...[]byte)
	// Close ends the connection when all answers have been sent.
	Close()
}

// Peer is the process at the other end of a connection when it connected. The zero Peer is unknown, as the client of another
// node is.
type Peer struct {
	PID     int // 0: unknown, or in another pid namespace
	UID     int
	Program string // name of the process, "" if it has ended
}

// Messages from the owner of a connection to actors.
type (
	// Opened offers a new connection to a gateway. Its owner may send the same message several times, to several gateways: the first Accept
	// takes it.
	Opened struct {
		Conn  Conn
		Peer  Peer
		taken atomic.Bool
	}
	// Received is the frame of one request, without its terminator.
	// By names the user and process that sent it; "" means unknown. Forwarded means that another node passes the
	// frame on for a client of that node, and that the request itself names the client. Marker is the name of the lock file of the job of
	// which the client seems to be a process, "" if it seems to be of none, or if the request does not depend on it.
	Received struct {
		Frame     []byte
		By        string
		From      access.Identity // whom the permissions of the request are those of
		Marker    string
		Forwarded bool
	}
	// Refused reports a frame that cannot be read, for example because of its size. The connection closes after the
	// answer.
	Refused struct{ Err error }
	// Closed reports that the client has left.
	Closed struct{}
)
