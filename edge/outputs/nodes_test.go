package outputs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/budget"
	"lockstep/core/opcode"
	"lockstep/core/outflow"
	"lockstep/edge/outputs"
	"lockstep/edge/outputs/end"
)

// nodes is a cluster whose nodes are servers of this test.
type nodes struct {
	mu        sync.Mutex
	master    string
	listeners map[string]net.Listener
	jobs      map[int64]opcode.Kept
	lost      map[string]bool
	dialed    []string          // the nodes to which others have connected
	from      map[string]string // by address of a connection, the node that has made it
}

// node is a server of the cluster.
type node struct {
	*bench
	name string
	all  *nodes
	kept string // directory of the kept output
}

func (n *nodes) setMaster(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.master = name
}

func (n *nodes) add(t *testing.T, name string) *node {
	if n.jobs == nil {
		n.listeners, n.jobs, n.from = map[string]net.Listener{}, map[int64]opcode.Kept{}, map[string]string{}
	}
	m := &node{name: name, all: n, kept: t.TempDir()}
	m.bench = &bench{T: t, path: filepath.Join(t.TempDir(), "output"), config: outputs.Config{Nodes: m, Kept: m}}
	m.listen()
	t.Cleanup(m.stop)
	return m
}

func (m *node) listen() {
	m.bench.listen()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(m, err)
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	m.all.listeners[m.name] = l
	server := m.server
	go func() { _ = server.ServeNodes(l) }()
}

func (m *node) stop() {
	m.close()
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	_ = m.all.listeners[m.name].Close()
}

// Master is part of outputs.Nodes.
func (m *node) Master() (name string, here bool) {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	return m.all.master, m.all.master == m.name
}

// Others is part of outputs.Nodes.
func (m *node) Others() (names []string, err error) {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	for _, name := range []string{"n1", "n2", "n3", "gone"} {
		if name != m.name && (m.all.listeners[name] != nil || name == "gone") {
			names = append(names, name)
		}
	}
	return names, nil
}

// Dial is part of outputs.Nodes.
func (m *node) Dial(ctx context.Context, name string) (net.Conn, error) {
	m.all.mu.Lock()
	l := m.all.listeners[name]
	m.all.dialed = append(m.all.dialed, name)
	m.all.mu.Unlock()
	if l == nil {
		return nil, errors.New("no route to host")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	if err == nil {
		m.all.mu.Lock()
		defer m.all.mu.Unlock()
		m.all.from[c.LocalAddr().String()] = m.name
	}
	return c, err
}

// asked are the nodes to which others have connected since the last call.
func (n *nodes) asked() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	asked := n.dialed
	n.dialed = nil
	return asked
}

// NameOf is part of outputs.Nodes. The other side has said hello before.
func (m *node) NameOf(c net.Conn) string {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	return m.all.from[c.RemoteAddr().String()]
}

// Lost is part of outputs.Nodes.
func (m *node) Lost(name string) bool {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	return m.all.lost[name]
}

// Find is part of outputs.Keeper.
func (m *node) Find(job int64, _ int) (opcode.Kept, error) {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	kept, known := m.all.jobs[job]
	if !known {
		return kept, fs.ErrNotExist
	}
	return kept, nil
}

// says sets what a job says of its kept output.
func (n *nodes) says(job int64, kept opcode.Kept) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jobs[job] = kept
}

