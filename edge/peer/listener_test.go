package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/budget"
	"lockstep/edge/admission"
)

// rawJoin sends a join request as any program could.
func rawJoin(t *testing.T, n *node, r joinRequest) (*joinAnswer, error) {
	t.Helper()
	parsed, err := parseToken(n.token)
	require.NoError(t, err)
	client := newHTTPClient(func(ctx context.Context, address string) (net.Conn, error) {
		return dialTLS(ctx, address, joinConfig(address, parsed))
	})
	answer := &joinAnswer{}
	_, err = exchange(t.Context(), client, http.MethodPost, n.address(), joinPath, r, answer)
	return answer, err
}

// requireEnded checks that the other side has closed or refused a connection.
func requireEnded(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err)
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "still open")
	c.Close()
}

func acceptConn(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestProtocolsAreToldApart(t *testing.T) {
	n1 := newFounder(t)
	n2 := n1.joined(t, "n2")
	raft, luxi := n1.listener.Raft(), n1.listener.Luxi()
	require.Same(t, raft, n1.listener.Raft())
	for protocol, l := range map[Protocol]net.Listener{ProtocolRaft: raft, ProtocolLuxi: luxi} {
		c, err := n2.Dial(t.Context(), n1.address(), protocol)
		require.NoError(t, err)
		defer c.Close()
		require.Equal(t, "n1", PeerName(c))
		at := acceptConn(t, l)
		require.Equal(t, "n2", PeerName(at))
		go func() { _, _ = fmt.Fprint(c, protocol) }()
		text := make([]byte, len(protocol))
		_, err = io.ReadFull(at, text)
		require.NoError(t, err)
		require.Equal(t, string(protocol), string(text))
	}
	for _, unknown := range []string{"h2", "", "lockstep-raft-2"} {
		_, err := n2.Dial(t.Context(), n1.address(), Protocol(unknown))
		require.Error(t, err, unknown)
	}
}

func TestAClosedGateCanBeOpenedAgain(t *testing.T) {
	n1 := newFounder(t)
	n2 := n1.joined(t, "n2")
	dial := func() net.Conn {
		c, err := n2.Dial(t.Context(), n1.address(), ProtocolLuxi)
		require.NoError(t, err)
		return c
	}
	requireEnded(t, dial()) // it was never open
	l := n1.listener.Luxi()
	waiting := dial()
	require.Eventually(t, func() bool { return len(l.(*protocolListener).backlog) == 1 }, patience, time.Millisecond)
	require.NoError(t, l.Close())
	requireEnded(t, waiting)
	_, err := l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	requireEnded(t, dial())

	l = n1.listener.Luxi()
	c := dial()
	defer c.Close()
	acceptConn(t, l)

	require.NoError(t, n1.listener.Close())
	_, err = n1.listener.Luxi().Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	requireEnded(t, c)
}

func TestOnlyNodesOfTheClusterAreHeard(t *testing.T) {
	n1, other := newFounder(t), newFounder(t)
	raft := n1.listener.Raft()
	defer raft.Close()
	n2 := n1.joined(t, "n2")
	_, err := other.credentials.Dial(t.Context(), n1.address(), ProtocolRaft)
	require.ErrorContains(t, err, "certificate") // this node does not trust that certificate either

	anybody := func(protocol Protocol, certificates ...tls.Certificate) net.Conn {
		c, err := tls.Dial("tcp", n1.address(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{string(protocol)}, Certificates: certificates})
		require.NoError(t, err)
		return c
	}
	for _, protocol := range []Protocol{ProtocolRaft, ProtocolLuxi, ProtocolNode} {
		requireEnded(t, anybody(protocol))
		requireEnded(t, anybody(protocol, other.credentials.pair))
	}
	_, err = tls.Dial("tcp", n1.address(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{string(ProtocolRaft)}, MaxVersion: tls.VersionTLS12})
	require.Error(t, err)

	// Without a certificate only joining is possible; with a certificate joining is not
	// possible.
	client := newHTTPClient(func(context.Context, string) (net.Conn, error) { return anybody(ProtocolJoin), nil })
	_, err = exchange(t.Context(), client, http.MethodGet, n1.address(), aboutPath, nil, &About{})
	require.ErrorContains(t, err, "a connection of this protocol may not send this request")
	_, err = exchange(t.Context(), NewClient(n2).http, http.MethodPost, n1.address(), joinPath, joinRequest{}, &joinAnswer{})
	require.ErrorContains(t, err, "a connection of this protocol may not send this request")
}

func noNode(string) bool { return false }

// An unknown node with a certificate may lead this node, but may not make calls for
// clients.
func TestAFormerMemberWithACertificate(t *testing.T) {
	n1 := newFounder(t)
	n2 := n1.joined(t, "n2")
	raft := n1.listener.Raft()
	n1.listener.SetMembers(func(name string) bool { return name == "n1" }, noNode)
	c, err := n2.Dial(t.Context(), n1.address(), ProtocolRaft)
	require.NoError(t, err)
	defer c.Close()
	acceptConn(t, raft)
	c, err = n2.Dial(t.Context(), n1.address(), ProtocolLuxi)
	require.NoError(t, err)
	requireEnded(t, c)
}

func TestARemovedNodeIsRefused(t *testing.T) {
	n1 := newFounder(t)
	n2 := n1.joined(t, "n2")
	client := NewClient(n2)
	raft := n1.listener.Raft()
	old, err := n2.Dial(t.Context(), n1.address(), ProtocolRaft)
	require.NoError(t, err)
	acceptConn(t, raft)

	n1.listener.SetMembers(func(name string) bool { return name == "n1" }, func(name string) bool { return name == "n2" })
	n1.listener.Expel("n1")
	n1.listener.Expel("n2")
	requireEnded(t, old)
	for _, protocol := range []Protocol{ProtocolRaft, ProtocolLuxi} {
		c, err := n2.Dial(t.Context(), n1.address(), protocol)
		require.NoError(t, err)
		requireEnded(t, c)
	}
	_, err = client.About(t.Context(), n1.address())
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusForbidden, refused.Code)
	require.Contains(t, refused.Reason, "n2 is no member")
	require.ErrorAs(t, client.Files(t.Context(), n1.address(), nil, nil), &refused)

	// The former member may request membership again.
	_, err = client.RequestMembership(t.Context(), n1.address(), newMembershipRequest("n2"))
	require.NoError(t, err)
}

