package main

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

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
	b := &relayed{T: t, path: filepath.Join(t.TempDir(), "output"), source: outflow.NewSource(outflow.Standard(time.Hour), followed)}
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
			b.ending(true)
			write(200_000)
			b.finish(true)
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
	b.finish(false)
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
	b.finish(true)
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
	b.ending(true)
	b.finish(true)
	received := <-ended
	require.True(t, received.Ended)
	require.Equal(t, 1000, got)
}

// A job with little output takes no readers: its log has everything.
func TestAJobWithLittleOutputTakesNoReader(t *testing.T) {
	b := newRelayed(t, true)
	ended := b.read(end.Hello{Job: 7, Follows: true}, func(outflow.Frame) {})
	b.write(outflow.Stdout, make([]byte, 1000))
	b.ending(true)
	b.finish(false)
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
	b.finish(true)
	require.True(t, (<-ended).Ended)
	require.Equal(t, "first last", got.String())
}
