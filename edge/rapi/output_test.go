package rapi_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/core/budget"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/outflow"
	"lockstep/core/ownership"
	"lockstep/edge/outputs"
	"lockstep/edge/outputs/end"
	"lockstep/edge/rapi"
)

// keptOutput is what is kept of one job's streams.
type keptOutput [2][]byte

func (k *keptOutput) Find(int64, int) (opcode.Kept, error) {
	return opcode.Kept{Parts: []opcode.KeptPart{{}}}, nil
}

func (k *keptOutput) Open(_ int64, _ opcode.Kept, s outflow.Stream, from int64) (io.ReadCloser, error) {
	if k[s] == nil {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(k[s][min(from, int64(len(k[s]))):])), nil
}

// outputServer is a test server with the daemon's socket for output.
type outputServer struct {
	*testServer
	kept    keptOutput
	path    string
	log     atomic.Value // string: the answer of QueryJobs
	results string       // of the opcodes; "": those that vouch for what is kept
	asked   atomic.Int64 // how often for kept output
	silent  bool         // nobody can say what is kept
}

func newOutputServer(t *testing.T) *outputServer {
	b := &outputServer{path: filepath.Join(t.TempDir(), "output")}
	log, _ := logrustest.NewNullLogger()
	server, err := outputs.Listen(b.path, ownership.Attributes{Mode: 0o600, UID: -1, GID: -1}, outputs.Config{Log: log, Kept: &b.kept})
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	t.Cleanup(func() {
		_ = server.Close()
		require.NoError(t, <-served)
	})
	b.testServer = newTestServer(t, func(c *rapi.Config) {
		c.Output = func(client budget.Client, h end.Hello) (*os.File, error) {
			if h.Kept != nil {
				b.asked.Add(1)
				if b.silent {
					return closedAtOnce()
				}
			}
			return server.Open(client, h)
		}
	})
	b.luxi.answers["QueryJobs"] = func(args []any) (string, error) {
		if args[1].([]any)[0] == "opresult" {
			return "[[" + cmp.Or(b.results, b.vouches()) + "]]", nil
		}
		return b.log.Load().(string), nil
	}
	return b
}

// vouches is the results of two opcodes, of which the second has failed, for what is kept.
func (b *outputServer) vouches() string {
	part := func(stdout, stderr int) string {
		return fmt.Sprintf(`{"x": 1, "kept": {"stdout": {"bytes": %d}, "stderr": {"bytes": %d}, "directory": "d"}}`, stdout, stderr)
	}
	if b.kept[0] == nil && b.kept[1] == nil {
		return `[{"x": 1}, null]`
	}
	return fmt.Sprintf(`[%s, ["OpExecError", ["text", %s]]]`, part(3, 0), part(len(b.kept[0])-3, len(b.kept[1])))
}

// process takes the readers of job 7, as its process does.
func (b *outputServer) process() <-chan *os.File {
	ctx, cancel := context.WithCancel(b.Context())
	readers, ended := make(chan *os.File, 10), make(chan struct{})
	go func() {
		defer close(ended)
		end.TakeReaders(ctx, b.path, 7, func(h end.Hello, c *os.File) {
			if h.Follows || !h.Relayed || h.At != (outflow.Position{}) {
				panic("the reader is not what it should be")
			}
			readers <- c
		})
	}()
	b.Cleanup(func() { cancel(); <-ended })
	return readers
}

// logText is entries of a log as QueryJobs has them: the output of one stream each, or an amount that is missing.
type logText struct {
	entries []any
	written job.Output
}

func (l *logText) add(kind, text string) {
	l.entries = append(l.entries, []any{len(l.entries) + 1, []int{5, 6}, kind, text})
	l.written = l.written.Plus(job.OutputOf(kind, json.RawMessage(strconv.Quote(text))))
}

func (l *logText) drop(stdout, stderr int64) {
	gap := job.Output{Stdout: job.StreamOutput{Lines: 1, Bytes: stdout}, Stderr: job.StreamOutput{Lines: 1, Bytes: stderr}}
	l.written = l.written.Plus(gap)
	l.entries = append(l.entries, []any{len(l.entries) + 1, []int{5, 6}, job.LogMissing, job.MissingOutput{Missing: gap, Written: l.written}})
}

