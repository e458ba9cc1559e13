package outputs

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/outflow"
	"lockstep/edge/outputs/end"
)

// Keeper has the files of jobs with --keep-output.
type Keeper interface {
	// Open reads one stream of a job from a place on, over all opcodes. fs.ErrNotExist says that nothing is kept there.
	Open(job int64, stream outflow.Stream, from int64) (io.ReadCloser, error)
}

const (
	// slowest is how long a reader of kept output may take nothing.
	slowest = time.Hour
	// frameTimeout is how long another node may take to send the next frame of what it keeps.
	frameTimeout = time.Minute
)

// part is a part of one stream. next returns its frames, and the end where it stops; the output is in the buffer.
type part interface {
	next(buffer []byte) (outflow.Frame, error)
	io.Closer
}

// checkKept checks what a reader asks for.
func checkKept(h end.Hello) error {
	if k := h.Kept; k.Stream > outflow.Stderr || k.From < 0 || k.To < k.From {
		return errors.New("a part of kept output is not possible")
	}
	return nil
}

// sendKept sends a reader what is kept of a part: from the files of this node or, if they have nothing of it, from another node.
func (s *Server) sendKept(c *connection) error {
	// The reader acknowledges nothing, but may.
	go func() { _, _ = io.Copy(io.Discard, c.UnixConn) }()
	buffer := make([]byte, outflow.FrameMax)
	p, f, err := s.findKept(c, buffer)
	if err != nil {
		return err
	}
	defer p.Close()
	header := make([]byte, 0, outflow.HeaderSize)
	for {
		if err := c.send(f.AppendHeader(header)); err != nil || f.Ends() {
			return err
		}
		if err := c.send(f.Output); err != nil {
			return err
		}
		if f, err = p.next(buffer); err != nil {
			return err // without an end the reader knows that this is not all
		}
	}
}

// findKept is the first part of this node and the others that is not empty, with its first frame; that of this node if all are empty.
func (s *Server) findKept(c *connection, buffer []byte) (part, outflow.Frame, error) {
	own, err := s.openKept(c.hello)
	if err != nil {
		return nil, outflow.Frame{}, err
	}
	first, err := own.next(buffer)
	if err != nil {
		return nil, first, errors.Join(err, own.Close())
	}
	if !first.Ends() || c.fromNode || s.nodes == nil || c.hello.Kept.From == c.hello.Kept.To {
		return own, first, nil
	}
	others, err := s.nodes.Others()
	if err != nil {
		s.unasked.Record("count", logrus.Fields{"job": c.hello.Job, "err": err})
	}
	for _, node := range others {
		p, f, err := s.askNode(node, c, buffer)
		switch {
		case err != nil:
			s.unasked.Record("count", logrus.Fields{"job": c.hello.Job, "node": node, "err": err})
		case f.Ends():
			_ = p.Close()
		default:
			return p, f, own.Close()
		}
	}
	return own, first, nil
}

// openKept is a part in the files of this node.
func (s *Server) openKept(h end.Hello) (part, error) {
	p := &filePart{Kept: *h.Kept, file: io.NopCloser(eof{})}
	if s.kept == nil || p.From == p.To {
		return p, nil
	}
	file, err := s.kept.Open(h.Job, p.Stream, p.From)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	p.file = file
	return p, err
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// filePart is a part in the files of this node; From moves to its end.
type filePart struct {
	end.Kept
	file io.ReadCloser
}

func (p *filePart) next(buffer []byte) (outflow.Frame, error) {
	f := outflow.Frame{At: outflow.Position{Stdout: p.From}}
	if p.Stream == outflow.Stderr {
		f.At = outflow.Position{Stderr: p.From}
	}
	n, err := io.ReadFull(p.file, buffer[:min(int64(len(buffer)), p.To-p.From)])
	if n > 0 {
		f.Stream, f.Output = p.Stream, buffer[:n]
		p.From += int64(n)
		return f, nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return f, err
}

// Close is part of io.Closer.
func (p *filePart) Close() error { return p.file.Close() }

// askNode asks another node for what it keeps of a part, and returns its first frame.
func (s *Server) askNode(node string, reader *connection, buffer []byte) (part, outflow.Frame, error) {
	c, err := s.dial(node, reader)
	if err != nil {
		return nil, outflow.Frame{}, err
	}
	p := &nodePart{c}
	f, err := p.next(buffer)
	if err != nil {
		_ = c.Close()
		return nil, f, err
	}
	return p, f, nil
}

// nodePart is a part that another node sends.
type nodePart struct{ net.Conn }

func (p *nodePart) next(buffer []byte) (outflow.Frame, error) {
	if err := p.SetReadDeadline(time.Now().Add(frameTimeout)); err != nil {
		return outflow.Frame{}, err
	}
	f, err := outflow.ReadFrame(p.Conn, buffer)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // before the end
	}
	return f, err
}

// send writes to a reader, which must take something within slowest.
func (c *connection) send(b []byte) error {
	for len(b) > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(slowest)); err != nil {
			return err
		}
		n, err := c.Write(b)
		if b = b[n:]; err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return err
		}
	}
	return nil
}
