package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/budget"
	"lockstep/edge/admission"
	"lockstep/edge/ratelog"
)

// Bounds of the number of connections.
const (
	connectionsMax = 1000
	// unverifiedMax bounds the connections without a verified certificate. A further one evicts the
	// oldest of the client that has most (core/budget), since a node has few and sends its certificate at once.
	unverifiedMax = 64
)

var errNotServed = errors.New("its protocol is not served now")

// acceptPause is the pause after accept has failed for lack of descriptors or memory.
const acceptPause = 100 * time.Millisecond

// ListenOptions are the options of Listen. A zero value means the default.
type ListenOptions struct {
	Log *logrus.Logger // nil: no log
	// Connections bounds the connections of verified nodes; 0: 1000.
	Connections int
	// Handshake is how long a handshake may take; 0: ten seconds.
	Handshake time.Duration
	// Table is the budget that all listeners of the daemon share; nil: one for this listener.
	Table *admission.Table
	// clientOf is who has made a connection; nil: admission.Peer.
	clientOf func(net.Conn) budget.Client
}

// Listener is the port at which other nodes reach this one. It verifies each connection and
// delivers it to the listener of its protocol. Its methods may be called from any goroutine.
type Listener struct {
	tcp         net.Listener
	config      *tls.Config
	credentials *Credentials
	options     ListenOptions
	done        chan struct{} // closed by Close
	serving     sync.WaitGroup

	acceptFailures, refusals *ratelog.Log

	mu          sync.Mutex
	closed      bool
	memberCheck func(name string) bool // nil: the members are not known yet
	barredCheck func(name string) bool
	listeners   map[Protocol]*protocolListener
	slots       *admission.Slots              // of unverified
	unverified  map[*peerConn]*admission.Slot // connections of ProtocolJoin stay until they end
	nodes       map[*peerConn]struct{}
}

// peerConn is a connection that the listener has accepted. protocol is set when the handshake
// is done.
type peerConn struct {
	*tls.Conn
	listener *Listener
	client   budget.Client // before a verified certificate
	protocol Protocol
}

// budgetClient is whom the requests of the connection count for.
func (c *peerConn) budgetClient() budget.Client {
	if c.protocol == ProtocolJoin {
		return c.client
	}
	return budget.Client{Class: budget.Nodes, Name: "node=" + PeerName(c)} // the certificate has been verified
}

// Close is part of net.Conn. It also frees the place of the connection at the listener.
func (c *peerConn) Close() error {
	c.listener.unregister(c)
	return c.Conn.Close()
}

// abort ends a connection at once, from any goroutine. Its user must still close it.
func (c *peerConn) abort() { c.NetConn().Close() }

// refuse ends a connection that was not delivered to a listener.
func (c *peerConn) refuse() {
	c.abort()
	_ = c.Close() // unregisters it
}

// Listen opens the port at an address, "host:port" of an interface of this machine, or ":port".
// It closes connections of a protocol until Raft, Luxi, Output or Serve accepts that protocol.
func Listen(address string, credentials *Credentials, o ListenOptions) (*Listener, error) {
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for other nodes: %w", err)
	}
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetLevel(logrus.PanicLevel)
	}
	if o.Connections == 0 {
		o.Connections = connectionsMax
	}
	if o.Handshake == 0 {
		o.Handshake = handshakeTimeout
	}
	if o.Table == nil {
		o.Table = admission.NewTable()
	}
	if o.clientOf == nil {
		o.clientOf = admission.Peer
	}
	l := &Listener{
		tcp:         tcp,
		credentials: credentials,
		options:     o,
		done:        make(chan struct{}),
		listeners:   map[Protocol]*protocolListener{},
		slots:       admission.NewSlots(unverifiedMax),
		unverified:  map[*peerConn]*admission.Slot{},
		nodes:       map[*peerConn]struct{}{},
	}
	l.acceptFailures = ratelog.New(o.Log, logrus.WarnLevel, "port of nodes: accept failed; retrying", "count")
	l.refusals = ratelog.New(o.Log, logrus.DebugLevel, "port of nodes: connection refused", "count")
	l.config = credentials.serverConfig(l.admits)
	l.serving.Go(l.accept)
	return l, nil
}

