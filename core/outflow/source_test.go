package outflow_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/outflow"
)

var start = time.Unix(1_700_000_000, 0)

// small has limits that a test reaches with few bytes.
var small = outflow.Limits{Capacity: 3000, InFlight: 1000, Frames: 4, Readers: 3, Stalled: time.Hour, Absent: 30 * time.Second}

func newSource(l outflow.Limits, followed bool) *outflow.Source {
	s := outflow.NewSource(l, outflow.Position{}, followed)
	s.Open(start)
	return s
}

// command is what a command has written, in order, as the model of a source: one byte each.
type command struct {
	streams []outflow.Stream
	bytes   []byte
}

func (c *command) write(s *outflow.Source, stream outflow.Stream, output []byte) {
	s.Add(stream, output)
	for _, b := range output {
		c.streams, c.bytes = append(c.streams, stream), append(c.bytes, b)
	}
}

// client is a reader: what arrived, with the sums of its bytes.
type client struct {
	id       uint64
	received outflow.Received
	arrived  map[int64]byte
	streams  map[int64]outflow.Stream
	unacked  []int64 // sums after the frames that are not acknowledged
	acked    int64
}

func attach(t require.TestingT, s *outflow.Source, at outflow.Position, follows, relayed bool) *client {
	id, err := s.Attach(at, follows, relayed)
	require.NoError(t, err)
	return &client{id: id, received: outflow.Received{At: at}, arrived: map[int64]byte{}, streams: map[int64]outflow.Stream{}}
}

// take takes one frame, and reports whether there was one.
func (c *client) take(t require.TestingT, s *outflow.Source, size int) bool {
	f, ok := s.Next(c.id, make([]byte, size))
	if ok {
		c.keep(t, f)
	}
	return ok
}

// keep takes a frame over the wire.
func (c *client) keep(t require.TestingT, f outflow.Frame) {
	f, err := outflow.ReadFrame(io.MultiReader(bytes.NewReader(f.AppendHeader(nil)), bytes.NewReader(f.Output)), make([]byte, outflow.FrameMax))
	require.NoError(t, err)
	_, err = c.received.Take(f)
	require.NoError(t, err)
	for i, b := range f.Output {
		c.arrived[f.At.Sum()+int64(i)], c.streams[f.At.Sum()+int64(i)] = b, f.Stream
	}
	c.unacked = append(c.unacked, c.received.At.Sum())
}

func (c *client) ack(t require.TestingT, s *outflow.Source) {
	for _, sum := range c.unacked {
		require.NoError(t, s.Ack(c.id, sum))
		c.acked = sum
	}
	c.unacked = nil
}

// requireTrue checks that what arrived is what was written at its place, and that the rest is counted as missing.
func (c *client) requireTrue(t require.TestingT, from outflow.Position, written *command) {
	for sum, b := range c.arrived {
		require.Equal(t, written.bytes[sum], b)
		require.Equal(t, written.streams[sum], c.streams[sum])
	}
	require.Equal(t, c.received.At.Sum()-from.Sum(), int64(len(c.arrived))+c.received.Missing.Sum())
}

