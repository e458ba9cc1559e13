package locks_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/store"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
	"lockstep/sim/longtest"
)

// tearing is a disk on which a failed append may leave a part.
type tearing struct {
	*kittest.Disk
	torn atomic.Int64
}

func (d *tearing) Append(op, path string, data []byte) error {
	err := d.Disk.Append(op, path, data)
	if err != nil {
		part := data[:int(d.torn.Add(37))%(len(data)+1)]
		_ = d.Disk.Append("torn", path, part)
	}
	return err
}

// user is a caller of a random run, with the locks that it may rely on.
type user struct {
	*caller
	id       lock.Owner
	has      map[lock.Lock]lock.Mode // granted and not freed since
	want     lock.Request            // of the unanswered call, or of the waiting request
	waits    bool                    // it has received that want waits
	function string                  // of the unanswered call, "" if there is none
	args     string
	dead     bool
}

// run is a random run.
type run struct {
	*bench
	rng   *rand.Rand
	calm  int // faults are rarer the larger it is
	users []*user
	stats map[string]int
}

func newRun(t *testing.T, seed int64, stats map[string]int) *run {
	e := kittest.New(t)
	disk := &tearing{Disk: kittest.NewDisk(nil)}
	r := &run{bench: newBench(t, e, disk.Disk), rng: rand.New(rand.NewSource(seed)), calm: 1 << (seed % 4), stats: stats}
	pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: disk, Writers: 2, Clients: []*actor.PID{e.PID("above-locks/locks")}}))
	r.locks = e.Start("locks", locks.Props(locks.Config{Env: e.Env, Store: pid, Queue: r.queue.PID, Clients: []*actor.PID{r.told.PID, r.scheduler()}, ClusterConfig: r.config.PID, Scheduler: r.sched.PID,
		Owners: r.port, Settings: lock.Settings{Hierarchy: lock.Implied, BypassAfter: 30 * time.Second}, Boot: boot, Self: self}))
	r.port.tell = func(livelock string) { r.Send(r.locks, &messages.OwnerDied{Livelock: livelock}) }
	for n := range 5 {
		text := job(n + 1)
		if n >= 3 {
			text = named(fmt.Sprint("tool-", n))
		}
		u := &user{caller: r.caller(text), has: map[lock.Lock]lock.Mode{}}
		require.NoError(t, json.Unmarshal([]byte(text), &u.id))
		r.users = append(r.users, u)
	}
	return r
}

var someLocks = []string{"cluster/BGL", "instance/i", "node/[lockset]", "node/a", "node/b", "node/c", "node-res/a", "cluster/config", "lock/d", "lock/e"}

// someItems are random items in the order in which locks are taken.
func (r *run) someItems() lock.Request {
	var req lock.Request
	for _, name := range someLocks {
		if r.rng.Intn(4) == 0 {
			l, _ := lock.ParseLock(name)
			req = append(req, lock.Item{Lock: l, Mode: lock.Shared + lock.Mode(r.rng.Intn(2))})
		}
	}
	return req
}

// step makes one random event happen.
func (r *run) step() {
	switch n := r.rng.Intn(100 * r.calm); {
	case n < 5:
		r.stats["append fails"]++
		r.disk.Fail("append locks", 1+r.rng.Intn(2))
	case n < 7:
		r.stats["other fails"]++
		r.disk.Fail([]string{"replace locks", "read locks", "replace locks " + paths.LocksJournalPath}[r.rng.Intn(3)], 1+r.rng.Intn(2))
	case n < 10:
		r.stats["crash"]++
		r.Send(r.locks, kittest.InjectedPanic{})
	case n < 12:
		r.stats["store crash"]++
		r.Send(r.PID("above-store/store"), kittest.InjectedPanic{})
	case n < 12+8*r.calm:
		r.Advance([]time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute}[r.rng.Intn(4)])
	case n < 13+9*r.calm:
		r.Settle()
	case n < 15+9*r.calm:
		r.dies(r.users[r.rng.Intn(len(r.users))])
	default:
		if u := r.users[r.rng.Intn(len(r.users))]; !u.dead && u.function == "" {
			r.ask(u)
		}
	}
}