// cut says that the process of the job has died.
func (l *logText) cut() {
	l.entries = append(l.entries, []any{len(l.entries) + 1, []int{5, 6}, job.LogCut, nil})
}

func (b *outputServer) setLog(status string, l *logText) {
	b.log.Store(marshal([]any{[]any{status, []any{l.entries}}}))
}

// The kept files have what the log has dropped. What neither has is counted.
func TestADownloadHasTheKeptOutput(t *testing.T) {
	b := newOutputServer(t)
	l := &logText{}
	l.add("stdout", "first")
	l.drop(10, 4)
	l.add("stderr", "error")
	l.add("stdout", "second")
	l.drop(3, 0)
	b.setLog("success", l)
	for _, c := range []struct {
		kept           keptOutput
		stream, body   string
		dropped, asked int
	}{
		{keptOutput{}, "", "first\nerror\nsecond\n", 17, 0},
		{keptOutput{[]byte("FIRST\n0123456789SECOND\nxyz"), []byte("ABCDERROR\n")}, "", "first\n0123456789ABCDerror\nsecond\nxyz", 0, 6},
		{keptOutput{[]byte("FIRST\n0123456789SECOND\nxyz"), []byte("ABCDERROR\n")}, "stdout", "first\n0123456789second\nxyz", 0, 4},
		{keptOutput{[]byte("FIRST\n0123456789SECOND\nxyz"), []byte("ABCDERROR\n")}, "stderr", "ABCDerror\n", 0, 2},
		{keptOutput{[]byte("FIRST\n01234"), nil}, "", "first\n01234error\nsecond\n", 12, 2},
		{keptOutput{[]byte("FIRST\n01234"), nil}, "stdout", "first\n01234second\n", 8, 2},
		{keptOutput{[]byte("FIRST\n0123456789SECOND\nx"), []byte("ABCD")}, "", "first\n0123456789ABCDerror\nsecond\nx", 2, 6},
		{keptOutput{[]byte("FIRST\n"), nil}, "stderr", "error\n", 4, 0},
	} {
		b.kept = c.kept
		b.asked.Store(0)
		got := b.do("GET", "/3/jobs/7/log?stream="+c.stream, "reader:secret", "")
		require.Equal(t, 200, got.code, got.body)
		require.Equal(t, c.body, got.body)
		require.Equal(t, strconv.Itoa(c.dropped), got.header.Get("Lockstep-Dropped-Bytes"))
		require.EqualValues(t, c.asked, b.asked.Load(), c.body)
	}
	b.kept = keptOutput{[]byte("FIRST\n0123456789SECOND\nxyz"), []byte("ABCDERROR\n")}
	b.results = b.vouches()
	b.kept = keptOutput{[]byte("FIRST\n01234"), nil} // a part was lost
	require.Equal(t, "first\n01234error\nsecond\n", b.do("GET", "/3/jobs/7/log", "reader:secret", "").body)
	b.kept = keptOutput{} // they were removed
	require.Equal(t, "first\nerror\nsecond\n", b.do("GET", "/3/jobs/7/log", "reader:secret", "").body)
	b.silent = true // the node that has them cannot be asked: they are not missing
	got := b.do("GET", "/3/jobs/7/log", "reader:secret", "")
	require.Equal(t, 503, got.code)
	require.Equal(t, "2", got.header.Get("Retry-After"))
}

// closedAtOnce is a connection whose other end is closed.
func closedAtOnce() (*os.File, error) {
	read, write, err := os.Pipe()
	if err == nil {
		err = write.Close()
	}
	return read, err
}