// Open is part of outputs.Keeper.
func (m *node) Open(job int64, _ opcode.Kept, stream outflow.Stream, from int64) (io.ReadCloser, error) {
	f, err := os.Open(m.keptFile(job, stream))
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (m *node) keptFile(job int64, stream outflow.Stream) string {
	return filepath.Join(m.kept, strconv.FormatInt(job, 10)+"."+strconv.Itoa(int(stream)))
}

func (m *node) keep(job int64, stream outflow.Stream, output []byte) {
	m.Helper()
	require.NoError(m, os.WriteFile(m.keptFile(job, stream), output, 0o600))
}

// text is output of which no two parts of 8 bytes are equal.
func text(size int) []byte {
	var b []byte
	for n := 0; len(b) < size; n++ {
		b = append(strconv.AppendInt(b, int64(1_000_000+n), 10), '\n')
	}
	return b[:size]
}

// readAll reads to the end of the output, which must have no gap.
func readAll(t *testing.T, r *end.Reader) []byte {
	t.Helper()
	var got bytes.Buffer
	for !r.Ended {
		f, gap, err := r.Next()
		require.NoError(t, err)
		require.Zero(t, gap)
		got.Write(f.Output)
	}
	return got.Bytes()
}

// readKept reads a part of what is kept. stop is the place where it stops.
func (b *bench) readKept(job int64, k end.Kept) (got []byte, stop int64) {
	b.Helper()
	conn, buffer := b.dial(end.Hello{Job: job, Kept: &k}), make([]byte, outflow.FrameMax)
	at := k.From
	for {
		f, err := outflow.ReadFrame(conn, buffer)
		require.NoError(b, err)
		require.Equal(b, at, f.At.Of(k.Stream))
		require.Equal(b, at, f.At.Sum(), "places count one stream")
		if f.Ends() {
			_, err := conn.Read(buffer)
			require.ErrorIs(b, err, io.EOF)
			return got, at
		}
		require.Equal(b, k.Stream, f.Stream)
		got, at = append(got, f.Output...), at+int64(len(f.Output))
	}
}

// send sends output of a job as its process does: in frames, and the rest in a file.
func (p passed) sendAll(t *testing.T, output []byte, inFrames int) {
	t.Helper()
	s := outflow.NewSource(outflow.Limits{Capacity: len(output), InFlight: 96 << 10, Frames: 32, Readers: 1}, outflow.Position{}, false)
	s.Add(outflow.Stdout, output)
	id, err := s.Attach(p.hello.At, false, p.hello.Relayed)
	require.NoError(t, err)
	buffer := make([]byte, outflow.FrameMax)
	var ack [outflow.AckSize]byte
	for sent := 0; sent < inFrames; {
		f, ok := s.Next(id, buffer)
		if ok {
			p.send(t, f)
			sent += len(f.Output)
			continue
		}
		_, err := io.ReadFull(p.conn, ack[:])
		require.NoError(t, err)
		require.NoError(t, s.Ack(id, outflow.DecodeAck(ack)))
	}
	s.End()
	var content []byte
	s.Rest(id, buffer, func(f outflow.Frame) { content = append(f.AppendHeader(content), f.Output...) })
	rest, err := end.Rest()
	require.NoError(t, err)
	_, err = rest.Write(content[1:])
	require.NoError(t, err)
	_, err = end.Send(p.conn, content[:1], rest)
	require.NoError(t, errors.Join(err, rest.Close(), p.conn.Close()))
}

// A reader on another node gets the same bytes: those that the process sends, and the rest.
func TestAReaderOnAnotherNode(t *testing.T) {
	all := &nodes{master: "n1"}
	master, standby := all.add(t, "n1"), all.add(t, "n2")
	hello := end.Hello{Job: 7, Follows: true, At: outflow.Position{Stdout: 14}}
	reader := end.NewReader(standby.dial(hello), hello.At)
	readers, _ := master.process(7)
	p := master.take(readers)
	hello.Relayed = true
	require.Equal(t, hello, p.hello)
	output := text(3 << 20)
	go p.sendAll(t, output, 2<<20)
	require.True(t, bytes.Equal(output[14:], readAll(t, reader)))
}

// A reader on another node that ends, ends for the process; and so does a reader inside the daemon.
func TestTheEndOfAReaderElsewhere(t *testing.T) {
	all := &nodes{master: "n1"}
	master, standby := all.add(t, "n1"), all.add(t, "n2")
	readers, _ := master.process(7)
	far := standby.dial(end.Hello{Job: 7})
	p := master.take(readers)
	require.NoError(t, far.Close())
	_, err := p.conn.Read(make([]byte, 1))
	require.Error(t, err)
	inside, err := standby.server.Open(budget.Client{Name: "user=alice"}, end.Hello{Job: 7})
	require.NoError(t, err)
	p = master.take(readers)
	require.NoError(t, inside.Close())
	_, err = p.conn.Read(make([]byte, 1))
	require.Error(t, err)
}

// One user does not take all connections to other nodes: a reader of that user gives way.
func TestReadersElsewhereAreBounded(t *testing.T) {
	const most = 200
	all := &nodes{master: "n1"}
	master, standby := all.add(t, "n1"), all.add(t, "n2")
	readers, _ := master.process(7)
	open := func(user string) *os.File {
		c, err := standby.server.Open(budget.Client{Name: user}, end.Hello{Job: 7})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		master.take(readers) // the connections are in the order of the calls
		return c
	}
	first := open("alice")
	for range most - 1 {
		open("alice")
	}
	second := open("bob")
	_, err := first.Read(make([]byte, 1))
	require.Error(t, err)
	require.NoError(t, second.SetReadDeadline(time.Unix(1, 0)))
	_, err = second.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it is open")
}

// A daemon on the way ends: the process loses the reader, which connects again at its place.
func TestADaemonOnTheWayEnds(t *testing.T) {
	for _, which := range []string{"master", "standby"} {
		t.Run(which, func(t *testing.T) {
			all := &nodes{master: "n1"}
			master, standby := all.add(t, "n1"), all.add(t, "n2")
			readers, _ := master.process(7)
			reader := end.NewReader(standby.dial(end.Hello{Job: 7, Follows: true}), outflow.Position{})
			p := master.take(readers)
			output := text(200 << 10)
			p.send(t, outflow.Frame{Output: output[:1000]})
			_, _, err := reader.Next()
			require.NoError(t, err)
			ending := map[string]*node{"master": master, "standby": standby}[which]
			ending.stop()
			_, err = p.conn.Read(make([]byte, 1))
			require.Error(t, err)
			_, _, err = reader.Next()
			require.Error(t, err)
			require.False(t, reader.Ended)
			ending.listen()
			reader = end.NewReader(standby.dial(end.Hello{Job: 7, Follows: true, At: reader.At}), reader.At)
			p = master.take(readers)
			require.EqualValues(t, 1000, p.hello.At.Stdout)
			go p.sendAll(t, output, len(output)/2)
			require.True(t, bytes.Equal(output[1000:], readAll(t, reader)))
		})
	}
}

// Readers that wait for a process, here or at the former master, connect again when there is another master.
func TestAnotherMaster(t *testing.T) {
	all := &nodes{master: "n1"}
	former, next := all.add(t, "n1"), all.add(t, "n2")
	passedOn := former.dial(end.Hello{Job: 8})
	readers, _ := former.process(8)
	p := former.take(readers)
	got := make(chan []byte, 2)
	for _, at := range []*node{former, next} {
		conn := at.dial(end.Hello{Job: 7})
		go func() {
			for {
				r := end.NewReader(conn, outflow.Position{})
				f, _, err := r.Next()
				if err == nil {
					got <- bytes.Clone(f.Output)
					return
				}
				if conn, err = end.Dial(t.Context(), at.path, end.Hello{Job: 7}); err != nil {
					return
				}
				defer conn.Close()
			}
		}()
	}
	all.setMaster("n2")
	p.send(t, outflow.Frame{Output: []byte("x")}) // its process lives
	f, err := outflow.ReadFrame(passedOn, make([]byte, outflow.FrameMax))
	require.NoError(t, err)
	require.Equal(t, "x", string(f.Output))
	readers, _ = next.process(7)
	for range 2 {
		next.take(readers).send(t, outflow.Frame{Output: []byte("of the new master")})
		select {
		case output := <-got:
			require.Equal(t, "of the new master", string(output))
		case <-time.After(patience):
			require.Fail(t, "a reader stays at the former master")
		}
	}
	all.setMaster("")
	_, err = next.dial(end.Hello{Job: 9}).Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "there is no master")
}

