package raftlog

import (
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// tcpLayer is raft's layer over plain connections.
type tcpLayer struct{ net.Listener }

func (tcpLayer) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", string(to), timeout)
}

func listenTCP(t *testing.T) tcpLayer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return tcpLayer{l}
}

// serve handles requests on a goroutine until the test ends. Transports do not close their
// channels.
func serve(t *testing.T, requests <-chan raft.RPC, handle func(raft.RPC)) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case rpc := <-requests:
				handle(rpc)
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
}

// The main goroutine of raft gets a heartbeat that changes the leader or the term. A heartbeat
// of the current leader does not wait for the main goroutine.
func TestHeartbeatsThatChangeSomethingWait(t *testing.T) {
	here := listenTCP(t)
	c := &Config{Dir: "raft", Name: "a", Address: here.Addr().String(), Streams: here}
	require.NoError(t, c.normalize())
	led, term := raft.ServerID("b"), uint64(2)
	lease, _ := newTestLease("a", "b")
	tr := newTransport(c, newStreamTracker(c), lease, newPeerBackoff(nil), func() uint64 { return term },
		func(leader raft.ServerID, in uint64) bool { return leader == led && in == term }, func(uint64) {}, hclog.NewNullLogger())
	defer tr.Close()
	at := make(chan string, 1)
	answer := func(where string, rpc raft.RPC) {
		at <- where
		rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
	}
	tr.SetHeartbeatHandler(func(rpc raft.RPC) { answer("at once", rpc) })
	serve(t, tr.Consumer(), func(rpc raft.RPC) { answer("main", rpc) })
	peer := raft.NewNetworkTransport(listenTCP(t), 1, time.Minute, nil)
	defer peer.Close()
	for _, heartbeat := range []struct {
		from  string
		term  uint64
		where string
	}{{"b", 2, "at once"}, {"b", 3, "main"}, {"c", 2, "main"}, {"b", 2, "at once"}} {
		request := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(heartbeat.from), Addr: []byte("x:1")}, Term: heartbeat.term}
		var got raft.AppendEntriesResponse
		require.NoError(t, peer.AppendEntries("a", raft.ServerAddress(here.Addr().String()), request, &got))
		require.True(t, got.Success)
		require.Equal(t, heartbeat.where, <-at, "%+v", heartbeat)
	}
}

// After failures no entries are sent to a node before it has answered a heartbeat.
func TestEntriesForWhoIsBackComeBehindAHeartbeat(t *testing.T) {
	here, there := listenTCP(t), listenTCP(t)
	c := &Config{Dir: "raft", Name: "a", Address: here.Addr().String(), Streams: here}
	require.NoError(t, c.normalize())
	lease, _ := newTestLease("a", "b")
	tr := newTransport(c, newStreamTracker(c), lease, newPeerBackoff(nil), func() uint64 { return 1 },
		func(raft.ServerID, uint64) bool { return false }, func(uint64) {}, hclog.NewNullLogger())
	defer tr.Close()
	peer := raft.NewNetworkTransport(there, 3, time.Minute, nil)
	defer peer.Close()
	var came []uint64
	serve(t, peer.Consumer(), func(rpc raft.RPC) {
		came = append(came, rpc.Command.(*raft.AppendEntriesRequest).PrevLogEntry)
		rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
	})
	send := func(prev uint64) error {
		request := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("a"), Addr: []byte("a:1")}, Term: 1, PrevLogEntry: prev}
		return tr.AppendEntries("b", raft.ServerAddress(there.Addr().String()), request, &raft.AppendEntriesResponse{})
	}
	for range 50 { // without the delay either may be first
		for range undelayedFailures {
			tr.backoff.report("b", false)
		}
		came = nil
		sent := make(chan error, 1)
		go func() { sent <- send(7) }()
		for over := false; !over; {
			select {
			case err := <-sent:
				require.NoError(t, err)
				over = true
			default:
				require.NoError(t, send(0))
			}
		}
		require.Zero(t, came[0], "%v", came)
	}
}

// votePeers are a node under test, which follows "led" in term, and two other nodes. Each of them
// records the requests for votes that it gets.
type votePeers struct {
	*transport
	requests chan raft.RPC // to the raft of the node under test
	peers    map[raft.ServerID]raft.ServerAddress
	asked    chan raft.RPC // requests that a peer got; each waits for its answer
	led      raft.ServerID
	term     uint64
}

func newVotePeers(t *testing.T) *votePeers {
	here := listenTCP(t)
	c := &Config{Dir: "raft", Name: "a", Address: here.Addr().String(), Streams: here}
	require.NoError(t, c.normalize())
	lease, _ := newTestLease("a", "b", "c")
	p := &votePeers{led: "b", term: 2, requests: make(chan raft.RPC, 1), asked: make(chan raft.RPC, 4), peers: map[raft.ServerID]raft.ServerAddress{}}
	p.transport = newTransport(c, newStreamTracker(c), lease, newPeerBackoff(nil), func() uint64 { return p.term },
		func(leader raft.ServerID, in uint64) bool { return leader == p.led && in == p.term }, func(uint64) {}, hclog.NewNullLogger())
	t.Cleanup(func() { p.Close() })
	serve(t, p.Consumer(), func(rpc raft.RPC) { p.requests <- rpc })
	for _, id := range []raft.ServerID{"b", "c"} {
		layer := listenTCP(t)
		peer := raft.NewNetworkTransport(layer, 3, time.Minute, nil)
		t.Cleanup(func() { peer.Close() })
		p.peers[id] = raft.ServerAddress(layer.Addr().String())
		serve(t, peer.Consumer(), func(rpc raft.RPC) { p.asked <- rpc })
	}
	return p
}

