package follow

import (
	"context"
	"encoding/json"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/outflow"
	"lockstep/core/wire"
	"lockstep/edge/outputs/end"
)

// liveJob is a Live with its stream and its timers in the hands of a test.
type liveJob struct {
	*Live
	*shown
	pieces chan Piece
	timers []chan time.Time
}

func (l *liveJob) ShowChange(c Change) { l.Show(c.Entries) }

func newLiveJob(t *testing.T, follows bool) *liveJob { return newKeptJob(t, follows, "") }

// newKeptJob is a liveJob whose files have some of standard output.
func newKeptJob(t *testing.T, follows bool, kept string) *liveJob {
	d := newOutputSocket(t, func(_ int, c net.Conn, h end.Hello) {
		if h.Kept.Stream == outflow.Stderr {
			sendKept(c, *h.Kept, "", 1)
			return
		}
		sendKept(c, *h.Kept, kept, 1)
	})
	l := &liveJob{shown: showTo(t, d.session), pieces: make(chan Piece)}
	stream := &Stream{Pieces: l.pieces, taken: make(chan struct{}, 1), cancel: func() {}}
	stream.connected.Store(true)
	l.Live = &Live{View: l, Follows: follows, Open: func() *Stream { return stream }, After: func(time.Duration) <-chan time.Time {
		timer := make(chan time.Time, 1)
		l.timers = append(l.timers, timer)
		return timer
	}}
	return l
}

func (l *liveJob) piece(f outflow.Frame) (done bool) {
	done = l.Piece(Piece{Frame: f})
	select {
	case <-l.taken():
	default:
	}
	return done
}

func (l *liveJob) taken() chan struct{} {
	if l.stream == nil {
		return nil
	}
	return l.stream.taken
}

func running(entries []LogEntry) Change { return Change{Status: "running", Entries: entries} }

var ended = Change{Status: "success", Final: true}

func at(place int) outflow.Position { return outflow.Position{Stdout: int64(place)} }

// The log of a job with a small bound has lost output before the client that follows the job is connected. Nothing is missing.
func TestAFollowerWaitsForItsStreamWhenTheLogHasLostOutput(t *testing.T) {
	all := strings.Join(eightLines, "")
	l := newLiveJob(t, true)
	require.False(t, l.Change(Change{Status: "queued"}))
	l.Start()
	require.False(t, l.Change(running(lossyLog(eightLines, 1, 2))))
	require.Nil(t, l.Changes(make(chan Update)), "it is held")
	require.Empty(t, l.out.String())
	require.False(t, l.piece(outflow.Frame{Output: []byte(all)}))
	require.Equal(t, all, l.out.String())
	require.False(t, l.Change(ended), "the end of the stream is to come")
	require.True(t, l.piece(outflow.Frame{At: at(len(all))}))
	require.NoError(t, l.Finish(nil))
	require.Empty(t, l.Losses())
}

// A reader has come to the process of a job before its end: what the log has lost is on its way.
func TestAReaderWaitsForItsStreamAtTheEndOfAJob(t *testing.T) {
	all := strings.Join(eightLines, "")
	l := newLiveJob(t, false)
	require.False(t, l.Change(running(nil)))
	require.False(t, l.Change(Change{Status: "success", Entries: lossyLog(eightLines, 1, 2)}))
	require.Empty(t, l.out.String())
	require.False(t, l.piece(outflow.Frame{Output: []byte(all)}))
	require.False(t, l.piece(outflow.Frame{At: at(len(all))}))
	require.Equal(t, all, l.out.String())
	require.True(t, l.Change(ended))
	require.Empty(t, l.Losses())
}

