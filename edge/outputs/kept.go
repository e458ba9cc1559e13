package outputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/outflow"
	"lockstep/edge/outputs/end"
)

// Keeper has the files of jobs with --keep-output.
type Keeper interface {
	// Find returns what a job says of the kept output of the process that it had when so many tries had ended. fs.ErrNotExist says that
	// this node knows no such job, or process.
	Find(job int64, tries int) (opcode.Kept, error)
	// Open reads one stream of that process from a place on, which counts the bytes of all processes and opcodes, as far as the job accounts
	// for it. fs.ErrNotExist says that nothing is kept here.
	Open(job int64, kept opcode.Kept, stream outflow.Stream, from int64) (io.ReadCloser, error)
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
	if k := h.Kept; k.Stream > outflow.Stderr || k.From < 0 || k.To < k.From || k.Tries < 0 {
		return errors.New("a part of kept output is not possible")
	}
	return nil
}

// sendKept sends a reader what is kept of a part: from the files of this node or, if they have nothing of it, from another node.
func (s *Server) sendKept(c *connection) error {
	ctx, cancel := context.WithCancel(s.stopping)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, c.UnixConn) // the reader acknowledges nothing, but may
	}()
	buffer := make([]byte, outflow.FrameMax)
	p, f, err := s.findKept(ctx, c, buffer)
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

// findKept is the first part of this node and the others that is not empty, with its first frame; that of this node if all are empty. The
// error says that the reader must ask again: nobody knows what there is.
func (s *Server) findKept(ctx context.Context, c *connection, buffer []byte) (part, outflow.Frame, error) {
	kept, known, err := s.findJob(c.hello)
	if err != nil {
		return nil, outflow.Frame{}, err
	}
	own, err := s.openKept(c.hello, kept)
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
	runsAt, others := s.whoKeeps(c.hello, kept, known)
	for _, node := range slices.Concat(runsAt, others) {
		p, f, err := s.askNode(ctx, node, c, buffer)
		switch {
		case err == nil && ctx.Err() != nil:
			return nil, f, errors.Join(context.Cause(ctx), p.Close(), own.Close())
		case err != nil && (ctx.Err() != nil || slices.Contains(runsAt, node)):
			return nil, f, errors.Join(fmt.Errorf("ask node %s for kept output: %w", node, err), own.Close())
		case err != nil:
			s.unasked.Record("count", logrus.Fields{"job": c.hello.Job, "node": node, "err": err})
		case f.Ends():
			_ = p.Close()
		default:
			s.remember(c.hello.Job, node)
			return p, f, own.Close()
		}
	}
	return own, first, nil
}

// findJob returns what a job says of the kept output that a reader asks for; not known: this node has no such job.
func (s *Server) findJob(h end.Hello) (kept opcode.Kept, known bool, err error) {
	if s.kept == nil {
		return kept, false, nil
	}
	kept, err = s.kept.Find(h.Job, h.Kept.Tries)
	if errors.Is(err, fs.ErrNotExist) {
		return kept, false, nil
	}
	return kept, err == nil, err
}

// whoKeeps are the nodes that may have of a part what this node lacks. The job runs, or is known, at most at runsAt; the others may have
// run it, the likeliest first. A try that has ended may have run on any of them, also while the job runs here. Most jobs keep nothing, and
// then no node is asked.
func (s *Server) whoKeeps(h end.Hello, kept opcode.Kept, known bool) (runsAt, others []string) {
	if known && len(kept.Parts) == 0 {
		return nil, nil
	}
	master, here := s.nodes.Master()
	if !kept.Ended && here {
		return nil, nil
	}
	if !kept.Ended { // as far as this node knows
		runsAt = []string{master}
	}
	stream := job.LogStdout
	if h.Kept.Stream == outflow.Stderr {
		stream = job.LogStderr
	}
	if !kept.MayHave(stream, h.Kept.From) {
		return runsAt, nil
	}
	all, err := s.nodes.Others()
	if err != nil {
		s.unasked.Record("count", logrus.Fields{"job": h.Job, "err": err})
	}
	first := s.remembered(h.Job)
	for _, node := range all {
		switch {
		case slices.Contains(runsAt, node):
		case node == first:
			others = slices.Insert(others, 0, node)
		default:
			others = append(others, node)
		}
	}
	return runsAt, others
}

// rememberedMax bounds the jobs of which the server remembers the node that has their kept output.
const rememberedMax = 1000

func (s *Server) remember(job int64, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keptAt) >= rememberedMax {
		clear(s.keptAt)
	}
	s.keptAt[job] = node
}

func (s *Server) remembered(job int64) (node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keptAt[job]
}

// openKept is a part in the files of this node.
func (s *Server) openKept(h end.Hello, kept opcode.Kept) (part, error) {
	p := &filePart{Kept: *h.Kept, file: io.NopCloser(eof{})}
	if len(kept.Parts) == 0 || p.From == p.To {
		return p, nil
	}
	file, err := s.kept.Open(h.Job, kept, p.Stream, p.From)
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

// askNode asks another node for what it keeps of a part, and returns its first frame. The end of ctx ends the part.
func (s *Server) askNode(ctx context.Context, node string, reader *connection, buffer []byte) (part, outflow.Frame, error) {
	c, err := s.dial(ctx, node, reader)
	if err != nil {
		return nil, outflow.Frame{}, err
	}
	p := &nodePart{c, context.AfterFunc(ctx, func() { _ = c.Close() })}
	f, err := p.next(buffer)
	if err != nil {
		return nil, f, errors.Join(err, p.Close())
	}
	return p, f, nil
}

// nodePart is a part that another node sends.
type nodePart struct {
	net.Conn
	forget func() bool
}

// Close is part of net.Conn.
func (p *nodePart) Close() error {
	p.forget()
	return p.Conn.Close()
}

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