// Each try of a job has kept files of its own. What its log has dropped comes from these, also if the last try has kept nothing.
func TestADownloadHasTheKeptOutputOfAllTries(t *testing.T) {
	for _, c := range []struct {
		kept    string
		body    string
		dropped int
	}{
		{"first\nab\nsecond\ncd\n", "first\nab\nsecond\ncd\n", 0},
		{"first\nab\nsecond\nc", "first\nab\nsecond\nc", 2},
		{"first\n", "first\nsecond\n", 6},
	} {
		b := newOutputServer(t)
		b.results = "[null]"
		l := &logText{}
		l.add("stdout", "first")
		l.drop(3, 0)
		l.entries = append(l.entries, []any{len(l.entries) + 1, []int{5, 6}, job.LogTry,
			job.EndedTry{Try: 1, Most: 2, Result: json.RawMessage(`["OpExecError", ["text", {"kept": {"stdout": {"bytes": 9}}}]]`)}})
		l.written.Messages++
		l.add("stdout", "second")
		l.drop(3, 0)
		b.setLog("error", l)
		b.kept[0] = []byte(c.kept)
		got := b.do("GET", "/3/jobs/7/log", "reader:secret", "")
		require.Equal(t, 200, got.code, got.body)
		require.Equal(t, c.body, got.body)
		require.Equal(t, strconv.Itoa(c.dropped), got.header.Get("Lockstep-Dropped-Bytes"))
		f := b.follow("")
		f.wants(c.body)
		f.ends(c.dropped)
	}
}

// The process of the job has died: the files have output that it had not saved in the log.
func TestADownloadHasTheKeptOutputThatADeadProcessHadNotLogged(t *testing.T) {
	for _, c := range []struct {
		lost    int64 // by the log
		kept    string
		body    string
		dropped int
	}{
		{0, "one\nthree\nfour\nfi", "one\nthree\nfour\nfi", 0},
		{0, "one\nth", "one\nthree\n", 0},
		{4, "one\ntwo\nthree\nfour\nfi", "one\ntwo\nthree\nfour\nfi", 0},
		{4, "one\ntw", "one\ntwthree\n", 2},
	} {
		b := newOutputServer(t)
		b.results = "[null]"
		l := &logText{}
		l.add("stdout", "one")
		if c.lost > 0 {
			l.drop(c.lost, 0)
		}
		l.add("stdout", "three")
		l.cut()
		b.setLog("error", l)
		b.kept[0] = []byte(c.kept)
		got := b.do("GET", "/3/jobs/7/log", "reader:secret", "")
		require.Equal(t, 200, got.code, got.body)
		require.Equal(t, c.body, got.body)
		require.Equal(t, strconv.Itoa(c.dropped), got.header.Get("Lockstep-Dropped-Bytes"))
		f := b.follow("")
		f.wants(c.body)
		f.ends(c.dropped)
	}
}

// followed is an answer that is read as it comes.
type followed struct {
	t *testing.T
	*http.Response
}

func (b *outputServer) follow(query string) *followed {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.url+"/3/jobs/7/log?follow=true"+query, nil)
	require.NoError(b, err)
	r.SetBasicAuth("reader", "secret")
	response, err := b.client.Do(r)
	require.NoError(b, err)
	b.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(b, 200, response.StatusCode)
	require.Empty(b, response.Header.Get("Lockstep-Dropped-Bytes"), "it is not known yet")
	return &followed{b.TB.(*testing.T), response}
}

func (f *followed) wants(text string) {
	f.t.Helper()
	got := make([]byte, len(text))
	_, err := io.ReadFull(f.Body, got)
	require.NoError(f.t, err, "%q", got)
	require.Equal(f.t, text, string(got))
}

func (f *followed) ends(dropped int) {
	f.t.Helper()
	rest, err := io.ReadAll(f.Body)
	require.NoError(f.t, err)
	require.Empty(f.t, rest)
	require.Equal(f.t, strconv.Itoa(dropped), f.Trailer.Get("Lockstep-Dropped-Bytes"))
}

func send(t *testing.T, c *os.File, stdout, stderr int64, s outflow.Stream, output string) {
	t.Helper()
	f := outflow.Frame{At: outflow.Position{Stdout: stdout, Stderr: stderr}, Stream: s, Output: []byte(output)}
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err := c.Write(append(f.AppendHeader(nil), f.Output...))
	require.NoError(t, err)
}

