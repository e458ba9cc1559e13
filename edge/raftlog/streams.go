package raftlog

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// Streams connects the logs of two nodes: it accepts at the listener, and connects with dial to the address of another
// node. Closing it closes the listener.
func Streams(listener net.Listener, dial func(ctx context.Context, address string) (net.Conn, error)) raft.StreamLayer {
	return &streams{listener, dial}
}

type streams struct {
	net.Listener
	dial func(context.Context, string) (net.Conn, error)
}

// Dial is part of raft.StreamLayer. It connects to a node within the timeout.
func (s *streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.dial(ctx, string(address))
}
