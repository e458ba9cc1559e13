package outputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/budget"
	"lockstep/core/outflow"
	"lockstep/edge/admission"
	"lockstep/edge/outputs/end"
)

// Nodes are the nodes of a cluster. Jobs run on the master.
type Nodes interface {
	// Master is the name of the master, as this node knows it; "": it knows none. here says that it is this node.
	Master() (name string, here bool)
	// Others are the names of the other nodes.
	Others() ([]string, error)
	// Dial connects to what ServeNodes serves at another node.
	Dial(ctx context.Context, node string) (net.Conn, error)
	// NameOf is the name of the node that has made a connection to what ServeNodes serves.
	NameOf(net.Conn) string
	// Lost reports whether this node, as the master, has heard nothing of another one for so long that its readers count as gone.
	Lost(node string) bool
}

// masterInterval is how often the server looks for another master. Readers that wait or are forwarded connect again then.
const masterInterval = time.Second

// watchMaster ends the readers that wait or are forwarded when another node than the known one becomes the master, until the
// server is closed. A former master that is cut off would not end them. On the master it ends the readers of nodes that are lost.
func (s *Server) watchMaster(known string) {
	ticker := time.NewTicker(masterInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stopping.Done():
			return
		case <-ticker.C:
		}
		name, here := s.nodes.Master()
		if name != known && name != "" {
			known = name
			s.endReaders()
		}
		if here {
			s.endLost()
		}
	}
}

// endReaders ends the readers that wait or are forwarded.
func (s *Server) endReaders() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.hello.Job != 0 && !c.hello.Writes && c.hello.Kept == nil && !c.passed {
			_ = c.Close()
		}
	}
}

// endLost ends the readers that lost nodes have forwarded. A node without power ends no connection, and TCP gives one up after a quarter
// of an hour. (Its option TCP_USER_TIMEOUT would also end those of readers that take nothing for a while.)
func (s *Server) endLost() {
	s.mu.Lock()
	nodes := maps.Clone(s.forwarded)
	s.mu.Unlock()
	lost := map[string]bool{}
	for c, node := range nodes {
		is, asked := lost[node]
		if !asked {
			is = s.nodes.Lost(node)
			lost[node] = is
		}
		if is {
			_ = c.Close()
		}
	}
}

// masterFor is the node to which a reader is forwarded; "": it is served here. The error says that it must connect again later.
func (s *Server) masterFor(c *connection) (node string, err error) {
	if s.nodes == nil || s.hasProcess(c.hello.Job) {
		return "", nil
	}
	switch name, here := s.nodes.Master(); {
	case here:
		return "", nil
	case c.fromNode:
		return "", errors.New("this node is not the master")
	case name == "":
		return "", errors.New("there is no master")
	default:
		return name, nil
	}
}

func (s *Server) hasProcess(job int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.jobs[job]
	return m != nil && m.process != nil
}

// farMax bounds the connections to other nodes, whose ports serve more than output. They are shared by user (core/budget).
const farMax = 200

// farConn is a connection to another node for a reader.
type farConn struct {
	net.Conn
	slot *admission.Slot
}

// Close is part of net.Conn.
func (c *farConn) Close() error {
	c.slot.Close()
	return c.Conn.Close()
}

// dial connects to another node and says hello for a reader. It bounds the time of both, not that of the connection.
func (s *Server) dial(ctx context.Context, node string, c *connection) (net.Conn, error) {
	slot := s.far.Admit(c.client, func() { _ = c.Close() })
	if slot == nil {
		return nil, errors.New("other users have all connections to nodes")
	}
	slot.Move(budget.Idle)
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	conn, err := s.nodes.Dial(ctx, node)
	if err != nil {
		slot.Close()
		return nil, err
	}
	far, h := &farConn{conn, slot}, c.hello
	h.Relayed = true
	err = far.SetDeadline(time.Now().Add(helloTimeout))
	if err == nil {
		_, err = far.Write(h.Line())
	}
	if err == nil {
		err = far.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, far.Close())
	}
	return far, nil
}

// forward copies between a reader and another node, until either ends.
func (s *Server) forward(c *connection, node string) error {
	far, err := s.dial(s.stopping, node, c)
	if err != nil {
		return fmt.Errorf("forward a reader of output to node %s: %w", node, err)
	}
	defer far.Close()
	defer context.AfterFunc(s.stopping, func() { _ = far.Close() })()
	acknowledged := make(chan struct{})
	go func() {
		defer close(acknowledged)
		passAcks(far, c.UnixConn)
		_ = far.Close()
	}()
	_, err = io.Copy(c.UnixConn, far)
	_ = c.Close()
	<-acknowledged
	return err
}

// passAcks passes acknowledgements on until the reader has ended. The other side may have ended before: what it has sent is still there.
func passAcks(to io.Writer, reader io.Reader) {
	buffer := make([]byte, 64*outflow.AckSize)
	for {
		n, err := reader.Read(buffer)
		_, _ = to.Write(buffer[:n])
		if err != nil {
			return
		}
	}
}

// ServeNodes serves the readers that other nodes forward, until the listener is closed.
func (s *Server) ServeNodes(l net.Listener) error {
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			time.Sleep(50 * time.Millisecond) // too many open files
			continue
		}
		if !s.begin(func() {
			if err := s.serveNode(c); err != nil {
				s.log.WithFields(logrus.Fields{"address": c.RemoteAddr().String(), "err": err}).Debug("a reader of output at another node has ended")
			}
		}) {
			_ = c.Close()
		}
	}
}

// track makes endLost know a connection of another node, until untrack.
func (s *Server) track(far net.Conn) (untrack func()) {
	if s.nodes == nil {
		return func() {}
	}
	name := s.nodes.NameOf(far)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forwarded[far] = name
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.forwarded, far)
	}
}

// serveNode serves a reader that another node forwards. The bytes are those of a reader on this node, the rest among them.
func (s *Server) serveNode(far net.Conn) error {
	defer far.Close()
	defer context.AfterFunc(s.stopping, func() { _ = far.Close() })()
	h, err := readHello(far)
	if err == nil && h.Writes {
		err = errors.New("a process of another node is no job process")
	}
	if err != nil {
		return err
	}
	h.Relayed = true
	host, _, err := net.SplitHostPort(far.RemoteAddr().String())
	if err != nil {
		return err
	}
	near, err := s.connect(budget.Client{Class: budget.Nodes, Name: "node=" + host}, h, true)
	if err != nil {
		return err
	}
	defer s.track(far)()
	acknowledged := make(chan struct{})
	go func() {
		defer close(acknowledged)
		passAcks(near, far)
		_ = near.Close()
	}()
	bytes := end.Bytes(near)
	defer bytes.Close()
	_, err = io.Copy(far, bytes)
	if half, is := far.(interface{ CloseWrite() error }); is && err == nil && half.CloseWrite() == nil {
		<-acknowledged // the other node closes first: a close with acknowledgements unread would drop what is on its way
	}
	_ = far.Close()
	<-acknowledged
	return err
}
