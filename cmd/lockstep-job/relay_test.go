package main

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/outflow"
	"lockstep/core/ownership"
	"lockstep/edge/outputs"
	"lockstep/edge/outputs/end"
)

// relayed is a relay with the daemon's socket for output.
type relayed struct {
	*testing.T
	*relay
	path   string
	source *outflow.Source
}

func newRelayed(t *testing.T, followed bool) *relayed {
	log, _ := logrustest.NewNullLogger()
	b := &relayed{T: t, path: filepath.Join(t.TempDir(), "output"), source: outflow.NewSource(outflow.Standard(time.Hour), outflow.Position{}, followed)}
	server, err := outputs.Listen(b.path, ownership.Attributes{Mode: 0o600, UID: -1, GID: -1}, outputs.Config{Log: log})
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.NoError(t, <-served)
	})
	b.relay = newRelay(b.path, 7, b.source, func(time.Time) {}, func(string) {})
	return b
}

// read reads the output of a job to its end, and sends what it has then.
func (b *relayed) read(h end.Hello, each func(outflow.Frame)) <-chan outflow.Received {
	c, err := end.Dial(b.Context(), b.path, h)
	require.NoError(b, err)
	ended := make(chan outflow.Received, 1)
	reader := end.NewReader(c, h.At)
	go func() {
		defer c.Close()
		for {
			f, _, err := reader.Next()
			if err != nil {
				ended <- reader.Received
				return
			}
			each(f)
		}
	}()
	return ended
}

// The follower gets each byte of each stream, however slow it is, and the end of the job does not wait for it.
func TestAFollowerGetsEverything(t *testing.T) {
	for name, slow := range map[string]bool{"fast": false, "slow": true} {
		t.Run(name, func(t *testing.T) {
			b := newRelayed(t, true)
			rng := rand.New(rand.NewPCG(1, 2))
			var written, got [2]bytes.Buffer
			gate := make(chan struct{})
			ended := b.read(end.Hello{Job: 7, Follows: true}, func(f outflow.Frame) {
				if slow {
					<-gate
				}
				got[f.Stream].Write(f.Output)
			})
			write := func(size int) {
				stream, chunk := rng.IntN(2), make([]byte, size)
				for i := range chunk {
					chunk[i] = byte(rng.UintN(256))
				}
				written[stream].Write(chunk)
				b.write(outflow.Stream(stream), chunk)
			}
			for range 200 {
				write(1 + rng.IntN(4000))
			}
			if !slow {
				for range 200 {
					write(1 + rng.IntN(60_000))
				}
			}
			b.ending()
			write(200_000)
			require.NoError(t, b.finish(true))
			close(gate)
			received := <-ended
			require.True(t, received.Ended)
			require.Zero(t, received.Missing)
			for i := range written {
				require.True(t, bytes.Equal(written[i].Bytes(), got[i].Bytes()), "%d of %d bytes", got[i].Len(), written[i].Len())
			}
		})
	}
}

// Output of both streams waits for the follower. While the daemon is told of the end of the wait, the room goes to one of them.
func TestBothStreamsWaitForTheFollower(t *testing.T) {
	b := newRelayed(t, true)
	const size = outflow.FrameMax
	waits, goesOn := make(chan struct{}), make(chan struct{})
	begins := sync.OnceFunc(func() { close(waits) })
	ends := sync.OnceFunc(func() {
		b.write(outflow.Stderr, make([]byte, size))
		close(goesOn)
	})
	b.changed = func(since time.Time) {
		if since.IsZero() {
			ends()
		} else {
			begins()
		}
	}
	id, err := b.source.Attach(outflow.Position{}, true, false)
	require.NoError(t, err)
	written := make(chan struct{})
	go func() {
		b.write(outflow.Stdout, make([]byte, outflow.Standard(0).Capacity+size))
		close(written)
	}()
	<-waits
	var received outflow.Received
	buffer := make([]byte, size)
	take := func() (more bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		f, ok := b.source.Next(id, buffer)
		if ok {
			_, err = received.Take(f)
			require.NoError(t, err)
			require.NoError(t, b.source.Ack(id, received.At.Sum()))
		}
		b.moved.Broadcast()
		return ok
	}
	require.True(t, take())
	<-goesOn
	waitsAgain := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return !b.source.Blocked().IsZero()
	}
	for ended := false; !ended && !waitsAgain(); {
		select {
		case <-written:
			ended = true
		default:
		}
	}
	require.True(t, take())
	<-written
	for take() {
	}
	require.Zero(t, received.Missing)
	require.EqualValues(t, outflow.Standard(0).Capacity+2*size, received.At.Sum())
	require.NoError(t, b.finish(false))
}

