package admission

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Layout of the messages of sock_diag(7) about one socket of TCP: inet_diag_req_v2 and inet_diag_msg.
const (
	diagRequestSize = 56
	diagAnswerSize  = 72
	diagUIDOffset   = 64
	diagTimeout     = 200 * time.Millisecond
)

var errNoOwner = errors.New("the kernel does not know the socket")

// ownerOf asks the kernel for the user who has made the socket from one address of this machine to another one. The error is errNoOwner
// if there is no such socket.
func ownerOf(from, to netip.AddrPort) (uid int, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("ask the kernel for the user of a socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	timeout := unix.NsecToTimeval(diagTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return 0, fmt.Errorf("ask the kernel for the user of a socket: %w", err)
	}
	if err := unix.Sendto(fd, diagRequest(from, to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask the kernel for the user of a socket: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, fmt.Errorf("ask the kernel for the user of a socket: %w", err)
	}
	order := binary.NativeEndian
	if n < unix.SizeofNlMsghdr+diagAnswerSize || order.Uint16(answer[4:]) == unix.NLMSG_ERROR {
		return 0, errNoOwner
	}
	body := answer[unix.SizeofNlMsghdr:n]
	if binary.BigEndian.Uint16(body[4:]) != from.Port() || binary.BigEndian.Uint16(body[6:]) != to.Port() {
		return 0, errNoOwner
	}
	return int(order.Uint32(body[diagUIDOffset:])), nil
}

// diagRequest is the message of netlink that asks for one TCP socket, in any state.
func diagRequest(from, to netip.AddrPort) []byte {
	const sockDiagByFamily = 20
	order := binary.NativeEndian
	m := make([]byte, unix.SizeofNlMsghdr+diagRequestSize)
	order.PutUint32(m[0:], uint32(len(m))) //nolint:gosec // a constant
	order.PutUint16(m[4:], sockDiagByFamily)
	order.PutUint16(m[6:], unix.NLM_F_REQUEST)
	q := m[unix.SizeofNlMsghdr:]
	q[0], q[1] = unix.AF_INET, unix.IPPROTO_TCP
	if from.Addr().Is6() {
		q[0] = unix.AF_INET6
	}
	order.PutUint32(q[4:], ^uint32(0))
	binary.BigEndian.PutUint16(q[8:], from.Port())
	binary.BigEndian.PutUint16(q[10:], to.Port())
	copy(q[12:28], from.Addr().AsSlice())
	copy(q[28:44], to.Addr().AsSlice())
	order.PutUint64(q[48:], ^uint64(0)) // no cookie
	return m
}