// changes make WaitForJobChange answer what the test sends.
func (b *outputServer) changes() chan<- string {
	changes := make(chan string, 10)
	b.luxi.answers["WaitForJobChange"] = func([]any) (string, error) {
		select {
		case c := <-changes:
			return c, nil
		case <-b.Context().Done():
			return "", errors.New("the test has ended")
		}
	}
	return changes
}

// A follower gets the log so far, and then what the job's process sends, each byte once, also what the log has not.
func TestOutputIsFollowed(t *testing.T) {
	for _, c := range []struct {
		stream, log, sent, more string
		missing                 int
	}{
		{"", "one\nerror\n", "two\xff\nmore\n", "last", 12},
		{"stdout", "one\n", "two\xff\n", "last", 11},
		{"stderr", "error\n", "more\n", "", 1},
	} {
		t.Run(c.stream, func(t *testing.T) {
			b := newOutputServer(t)
			changes, readers := b.changes(), b.process()
			l := &logText{}
			l.add("stdout", "one")
			l.add("stderr", "error")
			b.setLog("running", l)
			f := b.follow("&stream=" + c.stream)
			f.wants(c.log)
			process := <-readers
			send(t, process, 2, 0, outflow.Stdout, "e\ntwo\xff\n") // from the middle of what the log has
			send(t, process, 9, 6, outflow.Stderr, "more\n")
			f.wants(c.sent)
			changes <- `[["running"], [[9, [5, 6], "stdout-base64", "dHdv/wo="]]]` // the same, late
			changes <- `[["running"], []]`
			send(t, process, 20, 11, outflow.Stdout, "last")
			send(t, process, 24, 12, outflow.Stdout, "") // the end
			f.wants(c.more)
			changes <- `[["success"], []]`
			f.ends(c.missing)
		})
	}
}

// What the log has lost is awaited from the process of the job, and comes from the files if it is too late there.
func TestFollowedOutputThatTheLogLacks(t *testing.T) {
	b := newOutputServer(t)
	changes, readers := b.changes(), b.process()
	b.kept = keptOutput{[]byte("one\nTWO\nTHREE\n"), nil}
	l := &logText{}
	l.add("stdout", "one")
	l.drop(10, 0)
	l.add("stdout", "four")
	b.setLog("running", l)
	f := b.follow("")
	c := <-readers
	send(t, c, 8, 0, outflow.Stdout, "three\nfour\nfive\n")
	f.wants("one\nTWO\nthree\nfour\nfive\n")
	changes <- `[["success"], []]`
	send(t, c, 24, 0, outflow.Stdout, "") // the end
	f.ends(0)
}

// The process sends from a place within entries of the log that come in several pieces, after output that the log has lost.
func TestAStreamBeginsWithinTheLog(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			b := newOutputServer(t)
			changes, readers := b.changes(), b.process()
			l := &logText{}
			l.add("stdout", "one")
			if late {
				b.setLog("running", l)
			}
			l.drop(10, 0)
			var lines strings.Builder
			for n := range 1000 {
				line := fmt.Sprintf("line %03d", n)
				l.add("stdout", line)
				lines.WriteString(line + "\n")
			}
			if late {
				changes <- marshal([]any{[]any{"running"}, l.entries[1:]})
			} else {
				b.setLog("running", l)
			}
			f := b.follow("")
			c := <-readers
			send(t, c, 4+10+9*950, 0, outflow.Stdout, lines.String()[9*950:]+"more\n")
			f.wants("one\n" + lines.String() + "more\n")
			send(t, c, 4+10+9*1000+5, 0, outflow.Stdout, "") // the end
			changes <- `[["success"], []]`
			f.ends(10)
		})
	}
}

