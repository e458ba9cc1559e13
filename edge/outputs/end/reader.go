package end

import (
	"bufio"
	"io"
	"os"

	"lockstep/core/outflow"
)

// Reader reads the output of a job. It is used by one goroutine; the end of its connection ends a Next.
type Reader struct {
	outflow.Received
	conn   *os.File
	bytes  io.ReadCloser
	frames *bufio.Reader
	buffer [outflow.FrameMax]byte
	taken  bool // the last frame was returned, and is not acknowledged
}

// NewReader reads from a connection on which hello was said. at is the place that the hello named.
func NewReader(conn *os.File, at outflow.Position) *Reader {
	bytes := Bytes(conn)
	frames := bufio.NewReaderSize(bytes, outflow.FrameMax+outflow.HeaderSize)
	return &Reader{Received: outflow.Received{At: at}, conn: conn, bytes: bytes, frames: frames}
}

// Close ends the reading. It does not close the connection.
func (r *Reader) Close() { _ = r.bytes.Close() }

// Next returns the next frame, whose output is valid until the next call, and the output that is missing before it. It says to the job
// process that the former frame was taken. io.EOF says that no process takes the reader, or that it has died, unless Ended is set.
func (r *Reader) Next() (f outflow.Frame, gap outflow.Position, err error) {
	if r.taken {
		r.taken = false
		// A process that has passed the rest has gone: what it has sent is still there.
		_, _ = r.conn.Write(outflow.AppendAck(nil, r.At.Sum()))
	}
	if r.Ended {
		return f, gap, io.EOF
	}
	if f, err = outflow.ReadFrame(r.frames, r.buffer[:]); err != nil {
		return f, gap, err
	}
	r.taken = !f.Ends()
	gap, err = r.Take(f)
	return f, gap, err
}

// Bytes reads all bytes of a connection on which hello was said, also those of the rest that comes in a file. It does not acknowledge.
// Close does not close the connection.
func Bytes(conn *os.File) io.ReadCloser { return &stream{conn: conn} }

// stream is the bytes of a connection, and after its end those of the file that came with one of them.
type stream struct {
	conn *os.File
	rest *os.File // nil: none came
	at   int64    // in rest
	gone error    // the connection has ended; io.EOF: rest has ended, too
}

// Read is part of io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if s.gone == nil {
		n, passed, err := Receive(s.conn, p)
		if passed != nil {
			_ = s.Close() // one is enough
			s.rest = passed
		}
		if err == nil {
			return n, nil
		}
		s.gone = err
	}
	if s.rest == nil {
		return 0, s.gone
	}
	n, err := s.rest.ReadAt(p, s.at) // its offset is shared with the process that wrote it
	if s.at += int64(n); n > 0 {
		return n, nil
	}
	_ = s.Close()
	s.gone = err
	return 0, err
}

// Close gives back the memory of the rest.
func (s *stream) Close() error {
	if s.rest == nil {
		return nil
	}
	rest := s.rest
	s.rest = nil
	return rest.Close()
}
