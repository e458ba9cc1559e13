package supervisor_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/kittest"
	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/config/reserve"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/messages"
	"lockstep/supervisor"
)

// world is a daemon with its disk, processes and clients. A daemon that ends without an
// order is followed by another one, as under systemd.
type world struct {
	t         *testing.T
	clock     *kittest.Clock
	disk      *disk
	processes *processes

	mu         sync.Mutex
	env        *kittest.Env
	daemon     *supervisor.Running
	daemons    int
	ready      chan struct{} // closed when the daemon takes connections
	conns      []*fakeConn
	working    int // number of clients that have not finished
	accepted   []int64
	violations []string
}

// serveTimeout is how long a connection waits for an actor that serves it.
const serveTimeout = 10 * time.Second

const daemonLock = "/run/livelocks/daemon_1"

// newWorld starts a daemon on a disk with these files. work is the duration of an opcode.
func newWorld(t *testing.T, e *kittest.Env, files map[string]string, work time.Duration) *world {
	w := &world{t: t, clock: e.Clock, env: e}
	files = maps.Clone(files)
	if files == nil {
		files = map[string]string{}
	}
	files[paths.ConfigPath] = configuration(t)
	w.disk = &disk{Disk: kittest.NewDisk(files), w: w}
	w.disk.MakeDir(paths.AuditDir)
	w.processes = newProcesses(w, work)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boot()
	return w
}

// boot starts a daemon. w.mu is held.
// configuration is that of a cluster of one node.
func configuration(t *testing.T) string {
	content, err := config.New(config.Identity{ClusterName: "c", NodeName: "n1", NodeUUID: "u1", GroupUUID: "g1"})
	require.NoError(t, err)
	return string(configtest.Edit(t, content, configtest.Slots(3)).JSON())
}

// owners is a port to processes that are all alive.
type owners struct{}

func (owners) Watch(string, int)                  {}
func (owners) Forget(string)                      {}
func (owners) Wake(string, int)                   {}
func (owners) Remove(string)                      {}
func (owners) Probe(_ []string, a func([]string)) { go a(nil) }

// callers is the same port for owners of reservations.
type callers struct{}

func (callers) Watch(reserve.Caller) {}

func (w *world) boot() {
	tree, err := supervisor.Tree(
		supervisor.Ports{Env: w.env.Env, Files: w.disk, Processes: w.processes, Owners: owners{}, Callers: callers{}, Confd: &shown{}},
		supervisor.Settings{Livelock: daemonLock, BootID: "boot", Locks: lock.Settings{Hierarchy: lock.Implied}, MaxStarts: 2, NewUUID: func() string { return "00000000-0000-4000-8000-000000000001" }, Writers: 4,
			Catalogue: opcode.Builtin(), Limits: supervisor.DefaultLimits()})
	require.NoError(w.t, err)
	w.daemon = tree
	w.daemons++
	w.ready = make(chan struct{})
	edge := &readyWatcher{ready: w.ready}
	pid, _, err := w.env.SpawnRoot(w.env.Props("edge", func() actor.Actor { return edge }), fmt.Sprintf("ready-%d", w.daemons))
	require.NoError(w.t, err)
	w.askReady(edge, w.env, pid)
}

// readyWatcher learns when the daemon accepts connections.
type readyWatcher struct {
	once  sync.Once
	ready chan struct{}
}

func (e *readyWatcher) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(*messages.QueueStarted); ok {
		e.once.Do(func() { close(e.ready) })
	}
}

// askReady repeats its question until an answer comes or the daemon is replaced.
func (w *world) askReady(e *readyWatcher, env *kittest.Env, pid *actor.PID) {
	env.System().Root.RequestWithCustomSender(w.daemon.Root, &messages.AnnounceQueue{}, pid)
	w.clock.AfterFunc(time.Second, func() {
		select {
		case <-e.ready:
		case <-w.daemon.Done:
		default:
			if w.env == env {
				w.askReady(e, env, pid)
			}
		}
	})
}

// reboot starts the next daemon if this one has ended.
func (w *world) reboot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.daemon.Done:
		w.processes.daemonDied()
		for _, c := range w.conns {
			c.Close()
		}
		w.conns = nil
		w.env = w.env.Reboot()
		w.boot()
	default:
	}
}