// Addr is the address at which the node listens for other nodes.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// SetMembers sets the members of the cluster, as this node knows them. Before the first call
// every node with a certificate of the cluster counts as a member. A node that is no member may
// only ask to be admitted, and have connections of ProtocolRaft unless it is barred: the leader
// may be a node that this node has not heard of. SetMembers does not end open connections; Expel
// does.
func (l *Listener) SetMembers(member, barred func(name string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memberCheck, l.barredCheck = member, barred
}

// admits reports whether a node may have a connection of a protocol. It admits every node to
// ProtocolNode, where the server checks each request.
func (l *Listener) admits(protocol Protocol, name string) bool {
	switch protocol {
	case ProtocolNode:
		return true
	case ProtocolRaft:
		l.mu.Lock()
		barred := l.barredCheck
		l.mu.Unlock()
		return barred == nil || !barred(name)
	default:
		return l.isMember(name)
	}
}

func (l *Listener) isMember(name string) bool {
	l.mu.Lock()
	member := l.memberCheck
	l.mu.Unlock()
	return member == nil || member(name)
}

// isKnownMember is isMember, except that before SetMembers only this node is a member.
func (l *Listener) isKnownMember(name string) bool {
	l.mu.Lock()
	member := l.memberCheck
	l.mu.Unlock()
	return name == l.credentials.name || member != nil && member(name)
}

// Expel ends the connections that a node has made to this one.
func (l *Listener) Expel(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.nodes {
		if PeerName(c) == name {
			c.abort()
		}
	}
}

// Raft returns the listener of ProtocolRaft. Every call returns the same listener until that is
// closed, and then a new one. While no listener is open, such connections are refused.
func (l *Listener) Raft() net.Listener { return l.listenerFor(ProtocolRaft) }

// Luxi returns the listener of ProtocolLuxi, as Raft does.
func (l *Listener) Luxi() net.Listener { return l.listenerFor(ProtocolLuxi) }

// Output returns the listener of ProtocolOutput, as Raft does.
func (l *Listener) Output() net.Listener { return l.listenerFor(ProtocolOutput) }

func (l *Listener) listenerFor(protocol Protocol) *protocolListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.listeners[protocol]
	if g == nil || g.isClosed() && !l.closed {
		g = newProtocolListener(l.tcp.Addr())
		l.listeners[protocol] = g
	}
	if l.closed {
		_ = g.Close() // cannot fail
	}
	return g
}

// Close closes the port and all connections, and waits for the goroutines of the listener. A
// second call does nothing.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.done)
	err := l.tcp.Close()
	for c := range l.unverified {
		c.abort()
	}
	for c := range l.nodes {
		c.abort()
	}
	gates := l.listeners
	l.mu.Unlock()
	for _, g := range gates {
		_ = g.Close() // cannot fail
	}
	l.serving.Wait()
	return err
}

func (l *Listener) accept() {
	for {
		raw, err := l.tcp.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			l.acceptFailures.Record("count", logrus.Fields{"err": err})
			select {
			case <-time.After(acceptPause):
			case <-l.done:
				return
			}
			continue
		}
		c := &peerConn{Conn: tls.Server(raw, l.config), listener: l, client: l.options.clientOf(raw)}
		if !l.register(c) {
			raw.Close()
			continue
		}
		l.serving.Go(func() { l.handshake(c) })
	}
}

// register adds a new connection, as unverified. It reports false if the listener is closed, or the connection must be refused.
func (l *Listener) register(c *peerConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	slot := l.slots.Admit(c.client, c.abort) // its owner closes it, which unregisters it
	if slot == nil {
		return false
	}
	l.unverified[c] = slot
	return true
}

// unregister removes a connection that has ended. A second call does nothing.
func (l *Listener) unregister(c *peerConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.nodes, c)
	if slot := l.unverified[c]; slot != nil {
		slot.Close()
		delete(l.unverified, c)
	}
}

// handshake makes the TLS handshake, which verifies the other node, and delivers the connection
// to the listener of its protocol.
func (l *Listener) handshake(c *peerConn) {
	ctx, cancel := context.WithTimeout(context.Background(), l.options.Handshake)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		l.refusals.Record("count", logrus.Fields{"address": c.RemoteAddr().String(), "err": err})
		c.refuse()
		return
	}
	c.protocol = Protocol(c.ConnectionState().NegotiatedProtocol)
	if g := l.admit(c); g == nil || !g.deliver(c) {
		l.refusals.Record("count", logrus.Fields{
			"address":  c.RemoteAddr().String(),
			"err":      errNotServed,
			"node":     PeerName(c),
			"protocol": c.protocol,
		})
		c.refuse()
	}
}

// admit moves a connection from the unverified to the verified ones, and returns the listener of its protocol. A connection that joins
// stays with the unverified ones. It returns nil if there is no room or no such listener.
func (l *Listener) admit(c *peerConn) *protocolListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if c.protocol == ProtocolJoin {
		return l.listeners[ProtocolNode]
	}
	slot := l.unverified[c]
	if slot == nil || len(l.nodes) >= l.options.Connections {
		return nil
	}
	slot.Close()
	delete(l.unverified, c)
	l.nodes[c] = struct{}{}
	return l.listeners[c.protocol]
}
