package follow

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/job"
	"lockstep/core/outflow"
	"lockstep/core/rawjson"
	"lockstep/core/wire"
	"lockstep/edge/outputs/end"
	"lockstep/persistence"
)

// outputSocket is a daemon's socket for output: serve gets each connection, with its number from 0, after its first line.
type outputSocket struct {
	*testing.T
	session *client.Session
	mu      sync.Mutex
	hellos  []end.Hello
}

func newOutputSocket(t *testing.T, serve func(n int, c net.Conn, h end.Hello)) *outputSocket {
	return newOutputSocketIn(t, t.TempDir(), serve)
}

func newOutputSocketIn(t *testing.T, dir string, serve func(n int, c net.Conn, h end.Hello)) *outputSocket {
	s := &outputSocket{T: t, session: &client.Session{Path: filepath.Join(dir, "s"), After: soon}}
	l, err := net.Listen("unix", filepath.Join(dir, persistence.OutputSocket))
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				line, err := bufio.NewReader(c).ReadBytes('\n')
				var h end.Hello
				if err != nil || json.Unmarshal(line, &h) != nil {
					return
				}
				s.mu.Lock()
				n := len(s.hellos)
				s.hellos = append(s.hellos, h)
				s.mu.Unlock()
				serve(n, c, h)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return s
}

// soon is time.After, in less time.
func soon(d time.Duration) <-chan time.Time { return time.After(d / 100) }

func (s *outputSocket) asked() []end.Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]end.Hello{}, s.hellos...)
}

func sendFrame(c net.Conn, f outflow.Frame) {
	_, _ = c.Write(append(f.AppendHeader(nil), f.Output...))
}

func keptFrame(s outflow.Stream, place int64, output string) outflow.Frame {
	f := outflow.Frame{Stream: s, At: outflow.Position{Stdout: place}, Output: []byte(output)}
	if s == outflow.Stderr {
		f.At = outflow.Position{Stderr: place}
	}
	if output == "" {
		f.Stream = 0
	}
	return f
}

// sendKept sends what there is of a part, in frames of some bytes.
func sendKept(c net.Conn, part end.Kept, kept string, size int64) {
	place := part.From
	for to := min(part.To, int64(len(kept))); place < to; {
		n := min(size, to-place)
		sendFrame(c, keptFrame(part.Stream, place, kept[place:place+n]))
		place += n
	}
	sendFrame(c, keptFrame(part.Stream, place, ""))
}

// lossyLog is a log with the first and the last lines of what a command has written to standard output.
func lossyLog(lines []string, first, last int) []LogEntry {
	var entries []LogEntry
	add := func(typ string, payload json.RawMessage) {
		entries = append(entries, LogEntry{Serial: int64(len(entries) + 1), Type: typ, Payload: payload})
	}
	for _, l := range lines[:first] {
		add(job.EncodeOutput(job.LogStdout, []byte(l)))
	}
	if lost := lines[first : len(lines)-last]; len(lost) > 0 {
		note := job.MissingOutput{Missing: job.AmountOf(job.LogStdout, []byte(strings.Join(lost, "")))}
		note.Written = job.AmountOf(job.LogStdout, []byte(strings.Join(lines[:len(lines)-last], "")))
		payload, err := json.Marshal(note)
		if err != nil {
			panic(err)
		}
		add(job.LogMissing, payload)
	}
	for _, l := range lines[len(lines)-last:] {
		add(job.EncodeOutput(job.LogStdout, []byte(l)))
	}
	return entries
}

var eightLines = []string{"one\n", "two\n", "three\n", "four\n", "five\n", "six\n", "seven\n", "eight\n"}

// shown are the views of a job, with what they have written.
type shown struct {
	Views
	out, err bytes.Buffer
}

func showTo(t *testing.T, session *client.Session) *shown {
	s := &shown{}
	streams := cli.Streams{Out: &s.out, Err: &s.err, Now: func() time.Time { return time.Unix(7, 0).UTC() }}
	s.Views = ViewsOf(t.Context(), &cli.Globals{Streams: streams}, session, streams, 12)
	return s
}

