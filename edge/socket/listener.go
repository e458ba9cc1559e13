// Package socket serves clients that connect to a unix socket, or to a listener of another
// node. It is the real side of the port conn.Conn.
//
// A Listener owns its connections and a goroutine for each. It reads one request at a time,
// sends it to the gateway's actor, waits for the answer and writes it. It bounds the number of
// connections and the memory of large requests. Nothing survives a crash: clients connect
// again.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/core/budget"
	"lockstep/core/ownership"
	"lockstep/core/wire"
	"lockstep/edge/admission"
)

const (
	// serveTimeout is how long a connection may wait for an actor that serves it.
	serveTimeout = 10 * time.Second
	// offerInterval is the first pause before an unserved connection is offered again.
	offerInterval = 250 * time.Millisecond
	// sendTimeout is how long a client may take to read one answer, with a second more for each MB.
	sendTimeout = 60 * time.Second
	megabyte    = 1 << 20
	// bulkMin is from how many bytes on requests that take no other turns work one at a time of each client.
	bulkMin = 1 << 20
	// freeAllowance is the memory, in bytes, that each connection may use outside the budget. Most requests fit, and are never
	// refused because of other clients.
	freeAllowance = 16 << 10
)

// errTooLargeNow ends a request whose memory is needed for other requests.
var errTooLargeNow = errors.New("too many large requests at a time; try again")

// errWaited is the answer to a request that has waited too long for its turn.
const errWaited = "The daemon is too busy with other requests of this user; try again"

// errBusy is the answer instead of one that is too large while the client has not read others.
const errBusy = "The daemon is too busy to send this answer: the former ones of this user have not been read; try again"

// Options say how a listener treats its clients: how large and how many their requests are, which of them take turns, and who may
// connect.
type Options struct {
	MaxFrame int              // bounds a request, in bytes
	MaxConns int              // bounds the connections of a class that are open at a time (core/budget); 0: any number
	Idle     time.Duration    // how long a client may send nothing, or take to send one request
	Forwards bool             // clients are other nodes, which pass requests on
	Table    *admission.Table // the budget that all listeners of the daemon share; nil: one for this listener
	// Turn returns the class of requests that take turns with those of other clients, or that only wait; ok is false for a request
	// that does neither. nil: none does.
	Turn func(frame []byte) (class admission.Class, ok bool)
	// OfJobs reports whether a request carries conn.Received.Marker. nil: none does.
	OfJobs func(frame []byte) bool
	// Names are those of accounts that the files of the node do not have; nil: there are none.
	Names Names
	// Livelocks is the directory of the lock files of jobs.
	Livelocks string
}

// Listener accepts the connections of one unix socket and offers each to a gateway's actor.
type Listener struct {
	listener net.Listener
	names    accountNames
	options  Options
	slots    *admission.Slots // of connections
	serving  sync.WaitGroup
}

// ListenUnix listens at a path. The caller owns the directory, so an existing socket there is
// stale. The socket has its user, group and mode, whatever the umask; before that only the user of
// this process can connect.
func ListenUnix(path string, owner ownership.Attributes) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the stale socket: %w", err)
	}
	config := net.ListenConfig{Control: restrict}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := setOwner(path, owner); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func setOwner(path string, owner ownership.Attributes) (err error) {
	if owner.UID >= 0 || owner.GID >= 0 {
		err = os.Chown(path, owner.UID, owner.GID)
	}
	if err == nil {
		err = os.Chmod(path, fs.FileMode(owner.Mode))
	}
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// restrict is called before bind: the file of a unix socket gets the mode of its descriptor, less the umask.
func restrict(_, _ string, raw syscall.RawConn) (err error) {
	controlErr := raw.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) })
	return errors.Join(controlErr, err)
}

// NewListener returns what serves the connections of a listener. Nothing is served before Serve.
func NewListener(l net.Listener, options Options) *Listener {
	if options.Table == nil {
		options.Table = admission.NewTable()
	}
	return &Listener{listener: l, names: accountNames{others: options.Names}, options: options, slots: admission.NewSlots(options.MaxConns)}
}

// Close stops accepting connections, and removes the socket.
func (l *Listener) Close() error { return l.listener.Close() }

// Wait waits until all served connections have sent their answers, for d at most.
func (l *Listener) Wait(d time.Duration) {
	done := make(chan struct{})
	go func() {
		l.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(d):
	}
}

