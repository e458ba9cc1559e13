package follow

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/outflow"
	"lockstep/edge/outputs/end"
	"lockstep/persistence"
)

// streamPause is the pause before a stream connects again: no process has taken it, because none has written much yet or the daemon ended.
const streamPause = 500 * time.Millisecond

// Stream is the output of a job as its process sends it, beside the log: what the log drops is there, too. It connects until a process of
// the job takes it. A process with little output takes no readers, because its log has everything.
type Stream struct {
	// Pieces has what comes. The reader calls Taken after each one, and the job process is told then.
	Pieces <-chan Piece
	taken  chan struct{}
	cancel context.CancelFunc
}

// Piece is the next output, the end of it, or the loss of the connection: the process has died.
type Piece struct {
	outflow.Frame // its output is valid until Taken
	Gap           outflow.Position
	Lost          bool
}

// OpenStream begins to read the output of a job. follows says that this client has submitted the job, so that its commands wait for it.
func OpenStream(ctx context.Context, daemon *client.Session, id int64, follows bool) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	pieces := make(chan Piece)
	s := &Stream{Pieces: pieces, taken: make(chan struct{}), cancel: cancel}
	path := filepath.Join(filepath.Dir(daemon.Path), persistence.OutputSocket)
	go func() {
		for ctx.Err() == nil && !s.read(ctx, path, end.Hello{Job: id, Follows: follows}, pieces) {
			select {
			case <-ctx.Done():
			case <-time.After(streamPause):
			}
		}
	}()
	return s
}

// read reads over one connection. It reports whether a process has taken the reader: then the output has ended, or is lost.
func (s *Stream) read(ctx context.Context, path string, h end.Hello, pieces chan<- Piece) (taken bool) {
	c, err := end.Dial(ctx, path, h)
	if err != nil {
		return false
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	reader := end.NewReader(c, h.At)
	for {
		f, gap, err := reader.Next()
		switch {
		case reader.Ended && errors.Is(err, io.EOF):
			return true
		case err != nil && !taken:
			return false
		case errors.Is(err, os.ErrDeadlineExceeded):
			return true // this command ends
		}
		taken = true
		select {
		case pieces <- Piece{Frame: f, Gap: gap, Lost: err != nil}:
		case <-ctx.Done():
			return true
		}
		if err != nil {
			return true
		}
		select {
		case <-s.taken:
		case <-ctx.Done():
			return true
		}
	}
}

// Taken says that the last piece was written.
func (s *Stream) Taken() { s.taken <- struct{}{} }

// Close ends the reading.
func (s *Stream) Close() { s.cancel() }
