package follow

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/outflow"
	"lockstep/edge/outputs/end"
	"lockstep/persistence"
)

// streamPause is the pause before a stream connects again: no process has taken it, because none has written much yet or the daemon ended.
const streamPause = 500 * time.Millisecond

// Stream is the output of a job as its process sends it, beside the log: what the log drops is there, too. It connects until a process of
// the job takes it, and again at its place if the connection is lost. A process with little output takes no readers, because its log has
// everything.
type Stream struct {
	// Pieces has what comes. The reader calls Taken after each one that is not Lost, and the job process is told then.
	Pieces    <-chan Piece
	taken     chan struct{}
	closed    <-chan struct{} // nothing is read any more
	cancel    context.CancelFunc
	connected atomic.Bool
}

// Piece is the next output, the end of it, or the loss of the connection: the process has died, or a daemon that reads for this one.
type Piece struct {
	outflow.Frame // its output is valid until Taken
	Lost          bool
}

// OpenStream begins to read the output of a job. follows says that this client has submitted the job, so that its commands wait for it.
func OpenStream(ctx context.Context, daemon *client.Session, id int64, follows bool) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	pieces := make(chan Piece)
	s := &Stream{Pieces: pieces, taken: make(chan struct{}), closed: ctx.Done(), cancel: cancel}
	path := filepath.Join(filepath.Dir(daemon.Path), persistence.OutputSocket)
	hello := end.Hello{Job: id, Follows: follows}
	conn, err := end.Dial(ctx, path, hello)
	s.connected.Store(err == nil)
	go func() {
		for ctx.Err() == nil {
			if err == nil && s.read(ctx, conn, &hello.At, pieces) {
				return
			}
			s.connected.Store(follows && s.connected.Load()) // a follower is expected back
			select {
			case <-ctx.Done():
				return
			case <-time.After(streamPause):
			}
			conn, err = end.Dial(ctx, path, hello)
			s.connected.Store(err == nil || follows && s.connected.Load())
		}
	}()
	return s
}

// read reads over one connection from a place on, and moves the place on. It reports whether the output has ended.
func (s *Stream) read(ctx context.Context, c *os.File, at *outflow.Position, pieces chan<- Piece) (ended bool) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	reader := end.NewReader(c, *at)
	defer reader.Close()
	for taken := false; ; taken = true {
		f, _, err := reader.Next()
		if reader.Ended && errors.Is(err, io.EOF) {
			return true
		}
		if err != nil && !taken {
			return false
		}
		select {
		case pieces <- Piece{Frame: f, Lost: err != nil}:
		case <-ctx.Done():
			return false
		}
		if err != nil {
			return false
		}
		select {
		case <-s.taken:
			*at = reader.At
		case <-ctx.Done():
			return false
		}
	}
}

// Connected reports whether the daemon has the connection, or a process has taken it; of a follower, whether that was so once.
func (s *Stream) Connected() bool { return s.connected.Load() }

// Taken says that the last piece was written.
func (s *Stream) Taken() {
	select {
	case s.taken <- struct{}{}:
	case <-s.closed:
	}
}

// Close ends the reading.
func (s *Stream) Close() { s.cancel() }