// What the daemon is told last of the wait is true, although both streams may see it change while the daemon is told.
func TestTheWaitIsToldInOrder(t *testing.T) {
	b := newRelayed(t, true)
	id, err := b.source.Attach(outflow.Position{}, true, false)
	require.NoError(t, err)
	var told []bool
	b.changed = func(since time.Time) {
		if !since.IsZero() { // meanwhile the follower takes everything, and the other stream goes on
			b.mu.Lock()
			buffer := make([]byte, outflow.FrameMax)
			for f, ok := b.source.Next(id, buffer); ok; f, ok = b.source.Next(id, buffer) {
				require.NoError(t, b.source.Ack(id, f.At.Sum()+int64(len(f.Output))))
			}
			b.mu.Unlock()
			b.write(outflow.Stderr, []byte("x"))
		}
		told = append(told, !since.IsZero())
	}
	b.write(outflow.Stdout, make([]byte, outflow.Standard(0).Capacity+1))
	require.Equal(t, []bool{true, false}, told)
	require.NoError(t, b.finish(false))
}

// A reader that is no follower slows nobody, and knows what it has missed.
func TestAReaderThatIsNotWaitedFor(t *testing.T) {
	b := newRelayed(t, false)
	gate, first := make(chan struct{}), make(chan struct{}, 1000)
	read := int64(0)
	ended := b.read(end.Hello{Job: 7}, func(f outflow.Frame) {
		first <- struct{}{}
		<-gate
		read += int64(len(f.Output))
	})
	const size = 50_000
	b.write(outflow.Stdout, make([]byte, size))
	<-first
	for range 100 {
		b.write(outflow.Stdout, make([]byte, size))
	}
	require.NoError(t, b.finish(true))
	close(gate)
	received := <-ended
	require.True(t, received.Ended)
	require.Positive(t, received.Missing.Stdout)
	require.EqualValues(t, 101*size, read+received.Missing.Stdout)
}

// Short lines take much room in the log, which may lack some although there is little output.
func TestAJobWhoseLogLacksOutputTakesItsFollower(t *testing.T) {
	b := newRelayed(t, true)
	got := 0
	ended := b.read(end.Hello{Job: 7, Follows: true}, func(f outflow.Frame) { got += len(f.Output) })
	b.write(outflow.Stdout, make([]byte, 1000))
	b.ending()
	require.NoError(t, b.finish(true))
	received := <-ended
	require.True(t, received.Ended)
	require.Equal(t, 1000, got)
}

// A job with little output takes no readers: its log has everything.
func TestAJobWithLittleOutputTakesNoReader(t *testing.T) {
	b := newRelayed(t, true)
	ended := b.read(end.Hello{Job: 7, Follows: true}, func(outflow.Frame) {})
	b.write(outflow.Stdout, make([]byte, 1000))
	b.ending()
	require.NoError(t, b.finish(false))
	select {
	case <-ended:
		require.FailNow(t, "the reader was taken")
	default:
	}
}

// Little output of which the log has lost some: who reads it gets all.
func TestReadersComeWhenTheLogLacksOutput(t *testing.T) {
	b := newRelayed(t, false)
	b.write(outflow.Stdout, []byte("first "))
	b.logLacks()
	begun := make(chan struct{}, 2)
	var got bytes.Buffer
	ended := b.read(end.Hello{Job: 7}, func(f outflow.Frame) {
		got.Write(f.Output)
		begun <- struct{}{}
	})
	<-begun
	b.logLacks()
	b.write(outflow.Stderr, []byte("last"))
	require.NoError(t, b.finish(true))
	require.True(t, (<-ended).Ended)
	require.Equal(t, "first last", got.String())
}

// paused is a reader's connection that the process has taken.
type paused struct {
	*testing.T
	reader, process *os.File
}

// pair makes a connection and gives it to the process. room is the size of the kernel's buffer for it, in bytes; 0: the usual one.
func (b *relayed) pair(h end.Hello, room int) *paused {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(b, err)
	c := &paused{b.T, os.NewFile(uintptr(fds[1]), "reader"), os.NewFile(uintptr(fds[0]), "process")}
	b.Cleanup(func() { _ = c.reader.Close() })
	if room > 0 {
		require.NoError(b, unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, room))
	}
	b.attach(h, c.process)
	return c
}

// unread is how much the kernel has for the reader, in bytes; full says that the connection takes no more.
func (c *paused) unread() (n int, full bool) {
	raw, err := c.process.SyscallConn()
	require.NoError(c, err)
	var errs [2]error
	var used, size int
	require.NoError(c, raw.Control(func(fd uintptr) {
		used, errs[0] = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ)
		size, errs[1] = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
	}))
	require.NoError(c, errors.Join(errs[:]...))
	raw, err = c.reader.SyscallConn()
	require.NoError(c, err)
	require.NoError(c, raw.Control(func(fd uintptr) { n, errs[0] = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }))
	require.NoError(c, errs[0])
	return n, used >= size
}

// await waits until the kernel has more than so many bytes for the reader, or takes no more.
func (c *paused) await(bytes int) {
	for n, full := c.unread(); n <= bytes && !full; n, full = c.unread() {
		runtime.Gosched()
	}
}