// Serve accepts connections until Close. It offers each to the actor that is the gateway at that time. A connection for which there is no
// slot is closed at once, and one that no actor serves after serveTimeout.
func (l *Listener) Serve(sys *actor.ActorSystem, gateway func() *actor.PID) error {
	for {
		nc, err := l.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				l.slots.EvictOne()
			}
			time.Sleep(50 * time.Millisecond)
			continue
		}
		c := &streamConn{
			conn:    nc,
			root:    sys.Root,
			options: l.options,
			peer:    peerOf(nc),
			names:   &l.names,
			answers: make(chan [][]byte, 1),
			serving: &l.serving,
		}
		client := c.peer.client(nc)
		c.waiting, c.endWait = context.WithCancel(admission.WithClient(context.Background(), client))
		c.share = l.options.Table.Share(client, c.interrupt)
		if c.slot = l.slots.Admit(client, c.evict); c.slot == nil {
			_ = nc.Close() // at once, so that the client can connect again
			continue
		}
		time.AfterFunc(serveTimeout, c.closeUnserved)
		offer(sys, gateway, &conn.Opened{Conn: c, Peer: c.peer.forActors()}, c.closeClaimed.Load, offerInterval)
	}
}

// offer sends a connection to the gateway. The message is lost when the gateway has not started yet, crashes on it, or
// stops before it reads it because another gateway takes its place. So a connection that is neither served nor closed is
// offered again, to the gateway of that time, until closeUnserved. The pauses double.
func offer(sys *actor.ActorSystem, gateway func() *actor.PID, m *conn.Opened, settled func() bool, interval time.Duration) {
	sys.Root.Send(gateway(), m)
	time.AfterFunc(interval, func() {
		if !settled() {
			offer(sys, gateway, m, settled, 2*interval)
		}
	})
}

// streamConn is a connection with one goroutine, which reads a request, waits for its answer
// and sends it, in a loop.
type streamConn struct {
	conn         net.Conn
	root         *actor.RootContext
	options      Options
	peer         peer
	names        *accountNames
	share        *admission.Share
	received     int // bytes of share that the current request has
	slot         *admission.Slot
	answers      chan [][]byte   // at most one, in parts: that of the current request
	evicted      atomic.Bool     // to make room for another
	waiting      context.Context //nolint:containedctx // of requests that wait, for a turn or an event; ends with the connection
	endWait      context.CancelFunc
	closeClaimed atomic.Bool // decides which of serve and closeUnserved closes conn
	closing      atomic.Bool
	serving      *sync.WaitGroup
}

// Serve starts to read requests, for the actor to. If the connection is closed already, the actor is told so.
func (c *streamConn) Serve(to *actor.PID) {
	if c.closeClaimed.CompareAndSwap(false, true) {
		c.serving.Go(func() { c.serve(to) })
		return
	}
	c.root.Send(to, &conn.Closed{})
}

// closeUnserved closes a connection that no actor serves. One that is served stays.
func (c *streamConn) closeUnserved() {
	if c.closeClaimed.CompareAndSwap(false, true) {
		_ = c.conn.Close()
		c.end()
	}
}

// end gives back the slot and the memory that the connection has of the budget.
func (c *streamConn) end() {
	c.endWait()
	c.share.End()
	c.slot.Close()
}

// Reserve is part of conn.Conn. It takes memory for an answer of this size beyond the free allowance; false: there is none.
func (c *streamConn) Reserve(size int) bool {
	return size <= freeAllowance || c.share.Grow(c.received+size-freeAllowance) == nil
}

// Answer sends the answer to the current request. After Close it does nothing.
func (c *streamConn) Answer(parts ...[]byte) {
	if !c.closing.Load() {
		c.answers <- parts // never blocks: one answer a request
	}
}

// Close ends the connection after the answers are sent. A second call does nothing.
func (c *streamConn) Close() {
	if c.closing.CompareAndSwap(false, true) {
		close(c.answers)
		c.interrupt()
		c.closeUnserved()
	}
}

// evict ends a connection that is idle or whose request waits. A request that arrives at the same time is answered first.
func (c *streamConn) evict() {
	c.evicted.Store(true)
	c.endWait()
	c.interrupt()
	c.closeUnserved()
}

// interrupt wakes a read; see serve.
func (c *streamConn) interrupt() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) }