// The setting keep_output keeps the output of a job, whose process then takes no follower: the files are asked before the log is held.
func TestALogWhoseOutputIsKeptIsNotHeld(t *testing.T) {
	all := strings.Join(eightLines, "")
	l := newKeptJob(t, true, all)
	l.Start()
	require.False(t, l.Change(running(lossyLog(eightLines, 1, 2))))
	require.Empty(t, l.timers)
	require.Equal(t, all, l.out.String())
	require.True(t, l.Change(ended))
	require.Empty(t, l.Losses())

	l = newKeptJob(t, true, all[:27]) // up to output_limit
	l.Start()
	require.False(t, l.Change(running(lossyLog(eightLines, 1, 2))))
	require.Len(t, l.timers, 1)
}

// The follower of a job of a cluster loses its connection at the end of the job, whose process waits for it: it comes back.
func TestAFollowerComesBackAfterTheEndOfTheJob(t *testing.T) {
	all := strings.Join(eightLines, "")
	for _, lostFirst := range []bool{true, false} {
		l := newLiveJob(t, true)
		l.Start()
		require.False(t, l.piece(outflow.Frame{Output: []byte(all[:20])}))
		require.False(t, l.Change(running(lossyLog(eightLines, 1, 2))))
		if lostFirst {
			require.False(t, l.Piece(Piece{Lost: true}))
			require.False(t, l.Change(ended), "the process waits for the follower")
		} else {
			require.False(t, l.Change(ended))
			require.False(t, l.Piece(Piece{Lost: true}), "the process waits for the follower")
		}
		require.NotNil(t, l.Timer())
		require.False(t, l.piece(outflow.Frame{At: at(20), Output: []byte(all[20:])}))
		require.True(t, l.piece(outflow.Frame{At: at(len(all))}))
		require.NoError(t, l.Finish(nil))
		require.Equal(t, all, l.out.String())
		require.Empty(t, l.Losses())
	}
}

// The process of a job waits for its follower only if the log lacks output.
func TestAFollowerThatLosesItsConnectionAtTheEndHasTheRestInTheLog(t *testing.T) {
	l := newLiveJob(t, true)
	l.Start()
	require.False(t, l.piece(outflow.Frame{Output: []byte("one\n")}))
	require.False(t, l.Piece(Piece{Lost: true}))
	require.True(t, l.Change(ended))
}

// Without a stream the log is shown after a while, and is not held again.
func TestALogIsHeldForAWhileOnly(t *testing.T) {
	l := newLiveJob(t, false)
	require.False(t, l.Change(running(lossyLog(eightLines, 1, 2))))
	require.Len(t, l.timers, 1)
	require.False(t, l.TimeIsUp())
	require.Equal(t, "one\nseven\neight\n", l.out.String())
	require.NotNil(t, l.Changes(make(chan Update)))
	require.EqualValues(t, "output is missing", l.Losses())
	require.True(t, l.Change(ended))
}

// A reader that comes late gets the beginning from the log, hears what is missing, and gets the rest from the stream.
func TestALateReaderGetsTheBeginningFromTheLog(t *testing.T) {
	all := strings.Join(eightLines, "")
	l := newLiveJob(t, false)
	require.False(t, l.Change(running(append(lossyLog(eightLines[:7], 2, 1), message("said")))))
	begin := strings.Index(all, "six")
	require.False(t, l.piece(outflow.Frame{At: at(begin), Output: []byte(all[begin:])}))
	require.Equal(t, "one\ntwo\nsaid\nsix\nseven\neight\n", l.out.String())
	require.Contains(t, l.err.String(), "missing here: 16 bytes of standard output\n")
	require.False(t, l.Change(ended))
	require.True(t, l.piece(outflow.Frame{At: at(len(all))}))
	require.EqualValues(t, "output is missing", l.Losses())
}

// The process of the job dies: what it has sent, and its log has not, was shown; what neither has is missing.
func TestAStreamThatBreaksOff(t *testing.T) {
	all := strings.Join(eightLines, "")
	l := newLiveJob(t, true)
	l.Start()
	require.False(t, l.piece(outflow.Frame{Output: []byte(all[:20])}))
	require.False(t, l.Piece(Piece{Lost: true}))
	log := append(lossyLog(eightLines, 1, 2), LogEntry{Type: job.LogCut, Payload: json.RawMessage("null")})
	require.False(t, l.Change(running(log)))
	require.True(t, l.Change(ended), "nothing comes any more")
	l.ShowRest(log)
	l.shown.Finish()
	require.Equal(t, all[:20]+all[28:], l.out.String())
	require.Contains(t, l.err.String(), job.CutText)
	require.Contains(t, l.err.String(), "missing in all: 8 of 40 bytes of standard output.")
}