func TestTheFilesHaveWhatTheLogHasLost(t *testing.T) {
	all := strings.Join(eightLines, "")
	d := newOutputSocket(t, func(_ int, c net.Conn, h end.Hello) { sendKept(c, *h.Kept, all, 3) })
	s := showTo(t, d.session)
	s.Show(lossyLog(eightLines, 1, 2))
	s.Finish()
	require.Equal(t, all, s.out.String())
	require.Empty(t, s.err.String())
	require.Empty(t, s.Losses())
	require.Equal(t, []end.Hello{{Job: 12, Kept: &end.Kept{From: 4, To: 28}}}, d.asked())

	s = showTo(t, d.session)
	s.JSON = true
	s.Show(lossyLog(eightLines, 1, 2))
	s.Finish()
	require.Empty(t, s.Losses())
	entry := func(serial, word string) string {
		at := `"1970-01-01T00:00:07.000000Z"`
		if serial != "" {
			serial, at = `"serial":`+serial+`,`, "null"
		}
		return `{"event":"log","job":12,` + serial + `"time":` + at + `,"type":"stdout","payload":"` + word + `"}` + "\n"
	}
	require.Equal(t, entry("1", "one")+entry("", "two")+entry("", "three")+entry("", "four")+entry("", "five")+entry("", "six")+
		entry("3", "seven")+entry("4", "eight"), s.out.String())
}

func TestALogThatLacksNothingAsksForNothing(t *testing.T) {
	d := newOutputSocket(t, func(int, net.Conn, end.Hello) {})
	s := showTo(t, d.session)
	s.Show(lossyLog(eightLines, 8, 0))
	s.Finish()
	require.Equal(t, strings.Join(eightLines, ""), s.out.String())
	require.Empty(t, d.asked())
}

// The daemon ends within a part, and another one goes on.
func TestKeptOutputGoesOnAfterTheDaemonHasEnded(t *testing.T) {
	all := strings.Join(eightLines, "")
	d := newOutputSocket(t, func(n int, c net.Conn, h end.Hello) {
		if n < 3 {
			sendFrame(c, keptFrame(0, h.Kept.From, all[h.Kept.From:h.Kept.From+2]))
			_, _ = c.Write(keptFrame(0, h.Kept.From+2, "xx").AppendHeader(nil)) // a part of a frame
			return
		}
		sendKept(c, *h.Kept, all, 100)
	})
	s := showTo(t, d.session)
	s.Show(lossyLog(eightLines, 1, 2))
	s.Finish()
	require.Equal(t, all, s.out.String())
	require.Empty(t, s.Losses())
	require.Len(t, d.asked(), 4)
	require.EqualValues(t, 10, d.asked()[3].Kept.From)
}

func TestWhatTheFilesLackIsMissing(t *testing.T) {
	all := strings.Join(eightLines, "")
	log := lossyLog(eightLines, 1, 2)
	for name, c := range map[string]struct {
		serve func(c net.Conn, h end.Hello)
		had   int64
	}{
		"an end at once":           {func(c net.Conn, h end.Hello) { sendKept(c, *h.Kept, "", 100) }, 0},
		"the connection is closed": {func(net.Conn, end.Hello) {}, 0},
		"a part of it":             {func(c net.Conn, h end.Hello) { sendKept(c, *h.Kept, all[:20], 7) }, 16},
		"another place":            {func(c net.Conn, h end.Hello) { sendFrame(c, keptFrame(0, h.Kept.From+1, "x")) }, 0},
		"another stream":           {func(c net.Conn, h end.Hello) { sendFrame(c, keptFrame(1, h.Kept.From, "x")) }, 0},
		"more than was asked for":  {func(c net.Conn, h end.Hello) { sendFrame(c, keptFrame(0, h.Kept.From, all)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newOutputSocket(t, func(_ int, conn net.Conn, h end.Hello) { c.serve(conn, h) })
			s := showTo(t, d.session)
			s.Show(log)
			s.Finish()
			require.Equal(t, all[:4+c.had]+all[28:], s.out.String())
			require.EqualValues(t, "output is missing", s.Losses())
			if c.had == 0 {
				require.Contains(t, s.err.String(), "job 12: missing here: 5 lines (24 bytes) of standard output, after line 1\n")
				require.Contains(t, s.err.String(), "missing in all: 5 of 8 lines of standard output (24 of 40 bytes)")
				return
			}
			require.Contains(t, s.err.String(), "job 12: missing here: 8 bytes of standard output\n")
			require.Contains(t, s.err.String(), "missing in all: 8 of 40 bytes of standard output. ")
		})
	}
}

// The process of a job has died: the files have output that it had not saved in the log.
func TestTheFilesHaveWhatADeadProcessHadNotLogged(t *testing.T) {
	all := strings.Join(eightLines, "")
	d := newOutputSocket(t, func(_ int, c net.Conn, h end.Hello) {
		if h.Kept.Stream == outflow.Stderr {
			sendKept(c, *h.Kept, "", 100)
			return
		}
		sendKept(c, *h.Kept, all[:37], 100)
	})
	log := append(lossyLog(eightLines[:3], 3, 0), LogEntry{Type: job.LogCut, Payload: json.RawMessage("null")})
	for _, streamed := range []string{"", all[:6]} {
		s := showTo(t, d.session)
		if streamed != "" {
			s.ShowPiece(Piece{Frame: outflow.Frame{Output: []byte(streamed)}})
			s.Show(log)
			s.ShowRest(log)
		} else {
			s.Show(log)
		}
		s.Finish()
		require.Equal(t, all[:37], s.out.String())
		require.EqualValues(t, "output may be missing", s.Losses())
	}
}

// serveAnswer is a daemon's socket for calls, which answers the first one of each connection with a payload.
func serveAnswer(t *testing.T, path string, payload []byte) {
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := wire.NewReader(c, wire.MaxFrame).ReadFrame(); err == nil {
				_ = wire.WriteFrame(c, payload)
			}
			_ = c.Close()
		}
	}()
}