func newMembershipRequest(name string) MembershipRequest {
	return MembershipRequest{Name: name, UUID: "5e7c0a3e-3c4f-4c43-8a36-1c8b0d9a2f10", Address: "127.0.0.1:7500", Voting: true, Applied: 7}
}

func TestConversations(t *testing.T) {
	n1 := newFounder(t)
	client := NewClient(n1.joined(t, "n2"))
	about, err := client.About(t.Context(), n1.address())
	require.NoError(t, err)
	require.Equal(t, About{Name: "n1", Master: "n1", Applied: 12, Leads: true}, about)

	for _, want := range []Admission{{Status: StatusMember, Master: "n1"}, {Status: StatusWaiting}, {StatusNotMaster, "n3", "h:1"}} {
		n1.backend.admission = want
		got, err := client.RequestMembership(t.Context(), n1.address(), newMembershipRequest("n2"))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Equal(t, newMembershipRequest("n2"), n1.backend.requests[0])
	_, err = client.RequestMembership(t.Context(), n1.address(), newMembershipRequest("n3"))
	require.ErrorContains(t, err, "node n2 cannot speak for node n3")
	bad := newMembershipRequest("n2")
	bad.Address = ":1"
	_, err = client.RequestMembership(t.Context(), n1.address(), bad)
	require.ErrorContains(t, err, "the host of a node's address")
	_, err = exchange(t.Context(), client.http, http.MethodPost, n1.address(), memberPath, strings.Repeat("x", requestBodyMax), &Admission{})
	require.ErrorContains(t, err, "too large")
	_, err = exchange(t.Context(), client.http, http.MethodGet, n1.address(), "/v1/nothing", nil, &Admission{})
	require.ErrorContains(t, err, "404")

	n1.backend.err = errBackend
	_, err = client.About(t.Context(), n1.address())
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, errBackend.Error(), refused.Reason)
}

func TestReloadOpcodes(t *testing.T) {
	n1 := newFounder(t)
	client := NewClient(n1.joined(t, "n2"))
	declared, err := client.ReloadOpcodes(t.Context(), n1.address())
	require.NoError(t, err)
	require.Equal(t, 7, declared)
	n1.backend.err = errBackend
	_, err = client.ReloadOpcodes(t.Context(), n1.address())
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Reason, errBackend.Error())
}

