package outputs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/core/outflow"
	"lockstep/core/ownership"
	"lockstep/edge/luxiclient"
	"lockstep/edge/outputs"
	"lockstep/edge/outputs/end"
)

const patience = 20 * time.Second

// bench is the daemon's socket for output.
type bench struct {
	*testing.T
	path   string
	config outputs.Config
	server *outputs.Server
	served chan error
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, path: filepath.Join(t.TempDir(), "output")}
	b.listen()
	t.Cleanup(func() { b.close() })
	return b
}

func (b *bench) listen() {
	b.config.Log, _ = logrustest.NewNullLogger()
	server, err := outputs.Listen(b.path, ownership.Attributes{Mode: 0o600, UID: -1, GID: -1}, b.config)
	require.NoError(b, err)
	b.server, b.served = server, make(chan error, 1)
	go func() { b.served <- server.Serve() }()
}

func (b *bench) close() {
	if b.server != nil {
		_ = b.server.Close()
		require.NoError(b, <-b.served)
		b.server = nil
	}
}

func (b *bench) dial(h end.Hello) *os.File {
	b.Helper()
	c, err := end.Dial(b.Context(), b.path, h)
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	require.NoError(b, c.SetDeadline(time.Now().Add(patience)))
	return c
}

// passed is a reader that the process of a job got.
type passed struct {
	hello end.Hello
	conn  *os.File
}

// process takes the readers of a job, as its process does.
func (b *bench) process(job int64) (readers <-chan passed, stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	got, ended := make(chan passed, 10), make(chan struct{})
	go func() {
		defer close(ended)
		end.TakeReaders(ctx, b.path, job, func(h end.Hello, c *os.File) { got <- passed{h, c} })
	}()
	stop = func() { cancel(); <-ended }
	b.Cleanup(stop)
	return got, stop
}

func (b *bench) take(readers <-chan passed) passed {
	b.Helper()
	select {
	case p := <-readers:
		b.Cleanup(func() { _ = p.conn.Close() })
		require.NoError(b, p.conn.SetDeadline(time.Now().Add(patience)))
		return p
	case <-time.After(patience):
		require.FailNow(b, "no reader came")
		return passed{}
	}
}

func (p passed) send(t *testing.T, f outflow.Frame) {
	t.Helper()
	_, err := p.conn.Write(append(f.AppendHeader(nil), f.Output...))
	require.NoError(t, err)
}

// The reader and the process of a job meet in either order, and the daemon may end then. Readers of other jobs wait.
func TestAReaderMeetsTheProcess(t *testing.T) {
	b := newBench(t)
	hello := end.Hello{Job: 7, At: outflow.Position{Stdout: 2}, Follows: true}
	first := end.NewReader(b.dial(hello), hello.At)
	other := b.dial(end.Hello{Job: 8})
	readers, _ := b.process(7)
	atFirst := b.take(readers)
	require.Equal(t, hello, atFirst.hello)
	second := end.NewReader(b.dial(end.Hello{Job: 7}), outflow.Position{})
	atSecond := b.take(readers)
	require.False(t, atSecond.hello.Follows)
	b.close()
	_, err := other.Read(make([]byte, 1))
	require.Error(t, err, "a reader that waits connects again")

	atFirst.send(t, outflow.Frame{At: outflow.Position{Stdout: 2}, Output: []byte("out")})
	atSecond.send(t, outflow.Frame{At: outflow.Position{Stdout: 4}, Stream: outflow.Stderr, Output: []byte("err")})
	f, gap, err := first.Next()
	require.NoError(t, err)
	require.Zero(t, gap)
	require.Equal(t, "out", string(f.Output))
	_, gap, err = second.Next()
	require.NoError(t, err)
	require.Equal(t, outflow.Position{Stdout: 4}, gap)
	atFirst.send(t, outflow.Frame{At: outflow.Position{Stdout: 5}})
	f, _, err = first.Next()
	require.NoError(t, err)
	require.True(t, f.Ends())
	var ack [outflow.AckSize]byte
	_, err = io.ReadFull(atFirst.conn, ack[:])
	require.NoError(t, err)
	require.EqualValues(t, 5, outflow.DecodeAck(ack))
	_, _, err = first.Next()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, atSecond.conn.Close())
	_, _, err = second.Next()
	require.Error(t, err)
	require.False(t, second.Ended)
}

// Both sides connect again to the next daemon.
func TestAnotherDaemon(t *testing.T) {
	b := newBench(t)
	readers, _ := b.process(7)
	b.close()
	b.listen()
	b.dial(end.Hello{Job: 7})
	b.take(readers)
}

// A process ends while its reader is slow: the rest comes in a file, after what was sent.
func TestTheRestComesInAFile(t *testing.T) {
	b := newBench(t)
	reader := end.NewReader(b.dial(end.Hello{Job: 7}), outflow.Position{})
	readers, stop := b.process(7)
	p := b.take(readers)
	p.send(t, outflow.Frame{Output: []byte("sent ")})
	rest := outflow.Frame{At: outflow.Position{Stdout: 5}, Output: bytes.Repeat([]byte("rest "), 10_000)}
	content := append(rest.AppendHeader(nil), rest.Output...)
	last := outflow.Frame{At: outflow.Position{Stdout: 50_005}}
	content = last.AppendHeader(content)
	file, err := end.Rest()
	require.NoError(t, err)
	_, err = file.Write(content[1:])
	require.NoError(t, err)
	n, err := end.Send(p.conn, content[:1], file)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, errors.Join(file.Close(), p.conn.Close()))
	stop()
	var got bytes.Buffer
	for !reader.Ended {
		f, gap, err := reader.Next()
		require.NoError(t, err)
		require.Zero(t, gap)
		got.Write(f.Output)
	}
	require.Equal(t, "sent "+string(rest.Output), got.String())
}

func TestConnectionsThatSayNothingGood(t *testing.T) {
	b := newBench(t)
	for _, line := range []string{"nonsense\n", string(bytes.Repeat([]byte("x"), 2*end.HelloMax))} {
		c := b.dial(end.Hello{Job: 7}) // waits
		require.NoError(t, c.Close())
		bad, err := end.Dial(t.Context(), b.path, end.Hello{})
		require.NoError(t, err)
		require.NoError(t, bad.Close())
		raw, err := luxiclient.Connect(t.Context(), b.path)
		require.NoError(t, err)
		_, _ = raw.Write([]byte(line))
		_, err = raw.Read(make([]byte, 1))
		require.Error(t, err)
	}
	talker := b.dial(end.Hello{Job: 7})
	_, err := talker.Write([]byte("x")) // before it is taken
	require.NoError(t, err)
	_, err = talker.Read(make([]byte, 1))
	require.Error(t, err)
	readers, _ := b.process(7)
	b.dial(end.Hello{Job: 7, Follows: true})
	require.True(t, b.take(readers).hello.Follows)
}
