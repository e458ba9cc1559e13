package faces

import (
	"net"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/wire"
	"lockstep/edge/socket"
	"lockstep/messages"
)

const (
	// standInAfter is how long clients wait for the next ganeti-wconfd before they get an error. It is shorter than the time-out
	// of Ganeti's clients: ganeti-watcher, which starts ganeti-wconfd, may be one of them.
	standInAfter = 15 * time.Second
	// standInFrameMax bounds a request that gets the error, in bytes.
	standInFrameMax = 16 << 20
	// standInIdle is how long a connection without a request stays open.
	standInIdle = time.Minute
)

// standIn answers clients of the queue's socket with an error while no ganeti-wconfd runs, from standInAfter on. A nil standIn
// does nothing.
type standIn struct {
	start  *time.Timer
	mu     sync.Mutex
	ended  bool
	closed []interface{ Close() error }
}

func newStandIn(l net.Listener, after time.Duration, log *logrus.Logger) *standIn {
	s := &standIn{}
	s.start = time.AfterFunc(after, func() {
		log.Warn("ganeti-wconfd does not run; clients get an error until it does")
		borrowed := socket.Borrow(l)
		if s.keep(borrowed) {
			s.accept(borrowed)
		}
	})
	return s
}

// keep has end close c. It reports false, and closes c, if the stand-in has ended.
func (s *standIn) keep(c interface{ Close() error }) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		_ = c.Close()
		return false
	}
	s.closed = append(s.closed, c)
	return true
}

func (s *standIn) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if s.keep(c) {
			go s.refuse(c)
		}
	}
}

func (s *standIn) refuse(c net.Conn) {
	defer c.Close()
	reader := wire.NewReader(c, standInFrameMax)
	for c.SetDeadline(time.Now().Add(standInIdle)) == nil {
		if _, err := reader.ReadFrame(); err != nil {
			return
		}
		answer := wire.EncodeError(messages.ClassGeneric, "ganeti-wconfd does not run; ganeti-watcher or daemon-util starts it. Try again then")
		if wire.WriteFrame(c, answer) != nil {
			return
		}
	}
}

// end leaves the socket to ganeti-wconfd: no connection is refused any longer. On nil it does nothing.
func (s *standIn) end() {
	if s == nil {
		return
	}
	s.start.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, c := range s.closed {
		_ = c.Close()
	}
}