func header(id raft.ServerID) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte("x:1")}
}

// sendOrder sends the node under test an order to start an election.
func (p *votePeers) sendOrder(t *testing.T, from raft.ServerID) error {
	peer := raft.NewNetworkTransport(listenTCP(t), 1, time.Minute, nil)
	t.Cleanup(func() { peer.Close() })
	go func() {
		rpc := <-p.requests
		rpc.Respond(&raft.TimeoutNowResponse{}, nil)
	}()
	return peer.TimeoutNow("a", p.LocalAddr(), &raft.TimeoutNowRequest{RPCHeader: header(from)}, &raft.TimeoutNowResponse{})
}

// campaign asks both peers for their votes in a term, as raft does after an order.
func (p *votePeers) campaign(term uint64) (granted map[raft.ServerID]chan bool) {
	granted = map[raft.ServerID]chan bool{}
	request := &raft.RequestVoteRequest{RPCHeader: header("a"), Term: term, LeadershipTransfer: true}
	for id, address := range p.peers {
		done := make(chan bool, 1)
		granted[id] = done
		go func() {
			var answer raft.RequestVoteResponse
			err := p.RequestVote(id, address, request, &answer)
			done <- err == nil && answer.Granted
		}()
	}
	return granted
}

func TestTheLeaderVotesFirstInATransfer(t *testing.T) {
	p := newVotePeers(t)
	require.NoError(t, p.sendOrder(t, "b"))
	granted := p.campaign(3)
	first := <-p.asked
	require.True(t, first.Command.(*raft.RequestVoteRequest).LeadershipTransfer)
	select {
	case <-granted["c"]:
		t.Fatal("the other node was asked before the leader has granted its vote")
	case <-p.asked:
		t.Fatal("the other node was asked before the leader has granted its vote")
	default:
	}
	first.Respond(&raft.RequestVoteResponse{Term: 3, Granted: true}, nil)
	require.True(t, <-granted["b"])
	second := <-p.asked
	require.True(t, second.Command.(*raft.RequestVoteRequest).LeadershipTransfer)
	second.Respond(&raft.RequestVoteResponse{Term: 3, Granted: true}, nil)
	require.True(t, <-granted["c"])
}

func TestARefusalOfTheLeaderEndsTheTransfer(t *testing.T) {
	p := newVotePeers(t)
	require.NoError(t, p.sendOrder(t, "b"))
	granted := p.campaign(3)
	first := <-p.asked
	first.Respond(&raft.RequestVoteResponse{Term: 3}, nil)
	require.False(t, <-granted["b"])
	require.False(t, <-granted["c"])
	require.Empty(t, p.asked)
}

func TestALateOrderIsRefused(t *testing.T) {
	p := newVotePeers(t)
	p.led = "c"
	require.ErrorContains(t, p.sendOrder(t, "b"), "not from the leader that this node follows")
	require.Empty(t, p.requests)
}

// An order that raft handles in a later term than the one in which it was given starts an ordinary
// election.
func TestAnOrderHoldsForOneTerm(t *testing.T) {
	p := newVotePeers(t)
	require.NoError(t, p.sendOrder(t, "b"))
	granted := p.campaign(4)
	for range 2 {
		rpc := <-p.asked
		require.False(t, rpc.Command.(*raft.RequestVoteRequest).LeadershipTransfer)
		rpc.Respond(&raft.RequestVoteResponse{Term: 4}, nil)
	}
	require.False(t, <-granted["b"])
	require.False(t, <-granted["c"])
}

func TestTheLeaseEndsBeforeTheVoteLeaves(t *testing.T) {
	p := newVotePeers(t)
	p.lease.begin(2)
	p.lease.acknowledged("b", 2, bootTime())
	require.True(t, p.lease.valid())
	peer := raft.NewNetworkTransport(listenTCP(t), 1, time.Minute, nil)
	defer peer.Close()
	for _, grants := range []bool{false, true} {
		go func() {
			rpc := <-p.requests
			rpc.Respond(&raft.RequestVoteResponse{Term: 3, Granted: grants}, nil)
		}()
		var answer raft.RequestVoteResponse
		require.NoError(t, peer.RequestVote("a", p.LocalAddr(), &raft.RequestVoteRequest{RPCHeader: header("c"), Term: 3}, &answer))
		require.Equal(t, grants, answer.Granted)
		require.Equal(t, !grants, p.lease.valid())
	}
}