// Kept output comes from the files of the node that has them, also of a job whose process has gone.
func TestKeptOutput(t *testing.T) {
	all := &nodes{master: "n1"}
	ran, other, third := all.add(t, "n1"), all.add(t, "n2"), all.add(t, "n3")
	output := text(300 << 10)
	size := int64(len(output))
	ran.keep(7, outflow.Stdout, output)
	ran.keep(7, outflow.Stderr, []byte("error\n"))
	third.keep(7, outflow.Stdout, nil)
	all.says(7, opcode.Kept{Ended: true, Parts: []opcode.KeptPart{{Vouched: true, Stdout: size, Stderr: 6}}})
	for name, at := range map[string]*node{"the node that has it": ran, "another": other, "one that has a part of it": third} {
		t.Run(name, func(t *testing.T) {
			for _, part := range []end.Kept{{From: 0, To: size}, {From: 70_000, To: 70_001}, {From: 1, To: size + 1000}, {From: size - 1, To: size}} {
				got, stop := at.readKept(7, part)
				until := min(part.To, size)
				require.Equal(t, until, stop)
				require.True(t, bytes.Equal(output[part.From:until], got))
			}
			got, stop := at.readKept(7, end.Kept{Stream: outflow.Stderr, From: 2, To: 1000})
			require.Equal(t, "ror\n", string(got))
			require.EqualValues(t, 6, stop)
			for _, nothing := range []end.Kept{{From: 5, To: 5}, {From: size, To: size + 1}, {From: size + 9, To: size + 10}} {
				got, stop := at.readKept(7, nothing)
				require.Empty(t, got)
				require.Equal(t, nothing.From, stop)
			}
		})
	}
	got, _ := other.readKept(8, end.Kept{To: 10})
	require.Empty(t, got, "nothing is kept of the job")
	for _, wrong := range []end.Hello{{Job: -1, Kept: &end.Kept{To: 1}}, {Job: 7, Kept: &end.Kept{From: -1, To: 1}}, {Job: 7, Kept: &end.Kept{From: 2, To: 1}},
		{Job: 7, Kept: &end.Kept{Stream: 2, To: 1}}} {
		_, err := ran.dial(wrong).Read(make([]byte, 1))
		require.Error(t, err)
	}
}

