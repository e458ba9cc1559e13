package luxi_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/luxi"
	"lockstep/core/access"
	"lockstep/core/budget"
	"lockstep/core/opcode"
	"lockstep/core/ownership"
	"lockstep/core/wire"
	"lockstep/edge/admission"
	"lockstep/edge/socket"
	"lockstep/messages"
)

// server is a gateway behind a real socket, in real time.
type server struct {
	t        *testing.T
	env      *kittest.Env
	queue    *kittest.Probe
	listener *socket.Listener
	path     string
}

var listening = socket.Options{MaxFrame: 1000, Idle: time.Minute}

func listen(t *testing.T) *server { return listenWith(t, listening) }

func listenWith(t *testing.T, options socket.Options) *server {
	e := kittest.New(t)
	s := &server{t: t, env: e, queue: e.Probe("queue"), path: filepath.Join(t.TempDir(), "s")}
	other := e.Probe("other")
	opened, err := socket.ListenUnix(s.path, ownership.Rules{}.Of(ownership.LuxiSocket))
	require.NoError(t, err)
	listener := socket.NewListener(opened, options)
	s.listener = listener
	pid, _, err := e.SpawnRoot(luxi.Props(luxi.Config{Env: e.Env, Policy: access.Policy{Ganeti: true}, Queue: s.queue.PID, Jobs: other.PID,
		Store: other.PID, Catalogue: opcode.Builtin()}), "luxi")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- listener.Serve(e.System(), func() *actor.PID { return pid }) }()
	t.Cleanup(func() {
		_ = listener.Close()
		require.NoError(t, <-served)
	})
	return s
}

func (s *server) dial() net.Conn {
	c, err := net.Dial("unix", s.path)
	require.NoError(s.t, err)
	require.NoError(s.t, c.SetDeadline(time.Now().Add(kittest.ExpectTimeout)))
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Frames that arrive together are served one after the other.
func TestPipelinedFramesAreAnsweredInOrder(t *testing.T) {
	s := listen(t)
	c := s.dial()
	submit := `{"method": "SubmitJob", "args": [[` + delay + `]]}`
	var frames bytes.Buffer
	for _, frame := range []string{submit, `{"method": "PickupJob", "args": []}`, submit} {
		require.NoError(t, wire.WriteFrame(&frames, []byte(frame)))
	}
	_, err := c.Write(frames.Bytes())
	require.NoError(t, err)
	reader := wire.NewReader(c, 1000)
	read := func(want string) {
		t.Helper()
		frame, err := reader.ReadFrame()
		require.NoError(t, err)
		require.Contains(t, string(frame), want)
	}
	for id := int64(1); id <= 2; id++ {
		m, from := kittest.ExpectFrom[*messages.SubmitJobs](s.queue)
		s.queue.Ask(from, &messages.SubmitJobsResult{Request: m.Request, Ids: []int64{id}})
		if id == 1 {
			read(`"result":1`)
			read(`internal use only`)
		} else {
			read(`"result":2`)
		}
	}
}

// The kernel names the client. The name in a request counts only if another node forwards the request.
func TestWhoAsksOverASocket(t *testing.T) {
	me := fmt.Sprintf("uid=%d", os.Getuid())
	if u, err := user.Current(); err == nil {
		me += "(" + u.Username + ")"
	}
	me += fmt.Sprintf(", pid=%d", os.Getpid())
	for forwards, want := range map[bool]string{false: me, true: "uid=7(bob), pid=1, node=n2"} {
		options := listening
		options.Forwards = forwards
		s := listenWith(t, options)
		c := s.dial()
		frame := `{"by": "uid=7(bob), pid=1, node=n2", "method": "SubmitJob", "args": [[` + delay + `]]}`
		require.NoError(t, wire.WriteFrame(c, []byte(frame)))
		require.Equal(t, want, kittest.Expect[*messages.SubmitJobs](s.queue).By)
	}
}

func TestAParseErrorClosesTheSocket(t *testing.T) {
	for _, bad := range []string{`hello`, string(bytes.Repeat([]byte("x"), 2000))} {
		s := listen(t)
		c := s.dial()
		require.NoError(t, wire.WriteFrame(c, []byte(bad)))
		reader := wire.NewReader(c, 1000)
		frame, err := reader.ReadFrame()
		require.NoError(t, err)
		require.Contains(t, string(frame), `"result":"Failed to parse request: `)
		_, err = reader.ReadFrame()
		require.Error(t, err)
	}
}

// A connection that arrives while the daemon stops is closed, although no actor serves it: its client must not wait.
func TestAConnectionThatComesTooLateIsClosed(t *testing.T) {
	s := listen(t)
	drainer := s.env.Probe("drainer")
	drainer.Ask(s.env.PID("luxi"), &messages.Drain{})
	kittest.Expect[*messages.DrainResult](drainer)
	_, err := wire.NewReader(s.dial(), 1000).ReadFrame()
	require.Error(t, err)
	require.NotErrorIs(t, err, net.ErrClosed)
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "the connection is still open")
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	former, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	former.SetUnlinkOnClose(false)
	require.NoError(t, former.Close())
	l, err := socket.ListenUnix(path, ownership.Rules{}.Of(ownership.LuxiSocket))
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// Idle clients and clients that send half a request harm no other client. Above the limit, the connection that has sent
// nothing for longest is closed.
func TestThousandsOfConnections(t *testing.T) {
	options := listening
	options.MaxConns = 2000
	s := listenWith(t, options)
	var idle []net.Conn
	for i := range options.MaxConns - 1 {
		c := s.dial()
		if i%2 == 0 {
			_, err := c.Write([]byte(`{"method": "Que`))
			require.NoError(t, err)
		}
		idle = append(idle, c)
	}
	good := s.dial()
	ask := func(c net.Conn) error {
		if err := c.SetDeadline(time.Now().Add(kittest.ExpectTimeout)); err != nil {
			return err
		}
		if err := wire.WriteFrame(c, []byte(`{"method": "PickupJob", "args": []}`)); err != nil {
			return err
		}
		_, err := wire.NewReader(c, 1000).ReadFrame()
		return err
	}
	require.NoError(t, ask(good))
	require.NoError(t, ask(s.dial()), "there is one too many")
	// The deadline of dial may have passed: on a slow machine thousands take their time.
	require.NoError(t, idle[1].SetDeadline(time.Now().Add(kittest.ExpectTimeout)))
	_, err := wire.NewReader(idle[1], 1000).ReadFrame()
	require.Error(t, err)
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "it is still open")
	require.NoError(t, ask(idle[5]))
	require.NoError(t, ask(good))
}

