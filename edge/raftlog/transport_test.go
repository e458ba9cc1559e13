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
		func(leader raft.ServerID, in uint64) bool { return leader == led && in == term }, hclog.NewNullLogger())
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
		func(raft.ServerID, uint64) bool { return false }, hclog.NewNullLogger())
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