// A reader that has paused has a connection without room at the end of the job. It gets everything when it goes on, and the end of the job
// does not wait for it, nor for others.
func TestAReaderThatPausesGetsTheRest(t *testing.T) {
	const size, framed = 4096, 4096 + outflow.HeaderSize
	for name, room := range map[string]int{"small frames": 0, "little room": 1} {
		t.Run(name, func(t *testing.T) {
			b := newRelayed(t, true)
			c := b.pair(end.Hello{Job: 7, Follows: true}, room)
			reader := end.NewReader(c.reader, outflow.Position{})
			b.write(outflow.Stdout, make([]byte, size))
			_, _, err := reader.Next()
			require.NoError(t, err)
			paced := outflow.Standard(0).Frames - 2
			for i := range paced { // each piece becomes a frame
				b.write(outflow.Stdout, make([]byte, size))
				c.await(i * framed)
			}
			b.write(outflow.Stdout, make([]byte, 100*size))
			c.await(paced * framed)
			for range 3 {
				b.pair(end.Hello{Job: 7}, 1).await(outflow.FrameMax)
			}
			began := time.Now()
			require.NoError(t, b.finish(true))
			require.Less(t, time.Since(began), 4*time.Second, "it waits for no reader")
			for err == nil {
				_, _, err = reader.Next()
			}
			require.True(t, reader.Ended, "%v after %d bytes", err, reader.At.Sum())
			require.Zero(t, reader.Missing)
			require.EqualValues(t, (101+paced)*size, reader.At.Sum())
		})
	}
}

// The end comes once, also to a reader that has taken everything before, or nothing.
func TestTheEndOfOutputComesOnce(t *testing.T) {
	for name, size := range map[string]int{"nothing": 0, "much": 40_000} {
		t.Run(name, func(t *testing.T) {
			b := newRelayed(t, false)
			c := b.pair(end.Hello{Job: 7}, 0)
			b.write(outflow.Stderr, make([]byte, size))
			if size > 0 {
				c.await(size)
			}
			b.logLacks()
			require.NoError(t, b.finish(false))
			frames, ends, read := end.Bytes(c.reader), 0, 0
			for {
				f, err := outflow.ReadFrame(frames, make([]byte, outflow.FrameMax))
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				if read += len(f.Output); f.Ends() {
					ends++
				}
			}
			require.Equal(t, 1, ends)
			require.Equal(t, size, read)
		})
	}
}

// A command that changes between its streams fills the window with few bytes. Its follower is waited for, and gets all.
func TestAFollowerOfManySmallPieces(t *testing.T) {
	b := newRelayed(t, true)
	var got [2]int
	ended := b.read(end.Hello{Job: 7, Follows: true}, func(f outflow.Frame) { got[f.Stream] += len(f.Output) })
	const pieces = 9000
	for range pieces {
		b.write(outflow.Stdout, []byte("."))
		b.write(outflow.Stderr, []byte("x"))
	}
	b.ending()
	require.NoError(t, b.finish(true))
	require.True(t, (<-ended).Ended)
	require.Equal(t, [2]int{pieces, pieces}, got)
}

// What commands leave in their pipes is kept for a follower that has paused. The next command waits until there is room again, or it is
// killed: so no command finds the follower given up because of a former one.
func TestACommandWaitsForTheFollowerOfTheFormerOnes(t *testing.T) {
	const left, commands = 128 << 10, 60
	b := newRelayed(t, true)
	waits, alive := make(chan struct{}, 100), make(chan struct{})
	b.changed = func(time.Time) { waits <- struct{}{} }
	c := b.pair(end.Hello{Job: 7, Follows: true}, 0)
	var began atomic.Int32
	go func() {
		defer close(alive)
		for range commands {
			if !b.begin(nil) {
				return
			}
			began.Add(1)
			b.ending()
			b.write(outflow.Stdout, make([]byte, left)) // it was in the pipe
			b.hurry()
		}
	}()
	<-waits
	require.Less(t, began.Load(), int32(commands/2), "commands begin although nobody reads")
	total := 0
	reader := end.NewReader(c.reader, outflow.Position{})
	for total < left*commands {
		f, missing, err := reader.Next()
		require.NoError(t, err)
		require.Zero(t, missing)
		total += len(f.Output)
	}
	<-alive
}

// A kill reaches a command that waits for its start until the follower has taken the output of former ones.
func TestAKillEndsTheWaitBeforeACommand(t *testing.T) {
	b := newRelayed(t, true)
	b.pair(end.Hello{Job: 7, Follows: true}, 0)
	b.write(outflow.Stdout, make([]byte, outflow.Standard(0).Capacity))
	b.ending()
	b.write(outflow.Stdout, make([]byte, 100_000))
	killed, begins := make(chan struct{}), make(chan bool)
	go func() { begins <- b.begin(killed) }()
	close(killed)
	require.False(t, <-begins)
}