// The rest of the output takes long: each frame has its time.
func TestTheEndOfFollowedOutputIsAwaitedAnewAfterEachFrame(t *testing.T) {
	b := newOutputServer(t)
	timers := make(chan chan time.Time, 10)
	b.server.SetAfter(func(d time.Duration) <-chan time.Time {
		timer := make(chan time.Time, 1)
		if d > 10*time.Second {
			timers <- timer
		}
		return timer
	})
	next := func() chan time.Time {
		select {
		case timer := <-timers:
			return timer
		case <-time.After(20 * time.Second):
			t.Fatal("the end is not awaited anew")
			return nil
		}
	}
	changes, readers := b.changes(), b.process()
	b.setLog("running", &logText{})
	f := b.follow("")
	c := <-readers
	send(t, c, 0, 0, outflow.Stdout, "one\n")
	f.wants("one\n")
	changes <- `[["success"], []]`
	first := next()
	send(t, c, 4, 0, outflow.Stdout, "two\n")
	second := next()
	first <- time.Time{}
	send(t, c, 8, 0, outflow.Stdout, "three\n")
	next()
	f.wants("two\nthree\n")
	send(t, c, 14, 0, outflow.Stdout, "") // the end
	f.ends(0)
	require.Empty(t, second)
}

// A job with little output has no stream; its log is all. One whose process dies has the rest in its log.
func TestFollowedOutputWithoutAProcess(t *testing.T) {
	t.Run("little output", func(t *testing.T) {
		b := newOutputServer(t)
		changes := b.changes()
		l := &logText{}
		l.add("stdout", "one")
		b.setLog("running", l)
		f := b.follow("")
		f.wants("one\n")
		changes <- marshal([]any{[]string{"success"}, []any{[]any{2, []int{5, 6}, "stdout", "two"}}})
		f.wants("two\n")
		f.ends(0)
	})
	t.Run("it dies", func(t *testing.T) {
		b := newOutputServer(t)
		changes, readers := b.changes(), b.process()
		l := &logText{}
		l.add("stdout", "one")
		b.setLog("running", l)
		f := b.follow("")
		c := <-readers
		send(t, c, 0, 0, outflow.Stdout, "one\ntw")
		f.wants("one\ntw")
		l.add("stdout", "two")
		l.drop(5, 0)
		l.add("stdout", "three")
		b.setLog("error", l)
		require.NoError(t, c.Close())
		changes <- fmt.Sprintf(`[["error"], [%s]]`, marshal(l.entries[1]))
		f.wants("o\nthree\n")
		f.ends(5)
	})
	t.Run("it dies, and has kept more", func(t *testing.T) {
		b := newOutputServer(t)
		b.kept = keptOutput{[]byte("one\ntwo\nthree\nfo"), nil}
		changes, readers := b.changes(), b.process()
		l := &logText{}
		l.add("stdout", "one")
		b.setLog("running", l)
		f := b.follow("")
		c := <-readers
		send(t, c, 0, 0, outflow.Stdout, "one\ntw")
		f.wants("one\ntw")
		l.add("stdout", "two")
		l.cut()
		b.setLog("error", l)
		require.NoError(t, c.Close())
		changes <- fmt.Sprintf(`[["error"], %s]`, marshal(l.entries[1:]))
		f.wants("o\nthree\nfo")
		f.ends(0)
	})
	t.Run("it has ended before", func(t *testing.T) {
		b := newOutputServer(t)
		b.kept = keptOutput{[]byte("one\ntwo\n"), nil}
		l := &logText{}
		l.add("stdout", "one")
		l.drop(5, 0)
		b.setLog("success", l)
		f := b.follow("")
		f.wants("one\ntwo\n")
		f.ends(1)
	})
}

func TestWhatCannotBeFollowed(t *testing.T) {
	b := newOutputServer(t)
	b.luxi.answers["QueryJobs"] = func([]any) (string, error) { return `[[null, null]]`, nil }
	require.Equal(t, 404, b.do("GET", "/3/jobs/9/log?follow=true", "reader:secret", "").code)
	require.Equal(t, 400, b.do("GET", "/3/jobs/9/log?follow=maybe", "reader:secret", "").code)
	require.Equal(t, 403, b.do("GET", "/3/jobs/9/log?follow=true", "ro:secret", "").code)
}