func (c *streamConn) serve(to *actor.PID) {
	defer c.end()
	defer c.conn.Close()
	by, from := c.peer.describe(c.names), c.peer.identity(c.names)
	marker := sync.OnceValue(func() string { return c.peer.marker(c.options.Livelocks) })
	reader := wire.NewReader(&firstByte{Reader: c.conn, heard: func() { c.slot.Move(budget.Idle) }}, c.options.MaxFrame)
	reader.SetGrowCheck(func(size int) error { return c.share.Grow(max(0, size-freeAllowance)) })
	for {
		if c.conn.SetReadDeadline(time.Now().Add(c.options.Idle)) != nil || c.closing.Load() || c.evicted.Load() {
			// Close and evict set their deadline after the flag: it is either seen
			// here or comes after ours. Memory is taken away after ours, too.
			c.root.Send(to, &conn.Closed{})
			return
		}
		frame, err := c.read(reader)
		endTurn := func() {}
		var evicted <-chan struct{} // ends the request; nil: it is at work
		var tooLarge *wire.FrameTooLarge
		switch {
		case err == nil:
			if endTurn, evicted, err = c.begin(frame); err != nil {
				if c.send([][]byte{wire.EncodeError("GenericError", errWaited)}) != nil {
					c.root.Send(to, &conn.Closed{})
					return
				}
				c.slot.Move(budget.Idle)
				continue
			}
			m := &conn.Received{Frame: frame, By: by, From: from, Forwarded: c.options.Forwards}
			if c.options.OfJobs != nil && c.options.OfJobs(frame) {
				m.Marker = marker()
			}
			c.root.Send(to, m)
		case errors.As(err, &tooLarge), errors.Is(err, errTooLargeNow):
			c.root.Send(to, &conn.Refused{Err: err})
		default:
			c.root.Send(to, &conn.Closed{})
			return
		}
		answer, open := [][]byte(nil), true
		select {
		case answer, open = <-c.answers:
		case <-evicted:
		}
		endTurn()
		if !open {
			return
		}
		if answer == nil || c.send(answer) != nil {
			c.root.Send(to, &conn.Closed{})
			return
		}
		c.slot.Move(budget.Idle)
	}
}

// begin waits until the request may work. evicted is not nil for a request that only waits for something to happen: its connection may
// give way.
func (c *streamConn) begin(frame []byte) (end func(), evicted <-chan struct{}, err error) {
	class, takesTurn := admission.Class(0), false
	if c.options.Turn != nil {
		class, takesTurn = c.options.Turn(frame)
	}
	end = func() {}
	switch {
	case takesTurn && class == admission.Wait:
		return end, c.waiting.Done(), nil
	case takesTurn:
		_, end, err = c.options.Table.Turn(c.waiting, class)
	case len(frame) >= bulkMin:
		_, end, err = c.options.Table.Turn(c.waiting, admission.Bulk)
	}
	if err == nil {
		c.slot.Move(budget.Working)
	}
	return end, nil, err
}

// read reads a request. Its memory is taken as it grows, and kept until the answer is sent. The error is errTooLargeNow if the budget
// does not suffice.
func (c *streamConn) read(reader *wire.Reader) ([]byte, error) {
	c.share.Release()
	c.share.Receive()
	// A part of the request that was read together with the previous one stays in a buffer, which is never larger than before.
	err := c.share.Grow(max(0, reader.Size()-freeAllowance))
	var frame []byte
	if err == nil {
		frame, err = reader.ReadFrame()
	}
	if kept := c.share.Keep(); kept != nil || errors.Is(err, admission.ErrBusy) {
		err = errTooLargeNow
	}
	c.received = c.share.Used()
	return frame, err
}

// send sends an answer. An answer that its client has no memory for becomes an error.
func (c *streamConn) send(answer [][]byte) error {
	c.slot.Move(budget.Sending)
	size := 0
	for _, part := range answer {
		size += len(part)
	}
	if !c.Reserve(size) {
		answer, size = [][]byte{wire.EncodeError("GenericError", errBusy)}, 0
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(sendTimeout + time.Duration(size)*time.Second/megabyte)); err != nil {
		return err
	}
	return writeFrame(c.conn, answer)
}

// firstByte reports the first byte that is read.
type firstByte struct {
	io.Reader
	heard func()
}

// Read is part of io.Reader. It calls heard once, when the first byte has come.
func (r *firstByte) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 && r.heard != nil {
		r.heard()
		r.heard = nil
	}
	return n, err
}

// writeFrame writes a frame that consists of parts. Several parts are JSON that lockstep has encoded, which has no control characters:
// a search in a long answer costs a quarter of its time.
func writeFrame(c net.Conn, parts [][]byte) error {
	if len(parts) == 1 {
		return wire.WriteFrame(c, parts[0])
	}
	frame := append(append(make(net.Buffers, 0, len(parts)+1), parts...), []byte{wire.Terminator}) // WriteTo changes it
	_, err := frame.WriteTo(c)
	return err
}
