package outflow

import (
	"fmt"
	"time"
)

// Limits bound what a Source keeps and how long its follower is waited for.
type Limits struct {
	Capacity int           // of the latest output, in bytes
	InFlight int           // bytes that may be under way to one reader; one frame may be, however large
	Frames   int           // that may be under way to one reader, because each takes memory of the kernel, however small it is
	Ending   int           // bytes that are kept for the follower beyond Capacity when a command has ended: what is in its pipes
	Readers  int           // at a time, without the follower
	Stalled  time.Duration // how long the command waits for a follower that takes nothing
	Absent   time.Duration // how long the command waits for a follower that has not come, or that comes back
}

// Standard is the Limits of a job process, but for Stalled, which is the setting `output_wait`.
func Standard(stalled time.Duration) Limits {
	return Limits{Capacity: 1 << 20, InFlight: 192 << 10, Frames: 32, Ending: 5 << 20, Readers: 16, Stalled: stalled, Absent: 30 * time.Second}
}

// Source is the output of a job in its process, with its readers.
//
// Output that finds no room is blocked: the caller reads no more from the command, and tries again after the next event. There is
// no room while the window is full of output that the follower has not acknowledged.
//
// It keeps at most Capacity + Ending bytes, whatever the number of opcodes.
type Source struct {
	limits  Limits
	window  window
	readers map[uint64]*reader
	next    uint64
	ending  bool // the command has ended
	hurried bool // Hurry was called since
	ended   bool

	follower  followerState
	reader    *reader   // the follower, in followerReads
	from      int64     // the sum from which on the follower lacks output, in followerExpected
	absent    time.Time // the end of the wait in followerExpected
	stalled   time.Time // the end of the wait for a follower to take something, from when it was first there; zero: no output is blocked
	blocked   time.Time // since then output waits for the follower; zero: it does not
	complaint string    // why the follower is not waited for any more; taken by Complaint
}

// followerState is how far the follower is.
type followerState uint8

const (
	noFollower       followerState = iota // there is none, or it is not waited for any more
	followerExpected                      // it is to come, or to come back
	followerReads
)

// reader is how far one reader is: acked <= sent.
type reader struct {
	acked, sent int64
	underWay    []int64 // the sums after the frames that are not acknowledged
	relayed     bool    // it reads through a daemon, whose end is not the reader's end
}

// NewSource makes a source without output. at is the place after the output of former processes of the job. followed says that a follower
// will come, which wants all output from there on. It is waited for from Open on.
func NewSource(l Limits, at Position, followed bool) *Source {
	w := window{capacity: l.Capacity, ending: l.Ending, begin: at.Sum(), end: at.Sum(), total: at}
	s := &Source{limits: l, window: w, readers: map[uint64]*reader{}}
	if followed {
		s.follower = followerExpected
	}
	return s
}

// Open says that readers can come from now on.
func (s *Source) Open(now time.Time) {
	if s.follower == followerExpected {
		s.expect(0, now)
	}
}

// Expects reports whether the follower is to come, or to come back.
func (s *Source) Expects() bool { return s.follower == followerExpected }

func (s *Source) expect(from int64, now time.Time) {
	s.follower, s.reader, s.from, s.absent = followerExpected, nil, from, now.Add(s.limits.Absent)
}

// Attach adds a reader that has all output before a place. follows says that it is the follower; relayed, that it reads through a
// daemon. A second follower takes the place of the first, which is then a reader as all others: the first has lost its connection. The
// command waits for it no longer than for the first, unless it takes output. The error says why the reader is not taken.
func (s *Source) Attach(at Position, follows, relayed bool) (id uint64, err error) {
	from, places := at.Sum(), s.limits.Readers
	follows = follows && s.follower != noFollower
	if follows {
		places++ // the others do not keep the follower out
	}
	switch {
	case at.Stdout < 0 || at.Stderr < 0 || from > s.window.end:
		return 0, fmt.Errorf("the reader has %d bytes of output, and there are %d", from, s.window.end)
	case len(s.readers) >= places:
		return 0, fmt.Errorf("the output has %d readers already", len(s.readers))
	}
	r := &reader{acked: from, sent: from, relayed: relayed}
	s.next++
	s.readers[s.next] = r
	if follows {
		s.follower, s.reader, s.absent = followerReads, r, time.Time{}
	}
	return s.next, nil
}

// Detach removes a reader whose connection has ended.
func (s *Source) Detach(id uint64, now time.Time) {
	r := s.readers[id]
	delete(s.readers, id)
	if r == nil || s.reader != r {
		return
	}
	if r.relayed && !s.ended {
		s.expect(r.acked, now)
		return
	}
	s.release("")
}

// release ends the wait for the follower.
func (s *Source) release(complaint string) {
	s.follower, s.reader, s.complaint = noFollower, nil, complaint
	s.absent, s.stalled, s.blocked = time.Time{}, time.Time{}, time.Time{}
}

