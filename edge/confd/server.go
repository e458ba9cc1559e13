// Package confd is the UDP server of queries about the configuration, and a client of such servers (confd.md).
//
// It owns the socket, the keys that are valid, and the counters of packets. The actor of package actors/config/confd gives it each
// configuration (Server.Use); the answers are made by core/confd. It reads the keys from their files, waits for them, and takes new
// ones while it runs. A packet without a valid signature gets no answer and leaves nothing behind but a count.
//
// Nothing survives a crash: the files of the keys are those of the data directory.
package confd

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"lockstep/core/confd"
	"lockstep/edge/ratelog"
)

const (
	// readersMin and readersMax bound the number of goroutines that read and answer packets. One of them can be busy with a large
	// answer.
	readersMin, readersMax = 2, 4
	// packetMax is the size of the buffer for a packet: one byte more than the longest one, so that a longer one is recognised.
	packetMax = confd.DatagramMax + 1
	// socketBuffer is how many bytes of packets wait in the kernel, so that a burst of strangers displaces fewer requests.
	socketBuffer = 4 << 20
	// errorPause is the pause after a failed read, which must not turn into a busy loop.
	errorPause = 100 * time.Millisecond
)

// Config has the address at which the ConfD server answers, and the data directory with its keys.
type Config struct {
	Log     *logrus.Logger
	Address string // host:port
	DataDir string // has the files of the keys
	Quiet   bool   // nobody has asked for the server: what needs no action is logged for debugging only
	// Now returns the time; nil: that of the system.
	Now func() time.Time
}

// Server answers ConfD's queries on a UDP socket. Its methods may be called from any goroutine.
type Server struct {
	config   Config
	conn     *net.UDPConn
	keys     atomic.Pointer[confd.Keys]
	snapshot atomic.Pointer[confd.Snapshot]
	limit    forgeryLimit
	counts   []atomic.Uint64 // by confd.Outcome
	done     chan struct{}   // closed by Close
	running  sync.WaitGroup
	closed   sync.Once
	failures *ratelog.Log

	replaysMutex sync.Mutex
	replays      *confd.Replays
}

// Listen opens the socket and answers queries until Close. The error wraps that of the system, such as syscall.EADDRINUSE.
func Listen(c Config) (*Server, error) { return listen("udp", c) }

func listen(network string, c Config) (*Server, error) {
	address, err := net.ResolveUDPAddr(network, c.Address)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP(network, address)
	if err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	setOptions(conn)
	s := &Server{
		config:  c,
		conn:    conn,
		counts:  make([]atomic.Uint64, len(confd.Outcomes())),
		replays: confd.NewReplays(),
		done:    make(chan struct{}),
	}
	s.failures = ratelog.New(c.Log, logrus.DebugLevel, "configuration queries: read or answer failed", "count")
	files := newKeyFiles(c.DataDir, c.Log, c.Quiet)
	s.keys.Store(files.read(c.Now()))
	s.running.Go(func() { s.watchKeys(files) })
	for range min(max(runtime.GOMAXPROCS(0), readersMin), readersMax) {
		s.running.Go(s.serve)
	}
	return s, nil
}

// setOptions enlarges the buffer of the socket as far as permitted, and has each packet come with the address that it was sent to. A
// smaller buffer only loses more packets in a burst.
func setOptions(conn *net.UDPConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer) != nil {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer)
		}
		if unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1) != nil { // a socket of IPv4 alone
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
	})
}

// sourceOf turns the control message of a packet, which has the address that was asked, into that of the answer, which comes from there:
// a client whose socket is connected to one of several addresses of the node gets nothing from the others. The route is the kernel's
// choice.
func sourceOf(control []byte) []byte {
	header, info, _, err := unix.ParseOneSocketControlMessage(control)
	switch {
	case err != nil:
		return nil
	case header.Level == unix.IPPROTO_IPV6 && len(info) == unix.SizeofInet6Pktinfo:
		clear(info[net.IPv6len:]) // the number of the interface
	case header.Level == unix.IPPROTO_IP && len(info) == unix.SizeofInet4Pktinfo:
		clear(info[:4])
	}
	return control
}

// Address returns the address of the socket.
func (s *Server) Address() net.Addr { return s.conn.LocalAddr() }

// Use makes the server answer from this snapshot from now on; nil: it refuses every query.
func (s *Server) Use(snapshot *confd.Snapshot) { s.snapshot.Store(snapshot) }

// Close ends the server and waits for its goroutines. A second call does nothing.
func (s *Server) Close() error {
	var err error
	s.closed.Do(func() {
		close(s.done)
		err = s.conn.Close()
		s.running.Wait()
	})
	return err
}

// serve reads and answers packets until the socket is closed. It pauses after errors and after too many forged packets.
func (s *Server) serve() {
	var from netip.AddrPort
	var now time.Time
	responder := confd.Responder{Admit: func(d confd.Digest) bool {
		s.replaysMutex.Lock()
		defer s.replaysMutex.Unlock()
		return s.replays.Admit(d, from.Addr().Unmap(), now)
	}}
	packet, reply := make([]byte, packetMax), make([]byte, 0, packetMax)
	control := make([]byte, unix.CmsgSpace(unix.SizeofInet6Pktinfo)) // the longer one of the two that setOptions asks for
	for {
		var n, m int
		var err error
		n, m, _, from, err = s.conn.ReadMsgUDPAddrPort(packet, control)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.failures.Record("count", logrus.Fields{"err": err})
			if !s.pause(errorPause) {
				return
			}
			continue
		}
		now = s.config.Now()
		var outcome confd.Outcome
		reply, outcome = responder.Answer(reply[:0], packet[:n], now, s.keys.Load(), s.snapshot.Load())
		s.counts[outcome].Add(1)
		if len(reply) > 0 {
			if _, _, err := s.conn.WriteMsgUDPAddrPort(reply, sourceOf(control[:m]), from); err != nil && !errors.Is(err, net.ErrClosed) {
				s.failures.Record("count", logrus.Fields{"err": err, "address": from.String()})
			}
			continue
		}
		if rest := s.limit.forged(outcome, now); rest > 0 && !s.pause(rest) {
			return
		}
	}
}

// pause waits for d. It reports false if the server is closed.
func (s *Server) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.done:
		return false
	}
}

// The bound of forged packets, whatever their source: forgedMax in each slice of time. When a slice has had so many, no packet is read
// until the next one, and the kernel drops what it has no room for.
const (
	forgedMax   = 2500
	forgedSlice = 10 * time.Millisecond
)

// forgeryLimit counts forged packets. All readers share it.
type forgeryLimit struct {
	slice  atomic.Int64 // number of the current slice
	count  atomic.Int64 // of forged packets in it
	pauses atomic.Uint64
}

// forged counts a packet without an answer, and returns how long the reader must pause.
func (l *forgeryLimit) forged(o confd.Outcome, now time.Time) (pause time.Duration) {
	if !o.IsForged() {
		return 0
	}
	current := now.UnixNano() / int64(forgedSlice)
	if l.slice.Swap(current) != current {
		l.count.Store(0)
	}
	if l.count.Add(1) < forgedMax {
		return 0
	}
	l.pauses.Add(1)
	return time.Duration((current+1)*int64(forgedSlice) - now.UnixNano())
}