// A daemon of an earlier version has no socket for output.
func TestWithoutTheSocketNothingIsKept(t *testing.T) {
	earlier, err := wire.EncodeResult(map[string]int{"log_limit": 1000000})
	require.NoError(t, err)
	for _, payload := range [][]byte{earlier, wire.EncodeParseError("unknown")} {
		session := &client.Session{Path: filepath.Join(t.TempDir(), "s"), After: func(time.Duration) <-chan time.Time {
			t.Error("it is not asked again")
			return soon(0)
		}}
		serveAnswer(t, session.Path, payload)
		s := showTo(t, session)
		s.Show(lossyLog(eightLines, 1, 2))
		require.EqualValues(t, "output is missing", s.Losses())
	}
}

// The daemon starts: its sockets come one after the other.
func TestKeptOutputIsAskedForWhileADaemonStarts(t *testing.T) {
	all := strings.Join(eightLines, "")
	settings, err := wire.EncodeResult(map[string]bool{"keep_output": false})
	require.NoError(t, err)
	dir, pauses := t.TempDir(), 0
	session := &client.Session{Path: filepath.Join(dir, "s")}
	session.After = func(d time.Duration) <-chan time.Time {
		switch pauses++; pauses {
		case 2:
			serveAnswer(t, session.Path, settings)
		case 4:
			newOutputSocketIn(t, dir, func(_ int, c net.Conn, h end.Hello) { sendKept(c, *h.Kept, all, 100) })
		}
		return soon(d)
	}
	s := showTo(t, session)
	s.Show(lossyLog(eightLines, 1, 2))
	require.Equal(t, all, s.out.String())
	require.Equal(t, 4, pauses)
}

// Messages have no place in the output.
func message(text string) LogEntry {
	return LogEntry{Type: job.LogMessage, Payload: rawjson.Quote(text)}
}

// What the process says of the output is no output.
func TestANoteIsNotOutput(t *testing.T) {
	text := json.RawMessage(`"output is not kept from here on: the disk is almost full"`)
	typ, payload := job.AsMessage(job.LogNote, text)
	for _, note := range []LogEntry{{Type: job.LogNote, Payload: text}, {Type: typ, Payload: payload}} {
		s := showTo(t, &client.Session{Path: filepath.Join(t.TempDir(), "s"), After: soon})
		out, rest := job.EncodeOutput(job.LogStdout, []byte("a\n"))
		s.Show([]LogEntry{{Serial: 1, Type: out, Payload: rest}, note, {Serial: 3, Type: out, Payload: rest}})
		require.Equal(t, "a\na\n", s.out.String())
		require.Contains(t, s.err.String(), "output is not kept from here on")
	}
}

// While the files of a job are asked, which may take long, other jobs are shown; a piece of them is shown alone.
func TestOtherJobsAreShownWhileKeptOutputIsAsked(t *testing.T) {
	var showing sync.Mutex
	var got []string
	var v Views
	v.SetKept(func(part end.Kept, take func([]byte) bool) int64 {
		require.True(t, showing.TryLock(), "others can be shown")
		showing.Unlock()
		require.True(t, take([]byte("one\n")))
		return part.From + 4
	})
	v.AskUnlocked(&showing, func() { got = append(got, "room") })
	showing.Lock()
	require.EqualValues(t, 7, v.Lines.Kept(end.Kept{From: 3, To: 9}, func(output []byte) bool {
		require.False(t, showing.TryLock(), "no other job is shown")
		got = append(got, string(output))
		return true
	}))
	require.False(t, showing.TryLock())
	require.Equal(t, []string{"room", "one\n"}, got)
}
