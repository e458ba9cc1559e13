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
	absence *absence
	term    func() uint64
	follows follows

	requests chan raft.RPC // for raft's main goroutine
	once     sync.Once
	done     chan struct{}

	heartbeats sync.RWMutex // read-locked by those that are being handled
	ended      bool
}

// follows says whether this node follows another one in that term already.
type follows func(leader raft.ServerID, term uint64) bool

func newTransport(c *Config, streams *streams, lease *lease, absence *absence, term func() uint64, follows follows, log hclog.Logger) *transport {
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:  streams,
			MaxPool: 3,
			Timeout: c.rpcTimeout(),
			Logger:  log,
		}),
		address: raft.ServerAddress(c.Address),
		lease:   lease,
		absence: absence,
		term:    term,
		follows: follows,

		requests: make(chan raft.RPC),
		done:     make(chan struct{}),
	}
	go t.pass()
	return t
}

// Consumer has the requests that raft's main goroutine handles.
func (t *transport) Consumer() <-chan raft.RPC { return t.requests }

// pass hands on what comes from other nodes until the end.
func (t *transport) pass() {
	for {
		select {
		case rpc := <-t.NetworkTransport.Consumer():
			t.hand(rpc)
		case <-t.done:
			return
		}
	}
}

func (t *transport) hand(rpc raft.RPC) {
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
	beat := isHeartbeat(request)
	if !beat {
		t.absence.hold(id)
	}
	sent := bootTime()
	// Raft uses its answers again, and a field that is not sent keeps its old value.
	*answer = raft.AppendEntriesResponse{}
	err := t.NetworkTransport.AppendEntries(id, to, request, answer)
	if err == nil && answer.Success {
		t.lease.acknowledged(id, request.Term, sent)
	}
	if !beat {
		t.absence.sent(id, err == nil)
	} else if err == nil {
		t.absence.heard(id)
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
		if beat, is := rpc.Command.(*raft.AppendEntriesRequest); !is || !t.follows(raft.ServerID(beat.ID), beat.Term) {
			t.hand(rpc)
			return
		}
		t.heartbeats.RLock()
		defer t.heartbeats.RUnlock()
		if !t.ended {
			handle(rpc)
		}
	})
}

// end waits for the last heartbeat, so that the log can be closed.
func (t *transport) end() {
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
	go p.pass()
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

func (p *pipeline) pass() {
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
	t.lease.handing()
	err := t.NetworkTransport.TimeoutNow(id, to, request, answer)
	if err == nil {
		t.lease.handedOver(term)
	}
	return err
}

// streams are those of the configuration. Raft leaves connections open when it is
// shut down and waits for answers on them; here they are closed.
type streams struct {
	raft.StreamLayer
	dialTimeout time.Duration

	mu     sync.Mutex
	open   map[*stream]struct{}
	closed bool
}

type stream struct {
	net.Conn
	of *streams
}

func newStreams(c *Config) *streams {
	return &streams{StreamLayer: c.Streams, dialTimeout: 2 * c.Timing.Heartbeat, open: map[*stream]struct{}{}}
}

// Dial connects to another node, in less time than raft would give it: a node that
// is gone must not hold up those that wait for the end.
func (s *streams) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := s.StreamLayer.Dial(to, min(timeout, s.dialTimeout))
	if err != nil {
		return nil, err
	}
	return s.enter(conn)
}

// Accept takes the next connection.
func (s *streams) Accept() (net.Conn, error) {
	for {
		conn, err := s.StreamLayer.Accept()
		if err != nil {
			return nil, err
		}
		if entered, err := s.enter(conn); err == nil {
			return entered, nil
		}
	}
}

// enter fails, and closes the connection, when there shall be none.
func (s *streams) enter(conn net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	entered := &stream{Conn: conn, of: s}
	s.open[entered] = struct{}{}
	return entered, nil
}

// end closes all connections, and there are no more. The listener is left to who
// accepts, and waits at it.
func (s *streams) end() {
	s.mu.Lock()
	s.closed = true
	open := s.open
	s.open = map[*stream]struct{}{}
	s.mu.Unlock()
	for conn := range open {
		conn.Conn.Close()
	}
}

// Close ends the connection.
func (s *stream) Close() error {
	s.of.mu.Lock()
	delete(s.of.open, s)
	s.of.mu.Unlock()
	return s.Conn.Close()
}