// failing is a file that breaks off.
type failing struct{ io.Reader }

func (failing) Close() error { return nil }

type keeperFunc func(from int64) (io.ReadCloser, error)

func (f keeperFunc) Open(_ int64, _ opcode.Kept, _ outflow.Stream, from int64) (io.ReadCloser, error) {
	return f(from)
}

func (f keeperFunc) Find(int64, int) (opcode.Kept, error) { return running, nil }

// running is a job that keeps its output.
var running = opcode.Kept{Parts: []opcode.KeptPart{{}}, Surely: true}

// A reader never takes a part for the whole: without an end it is not all.
func TestKeptOutputThatCannotBeRead(t *testing.T) {
	broken := errors.New("input/output error")
	for name, keeper := range map[string]keeperFunc{
		"read": func(int64) (io.ReadCloser, error) {
			return failing{io.MultiReader(bytes.NewReader(text(outflow.FrameMax)), errorReader{broken})}, nil
		},
		"open": func(int64) (io.ReadCloser, error) { return nil, broken },
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{T: t, path: filepath.Join(t.TempDir(), "output"), config: outputs.Config{Kept: keeper}}
			b.listen()
			t.Cleanup(b.close)
			r := end.NewReader(b.dial(end.Hello{Job: 7, Kept: &end.Kept{To: 1 << 20}}), outflow.Position{})
			var err error
			for err == nil {
				_, _, err = r.Next()
			}
			require.False(t, r.Ended)
		})
	}
	b := &bench{T: t, path: filepath.Join(t.TempDir(), "output"), config: outputs.Config{
		Kept: keeperFunc(func(int64) (io.ReadCloser, error) { return nil, &fs.PathError{Op: "open", Err: fs.ErrNotExist} })}}
	b.listen()
	t.Cleanup(b.close)
	got, _ := b.readKept(7, end.Kept{To: 1})
	require.Empty(t, got)
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// A reader of kept output that takes nothing holds its connection and no more; the server ends all the same.
func TestASlowReaderOfKeptOutput(t *testing.T) {
	all := &nodes{master: "n1"}
	ran := all.add(t, "n1")
	output := text(4 << 20)
	ran.keep(7, outflow.Stdout, output)
	all.says(7, running)
	slow := ran.dial(end.Hello{Job: 7, Kept: &end.Kept{To: 4 << 20}})
	_, err := io.ReadFull(slow, make([]byte, 1))
	require.NoError(t, err)
	got, _ := ran.readKept(7, end.Kept{To: 4 << 20})
	require.True(t, bytes.Equal(output, got))
	done := make(chan struct{})
	go func() { defer close(done); ran.stop() }()
	select {
	case <-done:
	case <-time.After(patience):
		require.Fail(t, "the server does not end")
	}
}
