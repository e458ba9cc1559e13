package locks_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/store"
	"lockstep/core/answer"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// port records its calls. The test decides which owners are dead and when Probe is
// answered. tell, if set, is called for a dead owner that is watched.
type port struct {
	mu    sync.Mutex
	calls []string
	dead  map[string]bool
	held  []func() // delayed answers to Probe
	hold  bool
	tell  func(livelock string) // is called with the livelock of a dead owner
}

func (p *port) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
}

func (p *port) Watch(livelock string, pid int) {
	p.note("watch %s %d", livelock, pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tell != nil && p.dead[livelock] {
		p.tell(livelock)
	}
}

func (p *port) Forget(livelock string)        { p.note("forget %s", livelock) }
func (p *port) Wake(livelock string, pid int) { p.note("wake %s %d", livelock, pid) }
func (p *port) Remove(livelock string)        { p.note("remove %s", livelock) }

func (p *port) Probe(livelocks []string, answer func(dead []string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := func() {
		answer(slices.DeleteFunc(slices.Clone(livelocks), func(l string) bool { return !p.dead[l] }))
	}
	if p.hold {
		p.held = append(p.held, found)
		return
	}
	found()
}

// takeCalls returns the calls of these kinds since the last time, and drops all others.
func (p *port) takeCalls(kinds ...string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []string
	for _, call := range p.calls {
		if kind, _, _ := strings.Cut(call, " "); slices.Contains(kinds, kind) {
			found = append(found, call)
		}
	}
	p.calls = nil
	return found
}

const boot = "boot-2"

var self = lock.NamedOwner("lockstepd-destruction", "/live/daemon", 1)

// bench is a lock manager with a store on a disk in memory.
type bench struct {
	testing.TB
	*kittest.Env
	disk       *kittest.Disk
	port       *port
	queue      *kittest.Probe
	told       *kittest.Probe // stands for the lock manager's clients
	subscriber *kittest.Probe // receives each change of locks
	sched      *kittest.Probe
	config     *kittest.Probe // stands for the configuration's actor
	locks      *actor.PID
	knows      func(epoch uint64)
	number     uint64
	fence      time.Duration
}

// files are the files of a disk: locks.data and the journal's lines without the header; ""
// means no file.
func files(data string, journal ...string) map[string]string {
	all := map[string]string{}
	if data != "" {
		all[paths.LocksPath] = data
	}
	if journal != nil {
		all[paths.LocksJournalPath] = string(lock.JournalHeader(boot)) + strings.Join(journal, "\n")
	}
	return all
}

// onBench runs a test with a lock manager that has read these files.
func onBench(t *testing.T, files map[string]string, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, kittest.NewDisk(files))
		b.start()
		require.Equal(t, uint64(1), kittest.Expect[*messages.LocksStarted](b.told).Incarnation)
		f(t, b)
	})
}

func newBench(t testing.TB, e *kittest.Env, disk *kittest.Disk) *bench {
	return &bench{TB: t, Env: e, disk: disk, port: &port{dead: map[string]bool{}}, queue: e.Probe("queue"),
		subscriber: e.Probe("subscriber"), told: e.Probe("told"), sched: e.Probe("scheduler"), config: e.Probe("config")}
}

func (b *bench) start() {
	b.Helper()
	pid := b.Start("store", store.Props(store.Config{Env: b.Env.Env, Files: b.disk, Writers: 2,
		Clients: []*actor.PID{b.PID("above-locks/locks")}}))
	b.locks = b.Start("locks", locks.Props(locks.Config{Env: b.Env.Env, Store: pid, Queue: b.queue.PID,
		Clients: []*actor.PID{b.told.PID, b.scheduler()}, Subscribers: []*actor.PID{b.subscriber.PID}, ClusterConfig: b.config.PID, Scheduler: b.sched.PID, Owners: b.port, Settings: lock.Settings{Hierarchy: lock.Implied}, Boot: boot, Self: self, Fence: b.fence}))
}