// ask makes a user send a random call.
func (r *run) ask(u *user) {
	owner := u.owner
	if u.waits && r.rng.Intn(3) > 0 {
		u.begin("hasPendingRequest", "["+owner+"]")
		return
	}
	req := r.someItems()
	encoded, _ := json.Marshal(req)
	switch r.rng.Intn(7) {
	case 0:
		u.giveBack(func(lock.Lock) lock.Mode { return lock.None })
		u.begin("freeLocks", "["+owner+"]")
	case 1:
		u.giveBack(func(l lock.Lock) lock.Mode { return modeUnless(l.Level() == lock.Node, lock.None) })
		u.begin("freeLocksLevel", "["+owner+`,"node"]`)
	case 2:
		u.giveBack(func(l lock.Lock) lock.Mode { return modeUnless(l.Level() == lock.Node, lock.Shared) })
		u.begin("downGradeLocksLevel", "["+owner+`,"node"]`)
	case 3:
		u.request(req, "tryUpdateLocks", "["+owner+","+string(encoded)+"]")
	case 4:
		u.request(req, locks.AwaitFunction, fmt.Sprintf("[%s,%d,%s,%d]", owner, r.rng.Intn(3), encoded, r.rng.Intn(20)))
	default:
		u.request(req, "updateLocksWaiting", fmt.Sprintf("[%s,%d,%s]", owner, r.rng.Intn(3), encoded))
	}
}

func modeUnless(given bool, mode lock.Mode) lock.Mode {
	if given {
		return mode
	}
	return lock.Exclusive
}

// giveBack restricts what the user relies on, and drops its request.
func (u *user) giveBack(most func(lock.Lock) lock.Mode) {
	u.waits, u.want = false, nil
	for l, mode := range u.has {
		if u.has[l] = min(mode, most(l)); u.has[l] == lock.None {
			delete(u.has, l)
		}
	}
}

// request sends a request. A request for a lock in a weaker mode releases the stronger
// mode.
func (u *user) request(req lock.Request, function, args string) {
	if u.waits {
		return
	}
	for _, i := range req {
		if u.has[i.Lock] > i.Mode {
			u.has[i.Lock] = i.Mode
		}
	}
	u.want = req
	u.begin(function, args)
}

func (u *user) begin(function, args string) {
	u.function, u.args = function, args
	u.call(function, args)
}

func (r *run) dies(u *user) {
	r.stats["death"]++
	r.port.mu.Lock()
	r.port.dead[u.id.Livelock] = true
	r.port.mu.Unlock()
	u.dead, u.function = true, ""
	u.giveBack(func(lock.Lock) lock.Mode { return lock.None })
	r.Send(r.locks, &messages.OwnerDied{Livelock: u.id.Livelock})
}

// news handles the answers, and repeats the calls that need it.
func (r *run) news() {
	again := slices.ContainsFunc(r.told.Unread(), func(m any) bool { _, started := m.(*messages.LocksStarted); return started })
	for _, u := range r.users {
		for _, m := range u.Unread() {
			if a, is := m.(*locks.OperateResult); is && a.Request == u.asked && u.function != "" {
				r.answered(u, a)
			}
		}
		if again && u.function != "" {
			op, err := operation(u.function, u.args)
			require.NoError(r, err)
			u.Ask(r.locks, &locks.Operate{Request: u.asked, Operation: op})
		}
	}
}

