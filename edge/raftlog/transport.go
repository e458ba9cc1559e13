package raftlog

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// transport is raft's network transport over Config.Streams. It reports to the lease which
// node has acknowledged a request, and when the request was sent.
type transport struct {
	*raft.NetworkTransport
	address raft.ServerAddress
	lease   *lease
	backoff *peerBackoff
	term    func() uint64
	follows followsFunc
	order   atomic.Pointer[transferOrder] // the last one accepted; nil: none

	// onAccepted is called when another node has accepted a request of this leader. It is set before raft runs.
	onAccepted func(by raft.ServerID, request *raft.AppendEntriesRequest)

	// onRequest is called with the term of a leader before raft gets that leader's first request of the term.
	onRequest func(term uint64)

	electionTimeout time.Duration // how long the vote of a leader is awaited

	requests chan raft.RPC // for raft's main goroutine
	once     sync.Once
	done     chan struct{}

	heartbeats sync.RWMutex // read-locked while one is handled
	ended      bool
}

// followsFunc reports whether this node already follows that leader in that term.
type followsFunc func(leader raft.ServerID, term uint64) bool

func newTransport(
	c *Config,
	streams *streamTracker,
	lease *lease,
	backoff *peerBackoff,
	term func() uint64,
	follows followsFunc,
	onRequest func(term uint64),
	log hclog.Logger,
) *transport {
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:  streams,
			MaxPool: 3,
			Timeout: c.rpcTimeout(),
			Logger:  log,
		}),
		address: raft.ServerAddress(c.Address),
		lease:   lease,
		backoff: backoff,
		term:    term,
		follows: follows,

		onAccepted:      func(raft.ServerID, *raft.AppendEntriesRequest) {},
		onRequest:       onRequest,
		electionTimeout: c.Timing.Election,

		requests: make(chan raft.RPC),
		done:     make(chan struct{}),
	}
	go t.forward()
	return t
}

// Consumer returns the channel of requests that raft's main goroutine handles.
func (t *transport) Consumer() <-chan raft.RPC { return t.requests }

// forward delivers requests from other nodes until Close.
func (t *transport) forward() {
	for {
		select {
		case rpc := <-t.NetworkTransport.Consumer():
			t.deliver(rpc)
		case <-t.done:
			return
		}
	}
}

func (t *transport) deliver(rpc raft.RPC) {
	switch request := rpc.Command.(type) {
	case *raft.TimeoutNowRequest:
		if err := t.acceptOrder(request); err != nil {
			rpc.Respond(nil, err)
			return
		}
	case *raft.RequestVoteRequest:
		rpc = t.endLeaseWithVote(rpc)
	case *raft.AppendEntriesRequest:
		t.onRequest(request.Term)
	case *raft.InstallSnapshotRequest:
		t.onRequest(request.Term)
	}
	select {
	case t.requests <- rpc:
	case <-t.done:
		rpc.Respond(nil, raft.ErrTransportShutdown)
	}
}

// Close ends the transport, which accepts no connection afterwards.
func (t *transport) Close() error {
	t.once.Do(func() { close(t.done) })
	return t.NetworkTransport.Close()
}

// LocalAddr returns the address by which other nodes reach this node.
func (t *transport) LocalAddr() raft.ServerAddress { return t.address }

// AppendEntries sends a request. An acknowledgement extends the lease from the time just
// before the request was sent.
func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress,
	request *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) error {
	heartbeat := isHeartbeat(request)
	if !heartbeat {
		t.backoff.wait(id)
	}
	sent := bootTime()
	// Raft reuses its response structs, and a field that is not sent keeps its old value.
	*answer = raft.AppendEntriesResponse{}
	err := t.NetworkTransport.AppendEntries(id, to, request, answer)
	if err == nil && answer.Success {
		t.lease.acknowledged(id, request.Term, sent)
		t.onAccepted(id, request)
	}
	if !heartbeat {
		t.backoff.report(id, err == nil)
	} else if err == nil {
		t.backoff.heartbeatAnswered(id)
	}
	return err
}

// isHeartbeat recognises heartbeats as raft does: other requests carry entries or probe the
// follower's log.
func isHeartbeat(request *raft.AppendEntriesRequest) bool {
	return request.PrevLogEntry == 0 && request.PrevLogTerm == 0 && len(request.Entries) == 0 && request.LeaderCommitIndex == 0
}