func TestFiles(t *testing.T) {
	n1 := newFounder(t)
	client := NewClient(n1.joined(t, "n2"))
	for i := range 5000 {
		n1.backend.files = append(n1.backend.files, FileDigest{Path: fmt.Sprintf("queue/job-%d", i), SHA256: strings.Repeat("0", 64), Size: int64(i)})
	}
	var got []FileDigest
	collect := func(f FileDigest) error { got = append(got, f); return nil }
	require.NoError(t, client.Files(t.Context(), n1.address(), nil, collect))
	require.Equal(t, n1.backend.files, got)

	require.ErrorIs(t, client.Files(t.Context(), n1.address(), nil, func(FileDigest) error { return errBackend }), errBackend)
	n1.backend.err = errBackend
	require.ErrorContains(t, client.Files(t.Context(), n1.address(), nil, collect), errBackend.Error())
	n1.backend.err = nil

	got = nil
	require.NoError(t, client.Files(t.Context(), n1.address(), []string{"queue/job-7", "queue/job-4711"}, collect))
	require.Equal(t, []FileDigest{n1.backend.files[7], n1.backend.files[4711]}, got)
	long := make([]string, OnlyMax)
	for i := range long {
		long[i] = "queue/lockstep-1000000000000"
	}
	require.NoError(t, client.Files(t.Context(), n1.address(), long, collect), "the head of the request is not too long")
	n1.backend.files = nil
	require.NoError(t, client.Files(t.Context(), n1.address(), nil, collect))
}

func TestHalfOpenConnectionsAreBounded(t *testing.T) {
	n1 := newFounder(t)
	n2 := n1.joined(t, "n2")
	raft := n1.listener.Raft()
	silent := make([]net.Conn, 0, unverifiedMax+10)
	for range cap(silent) {
		c, err := net.Dial("tcp", n1.address())
		require.NoError(t, err)
		defer c.Close()
		silent = append(silent, c)
	}
	// The oldest silent connections are closed, so that a node can connect.
	for _, c := range silent[:10] {
		requireEnded(t, c)
	}
	c, err := n2.Dial(t.Context(), n1.address(), ProtocolRaft)
	require.NoError(t, err)
	defer c.Close()
	acceptConn(t, raft)
	requireEnded(t, silent[10])
	n1.listener.mu.Lock()
	defer n1.listener.mu.Unlock()
	require.LessOrEqual(t, n1.listener.slots.Len(), unverifiedMax)
	require.Len(t, n1.listener.nodes, 1)
}

// A flood of connections of one client takes the place of its own connections, not of those that another client has begun before.
func TestAFloodOfConnectionsKeepsNoNodeOut(t *testing.T) {
	byAddress := func(c net.Conn) budget.Client { return admission.Address(c.RemoteAddr().String()) } // both are the same user
	n1 := newFounderWith(t, ListenOptions{clientOf: byAddress})
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	slow, err := other.Dial("tcp", n1.address())
	require.NoError(t, err)
	defer slow.Close()
	var last net.Conn
	for range 3 * unverifiedMax {
		c, err := net.Dial("tcp", n1.address())
		require.NoError(t, err)
		defer c.Close()
		last = c
	}
	require.Eventually(t, func() bool { return n1.listener.slots.Len() == unverifiedMax }, 10*time.Second, time.Millisecond)
	require.NoError(t, last.SetReadDeadline(time.Now().Add(10*time.Second)))
	secure := tls.Client(slow, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{string(ProtocolJoin)}}) //nolint:gosec // the handshake is what counts
	require.NoError(t, secure.HandshakeContext(t.Context()))
}

func TestSlowHandshakesEnd(t *testing.T) {
	n1 := newFounder(t)
	l, err := Listen("127.0.0.1:0", n1.credentials, ListenOptions{Handshake: 50 * time.Millisecond})
	require.NoError(t, err)
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	requireEnded(t, c)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
}

func TestConnectionsOfNodesAreBounded(t *testing.T) {
	n1 := newFounder(t)
	l, err := Listen("127.0.0.1:0", n1.credentials, ListenOptions{Connections: 2})
	require.NoError(t, err)
	defer l.Close()
	raft := l.Raft()
	dial := func() net.Conn {
		c, err := n1.credentials.Dial(t.Context(), l.Addr().String(), ProtocolRaft)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first := acceptConn(t, raft)
	dial()
	acceptConn(t, raft)
	requireEnded(t, dial())
	first.Close()
	dial()
	acceptConn(t, raft)
}

// Bodies of requests for a certificate count for the user who sends them. Without memory for one the answer is 503.
func TestJoinRequestsCountInTheBudget(t *testing.T) {
	table := admission.NewTableWith(budget.NewBytesOf(joinBodyMax, joinBodyMax, 0))
	n1 := newFounderWith(t, ListenOptions{Table: table})
	other := table.Share(admission.UID(os.Getuid()), func() {})
	require.NoError(t, other.Grow(1))
	_, err := rawJoin(t, n1, joinRequest{Name: "n2"})
	require.ErrorContains(t, err, "too busy")
	other.Release()
	_, err = rawJoin(t, n1, joinRequest{Name: "n2"})
	require.ErrorContains(t, err, "token")
	require.Eventually(t, func() bool { return table.Used() == 0 }, patience, time.Millisecond)
}