func (r *run) answered(u *user, a *locks.OperateResult) {
	function, result := u.function, string(locks.Encode(a.Value))
	u.function = ""
	granted := false
	switch {
	case a.Failure != nil:
		r.stats["failure"]++
		require.Equal(r, classOf(a.Failure.Text), a.Failure.Class)
	case function == "hasPendingRequest":
		granted = u.waits && result == "false"
	case function == locks.AwaitFunction:
		granted = strings.Contains(result, `"granted":true`)
		u.waits = !granted
	case function == "updateLocksWaiting":
		granted = result == "[]"
		u.waits = !granted
	case function == "tryUpdateLocks":
		granted = result == "[]"
	}
	if granted {
		r.stats["granted"]++
		u.waits = false
		for _, i := range u.want {
			u.has[i.Lock] = i.Mode
		}
	}
	if !u.waits {
		u.want = nil
	}
}

// check fails if two users rely on conflicting locks, or the disk lacks a lock on which a
// user relies.
func (r *run) check() {
	table, disk := lock.NewTable(lock.Implied), restore(r, read(r, r.disk))
	for _, u := range r.users {
		var all lock.Request
		for l, mode := range u.has {
			all = append(all, lock.Item{Lock: l, Mode: mode})
			require.GreaterOrEqual(r, disk.Allocation().Mode(u.id, l), mode, "%s: %s", u.owner, l)
		}
		blockers, err := table.Update(u.id, all)
		require.NoError(r, err)
		require.Empty(r, blockers, "%s has what others have, too", u.owner)
		if u.waits {
			require.True(r, disk.HasPending(u.id) || disk.Allocation().Held(u.id) != nil, "%s waits in vain", u.owner)
		}
	}
}

// end checks that after the last fault memory agrees with the disk and dead owners have
// nothing.
func (r *run) end() {
	for n := 0; n < 12 || r.managerStatus().Failure != "" && n < 100; n++ { // as often as the disk is ordered to fail
		r.Advance(time.Minute)
		r.news()
		r.Settle()
	}
	r.news()
	r.check()
	require.Empty(r, r.managerStatus().Failure)
	require.Empty(r, r.managerStatus().Quarantined)
	require.Equal(r, r.status(), r.onDisk())
	r.requireHoldersTold()
	require.Equal(r, r.freeLocks(), r.freeLocksOnDisk())
	for _, u := range r.users {
		require.Empty(r, u.function, "%s has no answer to %s%s", u.owner, u.function, u.args)
		if u.dead {
			require.NotContains(r, r.status(), u.id.Livelock)
		}
	}
}

// requireHoldersTold checks that the last ConfigLocks has the holders.
func (r *run) requireHoldersTold() {
	told := r.config.Unread()
	require.NotEmpty(r, told)
	want := locks.ConfigLocks{Config: map[lock.Owner]lock.Mode{}}
	snapshot := read(r, r.disk)
	snapshot.Pending = nil // a request that waits only behind an overdue one would be granted
	disk := restore(r, snapshot)
	for _, o := range disk.Owners() {
		if mode := disk.Allocation().Mode(o, lock.ConfigLock); mode != lock.None {
			want.Config[o] = mode
		}
		if disk.Allocation().Mode(o, lock.BGL) == lock.Exclusive {
			want.BGL = o
		}
	}
	require.Equal(r, &want, told[len(told)-1])
}

// Owners make random calls while the disk fails and the lock manager and the store crash.
// All that was granted and not freed is on the disk, and no two owners are ever granted
// conflicting locks.
func TestRandomCallsAndFaults(t *testing.T) {
	stats := map[string]int{}
	runs := longtest.Times(150)
	for seed := range int64(runs) {
		ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRun(t, seed, stats)
				r.queue.Answer(func(m any) any {
					if m, asked := m.(*messages.AwaitJobCleanup); asked {
						return &messages.JobCleanedUp{Id: m.Id}
					}
					return nil
				})
				for range 150 {
					r.step()
					if r.rng.Intn(3) > 0 {
						r.Settle()
						r.news()
						r.check()
					}
				}
				r.end()
			})
		})
		require.True(t, ok)
	}
	t.Log(stats)
	require.Greater(t, stats["granted"], runs*3)
}