// A follower gets each byte once and in order; other readers are told what they missed; nobody is waited for but the follower.
func TestReadersGetWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := small
		limits.Ending = 2000
		most := limits.Capacity + limits.Ending
		s, written, now := newSource(limits, true), &command{}, start
		var follower *client
		var others []*client
		places := []outflow.Position{{}}
		from := map[*client]outflow.Position{}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				n := min(rapid.IntRange(1, 700).Draw(t, "bytes"), s.Room(now))
				if n == 0 {
					require.Equal(t, now, s.Blocked())
					return
				}
				stream := outflow.Stream(rapid.IntRange(0, 1).Draw(t, "stream"))
				output := bytes.Repeat([]byte{byte(len(written.bytes) % 251)}, n)
				written.write(s, stream, output)
				at := places[len(places)-1]
				if stream == outflow.Stdout {
					at.Stdout += int64(n)
				} else {
					at.Stderr += int64(n)
				}
				places = append(places, at)
			},
			"follow": func(t *rapid.T) {
				if follower == nil {
					follower = attach(t, s, outflow.Position{}, true, false)
				}
			},
			"read along": func(t *rapid.T) {
				if len(others) < 2 {
					at := rapid.SampledFrom(places).Draw(t, "place")
					c := attach(t, s, at, false, false)
					others, from[c] = append(others, c), at
				}
			},
			"end a command": func(t *rapid.T) { s.Ending(rapid.Bool().Draw(t, "ends")) },
			"take": func(t *rapid.T) {
				for _, c := range append(others, follower) {
					if c != nil && rapid.Bool().Draw(t, "takes") {
						c.take(t, s, rapid.IntRange(1, 700).Draw(t, "size"))
					}
				}
			},
			"ack": func(t *rapid.T) {
				for _, c := range append(others, follower) {
					if c != nil && rapid.Bool().Draw(t, "acks") {
						c.ack(t, s)
					}
				}
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, s.Memory(), most)
				lacked := len(written.bytes)
				if follower != nil {
					lacked -= int(follower.acked)
				}
				require.LessOrEqual(t, lacked, most)
				for _, c := range others {
					c.requireTrue(t, from[c], written)
				}
				if follower != nil {
					follower.requireTrue(t, outflow.Position{}, written)
					require.Zero(t, follower.received.Missing)
				}
			},
		})
		s.End()
		if follower == nil {
			follower = attach(t, s, outflow.Position{}, true, false)
		}
		for _, c := range append(others, follower) {
			s.Rest(c.id, make([]byte, outflow.FrameMax), func(f outflow.Frame) { c.keep(t, f) })
			require.True(t, c.received.Ended)
			c.requireTrue(t, from[c], written)
		}
		require.Len(t, follower.arrived, len(written.bytes))
	})
}

func full(now time.Time, s *outflow.Source) {
	for n := s.Room(now); n > 0; n = s.Room(now) {
		s.Add(outflow.Stdout, make([]byte, n))
	}
}

func TestAFollowerThatDoesNotComeIsWaitedForAWhile(t *testing.T) {
	s := newSource(small, true)
	require.Zero(t, s.Blocked())
	full(start.Add(time.Second), s)
	require.Equal(t, start.Add(time.Second), s.Blocked())
	require.Equal(t, start.Add(small.Absent), s.Deadline())
	s.Tick(start.Add(small.Absent - 1))
	require.Zero(t, s.Room(start.Add(small.Absent-1)))
	s.Tick(start.Add(small.Absent))
	require.Equal(t, "no reader came within 30s; the command goes on without one", s.Complaint())
	require.Empty(t, s.Complaint())
	require.Equal(t, small.Capacity, s.Room(start.Add(small.Absent)))
	require.Zero(t, s.Blocked())
	require.Zero(t, s.Deadline())
	c := attach(t, s, outflow.Position{}, true, false) // it comes late
	s.Add(outflow.Stderr, []byte("x"))
	require.True(t, c.take(t, s, outflow.FrameMax))
	require.Equal(t, outflow.Position{Stdout: 1}, c.received.Missing)
	require.Equal(t, small.Capacity, s.Room(start.Add(time.Minute)), "it is not waited for")
}

func TestAFollowerThatTakesNothingIsWaitedForLonger(t *testing.T) {
	s := newSource(small, true)
	c := attach(t, s, outflow.Position{}, true, false)
	now := start.Add(time.Minute)
	s.Tick(now)
	require.Empty(t, s.Complaint(), "it has come")
	full(now, s)
	require.Equal(t, now.Add(small.Stalled), s.Deadline())
	require.True(t, c.take(t, s, 100))
	c.ack(t, s)
	require.Equal(t, 100, s.Room(now.Add(time.Minute)))
	require.Zero(t, s.Deadline())
	require.Zero(t, s.Blocked())
	s.Add(outflow.Stdout, make([]byte, 100))
	require.Zero(t, s.Room(now.Add(time.Minute)))
	require.Equal(t, now.Add(time.Minute), s.Blocked())
	s.Tick(now.Add(time.Minute + small.Stalled))
	require.Equal(t, "the reader took no output for 1h0m0s; the command goes on without it", s.Complaint())
	require.Equal(t, small.Capacity, s.Room(now.Add(2*time.Hour)))
	s.Add(outflow.Stdout, make([]byte, 1000))
	for c.take(t, s, outflow.FrameMax) {
		c.ack(t, s)
	}
	require.Equal(t, outflow.Position{Stdout: 1000}, c.received.Missing)
}