func (w *world) tell(to *actor.PID, msg any) {
	w.mu.Lock()
	env := w.env
	w.mu.Unlock()
	env.Send(to, msg)
}

// dial waits for a daemon that takes connections.
func (w *world) dial() *fakeConn {
	for {
		w.mu.Lock()
		env, daemon, ready := w.env, w.daemon, w.ready
		w.mu.Unlock()
		select {
		case <-ready:
		case <-daemon.Done:
		}
		select {
		case <-daemon.Done:
			w.pause(100 * time.Millisecond)
		default:
			c := &fakeConn{send: w.tell, answers: make(chan []byte, 1), done: make(chan struct{})}
			w.mu.Lock()
			w.conns = append(w.conns, c)
			w.mu.Unlock()
			w.clock.AfterFunc(serveTimeout, c.closeUnserved)
			env.Send(daemon.Luxi, &conn.Opened{Conn: c})
			return c
		}
	}
}

func (w *world) isReady() bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

func (w *world) now() job.Timestamp { return job.TimestampOf(w.clock.Now()) }

// pause returns when the clock has been advanced by d.
func (w *world) pause(d time.Duration) {
	due := make(chan struct{})
	w.clock.AfterFunc(d, func() { close(due) })
	<-due
}

// violation records a broken invariant.
func (w *world) violation(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// slow records a client that got no answer within the time that clients wait.
func (w *world) slow(method string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, "no answer to "+method)
}

func (w *world) start(client func()) {
	w.mu.Lock()
	w.working++
	w.mu.Unlock()
	go func() {
		client()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.working--
	}()
}

// drive advances the clock in the smallest steps until over returns true. It fails after a
// short time, because nothing in these tests takes long.
func (w *world) drive(over func() bool) {
	w.t.Helper()
	const longest = 30 * time.Minute
	end := w.clock.Now().Add(longest)
	for {
		w.env.Settle()
		w.reboot()
		w.env.Settle()
		if over() {
			return
		}
		d, any := w.clock.Next()
		require.True(w.t, any, "everybody waits for somebody else")
		require.True(w.t, w.clock.Now().Before(end), "it takes longer than %v", longest)
		w.clock.Advance(d)
	}
}

func (w *world) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.working == 0
}

// stop drains and stops the daemon, as lockstepd does.
func (w *world) stop() {
	edge := w.env.Probe(fmt.Sprintf("edge-%d", w.daemons))
	drained := false
	asked := w.daemon
	edge.Ask(asked.Root, &messages.Drain{})
	w.drive(func() bool {
		for _, m := range edge.Unread() {
			_, ok := m.(*messages.DrainResult)
			drained = drained || ok
		}
		if asked != w.daemon { // it ended before its answer
			asked = w.daemon
			edge = w.env.Probe(fmt.Sprintf("edge-%d", w.daemons))
			edge.Ask(asked.Root, &messages.Drain{})
		}
		return drained
	})
	w.env.System().Root.Stop(asked.Root)
	w.env.Settle()
	select {
	case <-asked.Done:
	default:
		require.Fail(w.t, "the daemon does not stop")
	}
}

// disk checks each change of a job file.
type disk struct {
	*kittest.Disk
	w *world
}

func (d *disk) Replace(op, path string, data ...[]byte) error {
	if base, inQueue := strings.CutPrefix(path, paths.QueueDir+"/"); inQueue {
		if id, isJob := paths.ParseJobName(base); isJob {
			d.check(op, id, path, string(bytes.Join(data, nil)))
		}
	}
	return d.Disk.Replace(op, path, data...)
}

// check: a final file does not change, and while a process may act only the process writes its
// job's file.
func (d *disk) check(op string, id int64, path, data string) {
	before, err := job.Decode([]byte(d.Content(path)))
	if err == nil && before.Status().Final() && data != d.Content(path) {
		d.w.violation("job %d is final, and written again by %s", id, op)
	}
	if op != "run-job" && d.w.processes.acts(id) {
		d.w.violation("job %d has a process, and its file is written by %s", id, op)
	}
}

func rawJSON(data []byte) json.RawMessage { return data }
