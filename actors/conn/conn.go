// Package conn is a client's connection as actors see it: what the gateways on unix
// sockets share. The listener behind it is edge/socket, and a model in the simulator.
//
// Frames are those of package wire, in both protocols: LUXI and WConfD
// (queue.md 1.1, locks.md 2.1).
package conn

import "github.com/asynkron/protoactor-go/actor"

// Conn is one client connection. Frames arrive at the actor given to Serve as
// *Received, one at a time: the next is read after the answer to the last. Its
// end arrives as *Closed. Methods do not block.
type Conn interface {
	Serve(to *actor.PID)
	// Answer sends a frame and lets the next request be read.
	Answer(frame []byte)
	// Close ends the connection when what was answered has been sent.
	Close()
}

// What connections tell actors.
type (
	// Opened is told to the gateway.
	Opened struct{ Conn Conn }
	// Received is one request's frame, without its terminator.
	// By is who sent it, "" if that is not known. With Forwarded, another node passes
	// it on for a client of its own, and says in the request who that is.
	Received struct {
		Frame     []byte
		By        string
		Forwarded bool
	}
	// Refused is a frame that cannot be read: the answer closes the connection.
	Refused struct{ Err error }
	// Closed: the client is gone.
	Closed struct{}
)