// Requests that examine the whole queue work a few at a time; others do not wait for them.
func TestLargeRequestsTakeTurns(t *testing.T) {
	options := listening
	options.Turn = func(frame []byte) (admission.Class, bool) { return admission.Page, luxi.ExtentOf(frame) == luxi.Whole }
	options.Table = admission.NewTable()
	s := listenWith(t, options)
	for range 5 {
		require.NoError(t, wire.WriteFrame(s.dial(), []byte(`{"method": "QueryJobs", "args": [[], ["id"]]}`)))
	}
	first, from := kittest.ExpectFrom[*messages.ListJobs](s.queue)
	for range 2 { // the last turn is for another client
		kittest.ExpectFrom[*messages.ListJobs](s.queue)
	}
	require.NoError(t, wire.WriteFrame(s.dial(), []byte(`{"method": "SubmitJob", "args": [[`+delay+`]]}`)))
	kittest.ExpectFrom[*messages.SubmitJobs](s.queue)
	require.Equal(t, 3, options.Table.Active(admission.Page))
	s.queue.Ask(from, &messages.ListJobsResult{Request: first.Request})
	kittest.ExpectFrom[*messages.ListJobs](s.queue)
}

func TestAConnectionWithARequestIsNotEnded(t *testing.T) {
	options := listening
	options.MaxConns = 10
	s := listenWith(t, options)
	var last net.Conn
	for range options.MaxConns {
		last = s.dial()
		require.NoError(t, wire.WriteFrame(last, []byte(`{"method": "SubmitJob", "args": [[`+delay+`]]}`)))
		m, from := kittest.ExpectFrom[*messages.SubmitJobs](s.queue)
		defer s.queue.Ask(from, &messages.SubmitJobsResult{Request: m.Request, Ids: []int64{1}})
	}
	late := s.dial()
	_, err := wire.NewReader(late, 1000).ReadFrame()
	require.Error(t, err, "there is no room")
}

// The memory for unfinished large requests is bounded. The oldest of them are refused with an error, and other requests
// are served, also large ones.
func TestHalfSentLargeRequestsMakeRoom(t *testing.T) {
	const frame = 256 << 10
	options := listening
	options.MaxFrame, options.Table = frame, admission.NewTableWith(budget.NewBytesOf(4*frame, 4*frame, 0))
	s := listenWith(t, options)
	half := bytes.Repeat([]byte("x"), frame*3/4)
	var stuck []net.Conn
	for range 20 {
		c := s.dial()
		_, err := c.Write(half)
		require.NoError(t, err)
		stuck = append(stuck, c)
	}
	made := make(chan string, len(stuck))
	for _, c := range stuck {
		go func() {
			answer, _ := wire.NewReader(c, 1000).ReadFrame()
			made <- string(answer)
		}()
	}
	refused := func(n int) {
		for range n {
			require.Contains(t, <-made, "too many large requests at a time; try again")
		}
	}
	refused(len(stuck) - 5) // five have room, so all have been begun
	small, large := s.dial(), s.dial()
	for c, payload := range map[net.Conn]string{small: "x", large: string(half)} {
		require.NoError(t, wire.WriteFrame(c, []byte(`{"method": "`+payload+`", "args": []}`)))
		answer, err := wire.NewReader(c, 2*frame).ReadFrame()
		require.NoError(t, err)
		require.Contains(t, string(answer), `"success":false`)
		require.NotContains(t, string(answer), "too many")
	}
	refused(1)
}
