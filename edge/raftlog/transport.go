package raftlog

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// transport is raft's over our streams; it tells the lease who has acknowledged what.
type transport struct {
	*raft.NetworkTransport
	address raft.ServerAddress
	lease   *lease
	backoff *peerBackoff
	term    func() uint64
	follows followsFunc

	requests chan raft.RPC // for raft's main goroutine
	once     sync.Once
	done     chan struct{}

	heartbeats sync.RWMutex // read-locked by those that are being handled
	ended      bool
}

// followsFunc says whether this node follows another one in that term already.
type followsFunc func(leader raft.ServerID, term uint64) bool

func newTransport(c *Config, streams *streamTracker, lease *lease, backoff *peerBackoff, term func() uint64, follows followsFunc, log hclog.Logger) *transport {
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

		requests: make(chan raft.RPC),
		done:     make(chan struct{}),
	}
	go t.forward()
	return t
}

// Consumer has the requests that raft's main goroutine handles.
func (t *transport) Consumer() <-chan raft.RPC { return t.requests }

// forward hands on what comes from other nodes until the end.
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
	select {
	case t.requests <- rpc:
	case <-t.done:
		rpc.Respond(nil, raft.ErrTransportShutdown)
	}
}

// Close ends it; no connection is taken any more.
func (t *transport) Close() error {
	t.once.Do(func() { close(t.done) })
	return t.NetworkTransport.Close()
}

// LocalAddr is where others reach this node, not what it listens on.
func (t *transport) LocalAddr() raft.ServerAddress { return t.address }

// AppendEntries counts for the lease from the moment before it is sent.
func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress,
	request *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) error {
	heartbeat := isHeartbeat(request)
	if !heartbeat {
		t.backoff.wait(id)
	}
	sent := bootTime()
	// Raft uses its answers again, and a field that is not sent keeps its old value.
	*answer = raft.AppendEntriesResponse{}
	err := t.NetworkTransport.AppendEntries(id, to, request, answer)
	if err == nil && answer.Success {
		t.lease.acknowledged(id, request.Term, sent)
	}
	if !heartbeat {
		t.backoff.report(id, err == nil)
	} else if err == nil {
		t.backoff.heartbeatAnswered(id)
	}
	return err
}

// isHeartbeat is how raft itself tells them from requests that bring entries or look
// for those that a node has.
func isHeartbeat(request *raft.AppendEntriesRequest) bool {
	return request.PrevLogEntry == 0 && request.PrevLogTerm == 0 && len(request.Entries) == 0 && request.LeaderCommitIndex == 0
}

// SetHeartbeatHandler has heartbeats handled, until the end. Raft handles them on the
// connections' goroutines, for which it does not wait when it is shut down, and beside
// its main goroutine: one that changes the term would do so behind the back of a
// leader that is just taking an entry in, which would get the term of another leader.
// So only those are handled there that change nothing.
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

// awaitHeartbeats waits for the last heartbeat, so that the log can be closed.
func (t *transport) awaitHeartbeats() {
	t.heartbeats.Lock()
	defer t.heartbeats.Unlock()
	t.ended = true
}

// AppendEntriesPipeline sends several requests without waiting for answers.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	p := &pipeline{AppendPipeline: inner, answers: make(chan raft.AppendFuture, pipelineMax), closed: make(chan struct{})}
	go p.forward()
	return p, nil
}

// pipelineMax is more answers than come after one that ends a pipeline.
const pipelineMax = 128

// pipeline takes answers from raft's before they are asked for. Raft looks at none
// after a node has rejected a request, but may send another one or two before it ends
// the pipeline; with nobody to take their answers these would block it for good.
type pipeline struct {
	raft.AppendPipeline
	answers chan raft.AppendFuture
	once    sync.Once
	closed  chan struct{}
}

func (p *pipeline) forward() {
	for {
		select {
		case answer := <-p.AppendPipeline.Consumer():
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

// Consumer has the answers, in the order of the requests.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close ends it.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.AppendPipeline.Close()
}

// TimeoutNow hands the leadership over: there is no lease from here on.
func (t *transport) TimeoutNow(id raft.ServerID, to raft.ServerAddress,
	request *raft.TimeoutNowRequest, answer *raft.TimeoutNowResponse) error {
	term := t.term()
	t.lease.beginTransfer()
	err := t.NetworkTransport.TimeoutNow(id, to, request, answer)
	if err == nil {
		t.lease.transferAccepted(term)
	}
	return err
}

// streamTracker are those of the configuration. Raft leaves connections open when it is
// shut down and waits for answers on them; here they are closed.
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

// Dial connects to another node, in less time than raft would give it: a node that
// is gone must not hold up those that wait for the end.
func (t *streamTracker) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := t.StreamLayer.Dial(to, min(timeout, t.dialTimeout))
	if err != nil {
		return nil, err
	}
	return t.track(conn)
}

// Accept takes the next connection.
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

// track fails, and closes the connection, when there shall be none.
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

// closeAll closes all connections, and there are no more. The listener is left to who
// accepts, and waits at it.
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

// Close ends the connection.
func (s *trackedStream) Close() error {
	s.tracker.mu.Lock()
	delete(s.tracker.open, s)
	s.tracker.mu.Unlock()
	return s.Conn.Close()
}