// A follower that comes while output waits, and then takes nothing, is not waited for without end.
func TestAFollowerThatComesAndTakesNothing(t *testing.T) {
	for name, come := range map[string]func(*testing.T, *outflow.Source){
		"late": func(*testing.T, *outflow.Source) {},
		"again": func(t *testing.T, s *outflow.Source) {
			c := attach(t, s, outflow.Position{}, true, true)
			require.Zero(t, s.Room(start.Add(time.Second)))
			s.Detach(c.id, start.Add(2*time.Second))
			require.Zero(t, s.Room(start.Add(2*time.Second)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(small, true)
			full(start, s)
			come(t, s)
			attach(t, s, outflow.Position{}, true, false)
			now := start.Add(5 * time.Second)
			require.Zero(t, s.Room(now))
			require.Equal(t, start, s.Blocked(), "output waits since then")
			if name == "again" {
				now = start.Add(time.Second) // since then it takes nothing
			}
			require.Equal(t, now.Add(small.Stalled), s.Deadline())
			s.Tick(now.Add(small.Stalled))
			require.Equal(t, small.Capacity, s.Room(now.Add(small.Stalled)))
		})
	}
}

func TestTheEndOfAFollowerIsTheEndOfTheWait(t *testing.T) {
	for name, relayed := range map[string]bool{"direct": false, "through a daemon": true} {
		t.Run(name, func(t *testing.T) {
			s := newSource(small, true)
			c := attach(t, s, outflow.Position{}, true, relayed)
			full(start, s)
			require.True(t, c.take(t, s, 300))
			c.ack(t, s)
			s.Detach(c.id, start.Add(time.Second))
			require.Empty(t, s.Complaint())
			if !relayed {
				require.Equal(t, small.Capacity, s.Room(start.Add(time.Second)))
				return
			}
			require.Equal(t, 300, s.Room(start.Add(time.Second)))
			require.Equal(t, start.Add(31*time.Second), s.Deadline())
			again := attach(t, s, c.received.At, true, true)
			full(start, s)
			s.End()
			s.Rest(again.id, make([]byte, 1000), func(f outflow.Frame) { again.keep(t, f) })
			require.Zero(t, again.received.Missing)
			require.EqualValues(t, small.Capacity+300, again.received.At.Stdout)
		})
	}
}

// A reader that connects again takes the place of its former connection, whose end changes nothing.
func TestAFollowerConnectsAgain(t *testing.T) {
	s := newSource(small, true)
	former := attach(t, s, outflow.Position{}, true, true)
	next := attach(t, s, outflow.Position{}, true, true)
	s.Detach(former.id, start)
	full(start, s)
	require.Zero(t, s.Room(start))
	require.True(t, next.take(t, s, 10))
	next.ack(t, s)
	require.Equal(t, 10, s.Room(start))
}

func TestWhatAReaderMayNotDo(t *testing.T) {
	s := newSource(small, false)
	s.Add(outflow.Stderr, []byte("abc"))
	_, err := s.Attach(outflow.Position{Stdout: 4}, false, false)
	require.EqualError(t, err, "the reader has 4 bytes of output, and there are 3")
	_, err = s.Attach(outflow.Position{Stdout: -1, Stderr: 1}, false, false)
	require.Error(t, err)
	c := attach(t, s, outflow.Position{}, true, false)
	require.EqualError(t, s.Ack(c.id, 1), "the reader acknowledges 1 bytes of output after 0, and 0 were sent")
	require.True(t, c.take(t, s, 2))
	require.Error(t, s.Ack(c.id, 3))
	require.NoError(t, s.Ack(c.id, 2))
	require.Error(t, s.Ack(c.id, 1))
	attach(t, s, outflow.Position{}, false, false)
	attach(t, s, outflow.Position{}, false, false)
	_, err = s.Attach(outflow.Position{}, false, false)
	require.EqualError(t, err, "the output has 3 readers already")
}

// A command that changes the stream with each byte takes no more memory than another, and no byte of the follower is lost.
func TestManyChangesOfTheStream(t *testing.T) {
	s := newSource(outflow.Standard(time.Hour), true)
	n := 0
	for ; s.Room(start) > 0; n++ {
		s.Add(outflow.Stream(n%2), []byte{byte(n)})
	}
	require.Less(t, n, 10_000)
	c := attach(t, s, outflow.Position{}, true, false)
	s.End()
	s.Rest(c.id, make([]byte, 10), func(f outflow.Frame) { c.keep(t, f) })
	require.Len(t, c.arrived, n)
	require.Zero(t, c.received.Missing)
}

func TestFramesThatAreRefused(t *testing.T) {
	good := outflow.Frame{At: outflow.Position{Stdout: 3, Stderr: 4}, Stream: outflow.Stderr, Output: []byte("text")}
	wire := append(good.AppendHeader(nil), good.Output...)
	read := func(b []byte) (outflow.Frame, error) {
		return outflow.ReadFrame(bytes.NewReader(b), make([]byte, outflow.FrameMax))
	}
	got, err := read(wire)
	require.NoError(t, err)
	require.Equal(t, good, got)
	_, err = read(nil)
	require.ErrorIs(t, err, io.EOF)
	for n := 1; n < len(wire); n++ {
		_, err = read(wire[:n])
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
	for place, b := range map[int]byte{0: 'x', 1: 2, 2: 0x80, 10: 0x80, 18: 1} {
		bad := bytes.Clone(wire)
		bad[place] = b
		_, err = read(bad)
		require.Error(t, err, "byte %d is %d", place, b)
	}
	var r outflow.Received
	_, err = r.Take(outflow.Frame{Output: []byte("ab")})
	require.NoError(t, err)
	_, err = r.Take(outflow.Frame{At: outflow.Position{Stdout: 1}, Output: []byte("b")})
	require.ErrorContains(t, err, "output came again")
	gap, err := r.Take(outflow.Frame{At: outflow.Position{Stdout: 2, Stderr: 5}})
	require.NoError(t, err)
	require.Equal(t, outflow.Position{Stderr: 5}, gap)
	_, err = r.Take(outflow.Frame{At: outflow.Position{Stdout: 2, Stderr: 5}})
	require.ErrorContains(t, err, "after its end")
}

func BenchmarkSource(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := newSource(outflow.Standard(time.Hour), true)
			id, err := s.Attach(outflow.Position{}, true, false)
			require.NoError(b, err)
			output, buffer := make([]byte, size), make([]byte, outflow.FrameMax)
			b.SetBytes(int64(size))
			for b.Loop() {
				s.Room(start)
				s.Add(outflow.Stdout, output)
				f, _ := s.Next(id, buffer)
				_ = s.Ack(id, f.At.Sum()+int64(len(f.Output)))
			}
		})
	}
}