// After a failover the log is shorter than what the former master has shown of it. That its end is unknown is told all the same.
func TestALogThatIsShorterAfterAFailover(t *testing.T) {
	l := newLiveJob(t, true)
	l.Start()
	require.False(t, l.piece(outflow.Frame{Output: []byte("all of it\n")}))
	require.False(t, l.Piece(Piece{Lost: true}))
	require.True(t, l.Change(Change{Status: "error", Final: true}))
	l.ShowRest([]LogEntry{{Serial: 1, Type: job.LogMessage, Payload: json.RawMessage(`"[output-cut] null"`)}})
	l.shown.Finish()
	require.Equal(t, "all of it\n", l.out.String())
	require.EqualValues(t, "output may be missing", l.Losses())
}

// What a slow writer has not written does not count as silence of the process.
func TestTheEndIsAwaitedAnewAfterEachPiece(t *testing.T) {
	l := newLiveJob(t, true)
	l.Start()
	require.False(t, l.piece(outflow.Frame{Output: []byte("one\n")}))
	require.False(t, l.Change(ended))
	require.Len(t, l.timers, 1)
	l.timers[0] <- time.Time{}
	require.False(t, l.piece(outflow.Frame{At: at(4), Output: []byte("two\n")}))
	require.Empty(t, l.Timer())
	require.True(t, l.piece(outflow.Frame{At: at(8)}))
}

// A stream connects again at its place.
func TestAStreamConnectsAgainAtItsPlace(t *testing.T) {
	d := newOutputSocket(t, func(n int, c net.Conn, h end.Hello) {
		if n == 0 {
			return // no process has come
		}
		sendFrame(c, outflow.Frame{At: h.At, Stream: outflow.Stdout, Output: []byte("abc")})
		if n == 2 {
			sendFrame(c, outflow.Frame{At: at(6)})
		}
		_, _ = c.Read(make([]byte, outflow.AckSize))
	})
	s := OpenStream(t.Context(), d.session, 12, true)
	defer s.Close()
	var got []Piece
	for len(got) == 0 || got[len(got)-1].Lost || !got[len(got)-1].Ends() {
		p := <-s.Pieces
		if !p.Lost {
			p.Output = append([]byte{}, p.Output...)
			s.Taken()
		}
		got = append(got, p)
	}
	require.Equal(t, []end.Hello{{Job: 12, Follows: true}, {Job: 12, Follows: true}, {Job: 12, Follows: true, At: at(3)}}, d.asked())
	require.Len(t, got, 4)
	require.True(t, got[1].Lost)
	require.Equal(t, at(3), got[2].At)
}

// While a follower whose daemon has ended connects again, the stream is expected, so that the log is held; another reader goes on.
func TestAFollowerIsExpectedBack(t *testing.T) {
	end1 := make(chan struct{})
	d := newOutputSocket(t, func(n int, c net.Conn, _ end.Hello) {
		if n == 0 {
			<-end1
			return
		}
		_, _ = c.Read(make([]byte, 1))
	})
	s := OpenStream(t.Context(), d.session, 12, true)
	defer s.Close()
	require.True(t, s.Connected())
	close(end1)
	for len(d.asked()) < 2 {
		require.True(t, s.Connected())
		runtime.Gosched()
	}

	d = newOutputSocket(t, func(int, net.Conn, end.Hello) {})
	other := OpenStream(t.Context(), d.session, 12, false)
	defer other.Close()
	for other.Connected() {
		runtime.Gosched()
	}
}