// SetHeartbeatHandler sets the handler of heartbeats. Raft runs it on the goroutines of
// connections, concurrently with its main goroutine, and does not wait for these when it
// shuts down. A heartbeat that changes the term there could give an entry that the leader is
// just writing the term of another leader. So the handler gets only heartbeats that change
// nothing; the main goroutine gets the others.
func (t *transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) {
		if heartbeat, is := rpc.Command.(*raft.AppendEntriesRequest); !is || !t.follows(raft.ServerID(heartbeat.ID), heartbeat.Term) {
			t.deliver(rpc)
			return
		}
		t.heartbeats.RLock()
		defer t.heartbeats.RUnlock()
		if !t.ended {
			handle(rpc)
		}
	})
}

// awaitHeartbeats waits until no heartbeat is being handled, and drops later ones, so that
// the log can be closed.
func (t *transport) awaitHeartbeats() {
	t.heartbeats.Lock()
	defer t.heartbeats.Unlock()
	t.ended = true
}

// AppendEntriesPipeline sends several requests without waiting for answers. Accepted entries are reported in the order of the answers.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	onAnswer := func(answer raft.AppendFuture) {
		if answer.Error() == nil && answer.Response().Success {
			t.onAccepted(id, answer.Request())
		}
	}
	p := &pipeline{AppendPipeline: inner, onAnswer: onAnswer, answers: make(chan raft.AppendFuture, pipelineMax), closed: make(chan struct{})}
	go p.forward()
	return p, nil
}

// pipelineMax is more than the number of answers that follow the one that ends a pipeline.
const pipelineMax = 128

// pipeline reads the answers of raft's pipeline before raft asks for them. After a rejected
// request raft reads no more answers, but may send one or two requests before it ends the
// pipeline. Their unread answers would block raft for ever.
type pipeline struct {
	raft.AppendPipeline
	onAnswer func(raft.AppendFuture) // called with each answer
	answers  chan raft.AppendFuture
	once     sync.Once
	closed   chan struct{}
}

func (p *pipeline) forward() {
	for {
		select {
		case answer := <-p.AppendPipeline.Consumer():
			p.onAnswer(answer)
			select {
			case p.answers <- answer:
			case <-p.closed:
				return
			}
		case <-p.closed:
			return
		}
	}
}

// Consumer returns the channel of answers, in the order of the requests.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close ends the pipeline. A second call closes only what is below it.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.AppendPipeline.Close()
}

// streamTracker wraps Config.Streams and tracks the open connections. Raft leaves
// connections open at its shutdown and waits for answers on them; closeAll closes them.
type streamTracker struct {
	raft.StreamLayer
	dialTimeout time.Duration

	mu     sync.Mutex
	open   map[*trackedStream]struct{}
	closed bool
}

type trackedStream struct {
	net.Conn
	tracker *streamTracker
}

func newStreamTracker(c *Config) *streamTracker {
	return &streamTracker{StreamLayer: c.Streams, dialTimeout: 2 * c.Timing.Heartbeat, open: map[*trackedStream]struct{}{}}
}

// Dial connects to another node. Its timeout is shorter than raft's, because a node that does
// not answer must not delay Close.
func (t *streamTracker) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := t.StreamLayer.Dial(to, min(timeout, t.dialTimeout))
	if err != nil {
		return nil, err
	}
	return t.track(conn)
}

// Accept returns the next connection, which is tracked.
func (t *streamTracker) Accept() (net.Conn, error) {
	for {
		conn, err := t.StreamLayer.Accept()
		if err != nil {
			return nil, err
		}
		if tracked, err := t.track(conn); err == nil {
			return tracked, nil
		}
	}
}

// track adds a connection. After closeAll it closes the connection and fails with net.ErrClosed.
func (t *streamTracker) track(conn net.Conn) (net.Conn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	tracked := &trackedStream{Conn: conn, tracker: t}
	t.open[tracked] = struct{}{}
	return tracked, nil
}

// closeAll closes all connections, and those that are opened later. It leaves the listener
// open, which raft's transport closes.
func (t *streamTracker) closeAll() {
	t.mu.Lock()
	t.closed = true
	open := t.open
	t.open = map[*trackedStream]struct{}{}
	t.mu.Unlock()
	for conn := range open {
		conn.Conn.Close()
	}
}

// Close ends the connection, which is no longer tracked.
func (s *trackedStream) Close() error {
	s.tracker.mu.Lock()
	delete(s.tracker.open, s)
	s.tracker.mu.Unlock()
	return s.Conn.Close()
}