// Readers along do not keep the follower out.
func TestTheFollowerHasAPlaceOfItsOwn(t *testing.T) {
	s := newSource(small, true)
	for range small.Readers {
		attach(t, s, outflow.Position{}, false, false)
	}
	_, err := s.Attach(outflow.Position{}, false, false)
	require.Error(t, err)
	attach(t, s, outflow.Position{}, true, false)
	_, err = s.Attach(outflow.Position{}, true, false)
	require.Error(t, err, "its former connection has not ended yet")
}

// A reader that says again and again that it follows the job, and takes nothing, holds up the command no longer than one that says it once.
func TestAFollowerIsWaitedForOnce(t *testing.T) {
	for name, relayed := range map[string]bool{"direct": false, "through a daemon": true} {
		t.Run(name, func(t *testing.T) {
			s := newSource(small, true)
			c := attach(t, s, outflow.Position{}, true, relayed)
			full(start, s)
			now := start
			for ; now.Before(start.Add(small.Stalled)); now = now.Add(20 * time.Second) {
				s.Tick(now)
				require.Zero(t, s.Room(now))
				next := attach(t, s, outflow.Position{}, true, relayed)
				s.Detach(c.id, now)
				c = next
			}
			s.Tick(now)
			require.Equal(t, "the reader took no output for 1h0m0s; the command goes on without it", s.Complaint())
			require.Equal(t, small.Capacity, s.Room(now))
		})
	}
}