// Taken returns also when the reading has ended: an interrupted reader may still be writing a piece.
func TestAPieceIsTakenAfterTheEndOfTheReading(t *testing.T) {
	ended := make(chan struct{})
	d := newOutputSocket(t, func(_ int, c net.Conn, h end.Hello) {
		sendFrame(c, outflow.Frame{At: h.At, Output: []byte("abc")})
		_, _ = c.Read(make([]byte, 1))
		close(ended)
	})
	s := OpenStream(t.Context(), d.session, 12, true)
	require.False(t, (<-s.Pieces).Lost)
	s.Close()
	<-ended
	taken := make(chan struct{})
	go func() {
		s.Taken()
		close(taken)
	}()
	select {
	case <-taken:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for ever")
	}
}

// A piece that comes with the end of the wait for it is shown.
func TestAPieceComesWithTheEndOfTheWaitForIt(t *testing.T) {
	all := strings.Join(eightLines, "")
	l := newLiveJob(t, true)
	l.Start()
	require.False(t, l.Change(running(lossyLog(eightLines, 1, 2))))
	pieces := make(chan Piece, 1)
	l.stream.Pieces = pieces
	pieces <- Piece{Frame: outflow.Frame{Output: []byte(all)}}
	require.False(t, l.TimeIsUp())
	require.Equal(t, all, l.out.String())
	require.Empty(t, l.Losses())
}

// Follow ends while it holds a log.
func TestFollowEndsWithItsContext(t *testing.T) {
	d := newOutputSocket(t, func(_ int, c net.Conn, h end.Hello) {
		if h.Kept != nil {
			sendKept(c, *h.Kept, "", 1)
			return
		}
		_, _ = c.Read(make([]byte, 1))
	})
	var entries [][]any
	for _, e := range lossyLog(eightLines, 1, 2) {
		entries = append(entries, []any{e.Serial, []int{7, 0}, e.Type, e.Payload})
	}
	payload, err := wire.EncodeResult([]any{[]any{"running", []string{"running"}}, entries})
	require.NoError(t, err)
	serveAnswer(t, d.session.Path, payload)
	ctx, cancel := context.WithCancel(t.Context())
	l := &Live{View: &liveJob{shown: showTo(t, d.session)}, After: func(time.Duration) <-chan time.Time {
		cancel()
		return nil
	}, Open: func() *Stream { return OpenStream(ctx, d.session, 12, false) }}
	_, err = l.Follow(ctx, &Follower{Session: d.session, ID: 12}, &sync.Mutex{})
	require.ErrorIs(t, err, context.Canceled)
}

// The end of a job is shown after all of its output, although the daemon tells it before.
func TestTheEndOfAJobIsShownAfterItsOutput(t *testing.T) {
	l := newLiveJob(t, true)
	order := &endOrder{shown: l.shown}
	l.View = order
	l.Start()
	require.False(t, l.piece(outflow.Frame{Output: []byte("one\n")}))
	require.False(t, l.Change(ended))
	require.False(t, l.piece(outflow.Frame{At: at(4), Output: []byte("two\n")}))
	require.True(t, l.piece(outflow.Frame{At: at(8)}))
	require.NoError(t, l.Finish(nil))
	require.Equal(t, []string{"one\ntwo\n"}, order.before)
}

// endOrder notes what was written before the end of the job.
type endOrder struct {
	*shown
	before []string
}

func (o *endOrder) ShowChange(c Change) {
	if c.Final {
		o.before = append(o.before, o.out.String())
	}
}

// A connection that is lost after the end of the job begins the wait anew. The timer of the former wait may have run out, and then nothing
// else would end the new one.
func TestTheWaitBeginsAnewWithALostConnection(t *testing.T) {
	l := newLiveJob(t, true)
	l.Start()
	require.False(t, l.piece(outflow.Frame{Output: []byte("one\n")}))
	require.False(t, l.Change(running(lossyLog(eightLines, 1, 2))))
	require.False(t, l.Change(ended))
	before := len(l.timers)
	require.False(t, l.Piece(Piece{Lost: true}))
	require.Len(t, l.timers, before+1)
}
