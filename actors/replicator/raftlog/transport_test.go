package raftlog

import (
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// tcp is raft's layer over plain connections.
type tcp struct{ net.Listener }

func (tcp) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", string(to), timeout)
}

func listening(t *testing.T) tcp {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return tcp{l}
}

// A heartbeat that makes another node the leader is for raft's main goroutine; one of
// who leads already is not kept waiting by it.
func TestHeartbeatsThatChangeSomethingWait(t *testing.T) {
	here := listening(t)
	c := &Config{Dir: "raft", Name: "a", Address: here.Addr().String(), Streams: here}
	require.NoError(t, c.complete())
	led, term := raft.ServerID("b"), uint64(2)
	lease, _ := leaseOf("a", "b")
	tr := newTransport(c, newStreams(c), lease, newAbsence(nil), func() uint64 { return term },
		func(leader raft.ServerID, in uint64) bool { return leader == led && in == term }, hclog.NewNullLogger())
	defer tr.Close()
	at := make(chan string, 1)
	answer := func(where string, rpc raft.RPC) {
		at <- where
		rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
	}
	tr.SetHeartbeatHandler(func(rpc raft.RPC) { answer("at once", rpc) })
	go func() {
		for rpc := range tr.Consumer() {
			answer("main", rpc)
		}
	}()
	peer := raft.NewNetworkTransport(listening(t), 1, time.Minute, nil)
	defer peer.Close()
	for _, beat := range []struct {
		from  string
		term  uint64
		where string
	}{{"b", 2, "at once"}, {"b", 3, "main"}, {"c", 2, "main"}, {"b", 2, "at once"}} {
		request := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(beat.from), Addr: []byte("x:1")}, Term: beat.term}
		var got raft.AppendEntriesResponse
		require.NoError(t, peer.AppendEntries("a", raft.ServerAddress(here.Addr().String()), request, &got))
		require.True(t, got.Success)
		require.Equal(t, beat.where, <-at, "%+v", beat)
	}
}