// Room is how many bytes Add takes now. With none the output is blocked, and the wait for the follower begins.
func (s *Source) Room(now time.Time) int {
	room := s.limits.Capacity
	if s.follower != noFollower {
		room = s.window.room(s.lacked(), s.ending)
	}
	if room <= 0 && s.hurried {
		s.release("no reader has taken the output of a command that has ended; the job goes on without one")
		room = s.limits.Capacity
	}
	if room > 0 {
		s.blocked, s.stalled = time.Time{}, time.Time{}
		return room
	}
	if s.blocked.IsZero() {
		s.blocked = now
	}
	if s.follower == followerReads && s.stalled.IsZero() { // it may have come since
		s.stalled = now.Add(s.limits.Stalled)
	}
	return 0
}

// lacked is the sum from which on output stays for the follower.
func (s *Source) lacked() int64 {
	switch s.follower {
	case followerExpected:
		return max(s.from, s.window.begin)
	case followerReads:
		return max(s.reader.acked, s.window.begin)
	default:
		return s.window.end
	}
}

// Add adds output of a stream, at most Room bytes.
func (s *Source) Add(stream Stream, output []byte) { s.window.add(stream, output, s.lacked()) }

// Ending says whether the command has ended: what is left in its pipes is taken although a follower has not taken the former output, so
// that the end of a command does not wait for a reader. The next command starts when Room is not 0: the follower lacks less than Capacity.
func (s *Source) Ending(ends bool) { s.ending, s.hurried = ends, false }

// Hurry says, after Ending, that output of a command that has ended waits no longer: if it finds no room, the follower is given up.
func (s *Source) Hurry() { s.hurried = true }

// End says that no output comes any more.
func (s *Source) End() { s.ended = true }

// Next is the next frame for a reader; its output is copied into the buffer. ok is false if there is none now: the reader has all, or as
// much is under way as may be.
func (s *Source) Next(id uint64, buffer []byte) (f Frame, ok bool) {
	r := s.readers[id]
	if r == nil {
		return Frame{}, false
	}
	from := max(r.sent, s.window.begin)
	if from == s.window.end {
		return Frame{At: s.window.total}, s.ended
	}
	buffer = buffer[:min(len(buffer), FrameMax)]
	tooMuch := from+int64(len(buffer)) > r.acked+int64(s.limits.InFlight) || len(r.underWay) >= s.limits.Frames
	if tooMuch && len(r.underWay) > 0 {
		return Frame{}, false
	}
	var n int
	f.Stream, f.At, n = s.window.read(from, buffer)
	f.Output = buffer[:n]
	r.sent = from + int64(n)
	r.underWay = append(r.underWay, r.sent)
	return f, true
}

// Rest is all frames that a reader lacks, with the end, for a source that has ended. Each calls with a frame whose output is valid during
// the call.
func (s *Source) Rest(id uint64, buffer []byte, each func(Frame)) {
	r := s.readers[id]
	if r == nil {
		return
	}
	for {
		r.acked, r.underWay = r.sent, nil
		f, ok := s.Next(id, buffer)
		if !ok {
			return
		}
		each(f)
		if f.Ends() {
			return
		}
	}
}

// Ack takes a reader's acknowledgement. The error says that it is not possible.
func (s *Source) Ack(id uint64, sum int64) error {
	r := s.readers[id]
	if r == nil {
		return nil
	}
	if sum < r.acked || sum > r.sent {
		return fmt.Errorf("the reader acknowledges %d bytes of output after %d, and %d were sent", sum, r.acked, r.sent)
	}
	r.acked = sum
	for len(r.underWay) > 0 && r.underWay[0] <= sum {
		r.underWay = r.underWay[1:]
	}
	return nil
}

// Deadline is when Tick is due; the zero time: never.
func (s *Source) Deadline() time.Time {
	if s.absent.IsZero() || !s.stalled.IsZero() && s.stalled.Before(s.absent) {
		return s.stalled
	}
	return s.absent
}

// Tick ends a wait whose time is over.
func (s *Source) Tick(now time.Time) {
	isOver := func(end time.Time) bool { return !end.IsZero() && !now.Before(end) }
	switch {
	case isOver(s.stalled):
		s.release(fmt.Sprintf("the reader took no output for %v; the command goes on without it", s.limits.Stalled))
	case isOver(s.absent):
		s.release(fmt.Sprintf("no reader came within %v; the command goes on without one", s.limits.Absent))
	}
}

// Blocked is since when output waits for the follower; the zero time: it does not.
func (s *Source) Blocked() time.Time { return s.blocked }

// Complaint returns, once, why the follower is not waited for any more; "" if it is, or if it has ended by itself.
func (s *Source) Complaint() string {
	complaint := s.complaint
	s.complaint = ""
	return complaint
}