// scheduler answers each lock manager with the paused jobs: none, unless knows is set.
func (b *bench) scheduler() *actor.PID {
	return b.Start("withholding", b.Props("scheduler", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			m, is := ctx.Message().(*messages.LocksStarted)
			switch {
			case !is:
			case b.knows != nil:
				b.knows(m.Incarnation)
			default:
				ctx.Send(b.PID("above-locks/locks"), &messages.SetLockPauses{Incarnation: m.Incarnation})
			}
		})
	}))
}

// caller is a client of the lock manager with its own connection.
type caller struct {
	*bench
	*kittest.Probe
	owner string // identity, as JSON
	asked uint64 // number of the last call
}

func (b *bench) caller(owner string) *caller {
	b.Helper()
	b.number++
	return &caller{bench: b, Probe: b.Probe(fmt.Sprintf("caller-%d", b.number)), owner: owner}
}

func livelock(id int) string { return "/live/" + paths.JobLivelockNameStart(int64(id)) + "_x" }

// job is the identity of a job process.
func job(id int) string { return fmt.Sprintf(`[%d,%q,%d]`, id, livelock(id), 100+id) }

func named(name string) string { return fmt.Sprintf(`[%q,%q,7]`, name, "/live/"+name) }

// request is a list of items: "node/a:exclusive node/b:shared".
func request(items string) string {
	list := [][2]string{}
	for _, i := range strings.Fields(items) {
		name, mode, _ := strings.Cut(i, ":")
		list = append(list, [2]string{name, mode})
	}
	encoded, _ := json.Marshal(list)
	return string(encoded)
}

// Names for operations that have no function on the wire.
const (
	passBGL   = "PassBGL"
	listRows  = "ListRows"
	listWaits = "ListWaits"
	getStatus = "GetStatus"
)

// operation parses a call. args are JSON.
func operation(function, args string) (locks.Operation, error) {
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(args), &list); err != nil {
		return nil, err
	}
	switch function {
	case passBGL:
		var from lock.Owner
		err := lock.Arguments(list, &from)
		return locks.PassBGL{From: from}, err
	case listRows:
		return locks.ListRows{}, nil
	case listWaits:
		return locks.ListWaits{}, nil
	case getStatus:
		return locks.GetStatus{}, nil
	}
	return locks.Parse(function, list)
}

// call sends a call. args are JSON.
func (c *caller) call(function, args string) {
	c.Helper()
	c.number++
	c.asked = c.number
	op, err := operation(function, args)
	require.NoError(c.bench, err, "%s%s", function, args)
	c.Ask(c.locks, &locks.Operate{Request: c.asked, Operation: op})
}

func (c *caller) update(items string) {
	c.call("updateLocksWaiting", fmt.Sprintf(`[%s,0,%s]`, c.owner, request(items)))
}

func (c *caller) await(items string, seconds float64) {
	c.call(locks.AwaitFunction, fmt.Sprintf(`[%s,0,%s,%v]`, c.owner, request(items), seconds))
}

func (c *caller) free() { c.call("freeLocks", "["+c.owner+"]") }

// expectResult expects the answer to the last call.
func (c *caller) expectResult() *locks.OperateResult {
	c.Helper()
	a := kittest.Expect[*locks.OperateResult](c.Probe)
	require.Equal(c.bench, c.asked, a.Request)
	return a
}

// expectValue expects an answer without a failure, and returns its value.
func (c *caller) expectValue() string {
	c.Helper()
	a := c.expectResult()
	require.Nil(c.bench, a.Failure, "%v", a.Failure)
	return string(locks.Encode(a.Value))
}

// expectFailure expects an answer with a failure, and returns its text.
func (c *caller) expectFailure() string {
	c.Helper()
	a := c.expectResult()
	require.NotNil(c.bench, a.Failure, "%s", a.Value)
	require.Equal(c.bench, classOf(a.Failure.Text), a.Failure.Class)
	require.Nil(c.bench, a.Value)
	return a.Failure.Text
}

// classOf is the class of a failure: LockError if a later try may succeed.
func classOf(text string) string {
	if strings.HasPrefix(text, "The state of the locks cannot be ") {
		return messages.ClassLock
	}
	return messages.ClassGeneric
}

// takeLocks takes locks that are free.
func (c *caller) takeLocks(items string) {
	c.Helper()
	c.update(items)
	require.Equal(c.bench, "[]", c.expectValue())
}