// However many commands a job has, and however far its follower is behind, the memory is bounded. The output of a command that has ended
// finds room, and the next command waits.
func TestTheMemoryOfManyCommands(t *testing.T) {
	l := outflow.Standard(time.Hour)
	s := newSource(l, true)
	c := attach(t, s, outflow.Position{}, true, false)
	written, backlog := 0, 0
	write := func(most int) {
		for n := min(most, s.Room(start)); n > 0; n = min(most, s.Room(start)) {
			n = min(n, outflow.FrameMax)
			s.Add(outflow.Stdout, make([]byte, n))
			written, backlog, most = written+n, backlog+n, most-n
			require.LessOrEqual(t, s.Memory(), l.Capacity+l.Ending)
		}
	}
	read := func(until int) {
		for buffer := make([]byte, outflow.FrameMax); backlog > until; {
			f, ok := s.Next(c.id, buffer)
			require.True(t, ok)
			_, err := c.received.Take(f)
			require.NoError(t, err)
			require.NoError(t, s.Ack(c.id, c.received.At.Sum()))
			backlog -= len(f.Output)
		}
	}
	for range 20 {
		write(10 << 20)
		require.Equal(t, l.Capacity, backlog, "the command waits")
		s.Ending(true)
		write(10 << 20)
		require.Equal(t, l.Capacity+l.Ending, backlog, "what is left of it does not wait")
		s.Ending(false)
		require.Zero(t, s.Room(start), "the next command waits")
		read(l.Capacity - 100)
		write(100)
		require.Equal(t, l.Capacity, s.Memory())
		read(0)
		s.Ending(true)
		write(l.Capacity)
		s.Ending(false)
		read(0)
		write(l.Capacity)
		require.Equal(t, l.Capacity, s.Memory(), "what was acknowledged needs none")
		read(0)
	}
	require.Zero(t, c.received.Missing)
	require.EqualValues(t, written, c.received.At.Sum())
}

// What is left of a command that has changed the stream with each byte is taken, too.
func TestTheEndOfManyChangesOfTheStream(t *testing.T) {
	s := newSource(outflow.Standard(time.Hour), true)
	n := 0
	for ; s.Room(start) > 0; n++ {
		s.Add(outflow.Stream(n%2), []byte{byte(n)})
	}
	s.Ending(true)
	for i := range 100 {
		require.Positive(t, s.Room(start))
		s.Add(outflow.Stream((n+i)%2), make([]byte, 40_000))
	}
	s.End()
	c := attach(t, s, outflow.Position{}, true, false)
	s.Rest(c.id, make([]byte, outflow.FrameMax), func(f outflow.Frame) {
		_, err := c.received.Take(f)
		require.NoError(t, err)
	})
	require.Zero(t, c.received.Missing)
	require.EqualValues(t, n+100*40_000, c.received.At.Sum())
}

// What processes of a command write after its end waits for the follower no longer than the caller says.
func TestTheOutputOfAnEndedCommandWaitsNoLonger(t *testing.T) {
	for name, comes := range map[string]bool{"it is there": true, "it has not come": false} {
		t.Run(name, func(t *testing.T) {
			s := newSource(small, true)
			if comes {
				attach(t, s, outflow.Position{}, true, false)
			}
			full(start, s)
			s.Ending(true)
			require.Zero(t, s.Room(start))
			s.Hurry()
			require.Equal(t, small.Capacity, s.Room(start))
			require.Equal(t, "no reader has taken the output of a command that has ended; the job goes on without one", s.Complaint())
			require.Zero(t, s.Blocked())
			require.Zero(t, s.Deadline())
		})
	}
	s := newSource(small, true)
	attach(t, s, outflow.Position{}, true, false)
	s.Ending(true)
	s.Hurry()
	require.Equal(t, small.Capacity, s.Room(start), "the follower is not given up while there is room")
	s.Ending(false)
	full(start, s)
	require.Zero(t, s.Room(start), "the next command waits")
}