// expectAwaitResult expects the answer to an Await.
func (c *caller) expectAwaitResult() locks.AwaitResult {
	c.Helper()
	var a locks.AwaitResult
	require.NoError(c.bench, json.Unmarshal([]byte(c.expectValue()), &a))
	return a
}

func (c *caller) listOwn() string {
	c.Helper()
	c.call("listLocks", "["+c.owner+"]")
	return c.expectValue()
}

// status returns holders and requests as the lock manager answers them, without free locks.
func (b *bench) status() string {
	b.Helper()
	c := b.caller(named("looker"))
	c.call("listLocksWaitingStatus", "[]")
	return c.expectValue()
}

func (b *bench) managerStatus() locks.ManagerStatus {
	b.Helper()
	c := b.caller(named("looker"))
	c.call(getStatus, "[]")
	var s locks.ManagerStatus
	require.NoError(b, json.Unmarshal([]byte(c.expectValue()), &s))
	return s
}

// onDisk returns holders and requests in the files, without free locks.
func (b *bench) onDisk() string {
	b.Helper()
	snapshot := read(b, b.disk)
	pending := [][3]any{}
	for _, p := range snapshot.Pending {
		ganeti := slices.DeleteFunc(slices.Clone(p.Request), func(i lock.Item) bool { return i.Lock.IsFree() })
		if len(ganeti) > 0 {
			pending = append(pending, [3]any{p.Priority, p.Owner, ganeti})
		}
	}
	snapshot.Pending = nil
	call, err := lock.ParseCall("listAllLocksOwners", nil)
	require.NoError(b, err)
	answer, err := call.Do(restore(b, snapshot), time.Time{})
	require.NoError(b, err)
	text, err := json.Marshal([2]any{answer.Result, pending})
	require.NoError(b, err)
	return string(text)
}

// freeLocks returns the free locks as the lock monitor shows them.
func (b *bench) freeLocks() []answer.Lock {
	b.Helper()
	looker := b.caller(named("looker"))
	looker.number++
	looker.asked = looker.number
	looker.Ask(b.locks, &locks.Operate{Request: looker.asked, Operation: locks.ListRows{}})
	return slices.DeleteFunc(looker.expectResult().Value.([]answer.Lock), func(l answer.Lock) bool { return !strings.HasPrefix(l.Name, "lock/") })
}

// freeLocksOnDisk is freeLocks according to the files.
func (b *bench) freeLocksOnDisk() []answer.Lock {
	b.Helper()
	return slices.DeleteFunc(locks.RowsOf(restore(b, read(b, b.disk))), func(l answer.Lock) bool { return !strings.HasPrefix(l.Name, "lock/") })
}

// read is the state of all files together. The files of Ganeti's locks name no free lock.
func read(t require.TestingT, disk *kittest.Disk) lock.Snapshot {
	require.NotContains(t, disk.Content(paths.LocksPath)+disk.Content(paths.LocksJournalPath), `"lock/`)
	return lock.Join(readPart(t, disk, paths.LocksPath, paths.LocksJournalPath), readPart(t, disk, paths.FreeLocksPath, paths.FreeLocksJournalPath))
}

func readPart(t require.TestingT, disk *kittest.Disk, path, journal string) lock.Snapshot {
	var snapshot lock.Snapshot
	found, changes, err := lock.CutJournalHeader([]byte(disk.Content(journal)))
	require.NoError(t, err)
	if data := disk.Content(path); data != "" && (found == "" || found == boot) {
		snapshot, err = lock.Decode([]byte(data))
		require.NoError(t, err)
	}
	replayed, err := lock.Replay(snapshot, changes)
	require.NoError(t, err)
	return replayed.Snapshot
}

func restore(t require.TestingT, snapshot lock.Snapshot) *lock.State {
	state, _, err := lock.Restore(lock.Settings{Hierarchy: lock.Implied}, time.Time{}, snapshot)
	require.NoError(t, err)
	return state
}

// crash restarts the lock manager.
func (b *bench) crash() {
	b.Helper()
	b.Restart(b.locks)
	kittest.Expect[*messages.LocksStarted](b.told)
}

func countLines(text string) int { return strings.Count(text, "\n") }
