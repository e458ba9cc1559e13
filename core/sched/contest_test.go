package sched

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// contest is jobs and programs that compete for slots, limits and locks: a State with a lock manager, in steps of a tenth of a second.
// It does what the scheduler's actor and job processes do.
type contest struct {
	*State
	locks   *lock.State
	now     time.Time
	jobs    map[job.ID]*rival // those that have not ended
	active  map[job.ID]*rival
	last    job.ID
	streams []func()
	begun   func(*rival, rivalOp) // an opcode has its locks
}

// rival is a job. What it wants need not be what it declares.
type rival struct {
	Candidate
	ops      []rivalOp // those that have not ended
	picked   time.Time
	executes time.Time // when it first had its locks
	until    time.Time // when its opcode ends; zero: it does not execute
}

type rivalOp struct {
	declared   lock.Declaration
	wants      lock.Request
	takes      time.Duration
	expected   time.Duration
	undeclared bool
}

const contestStep = 100 * time.Millisecond

func newContest(settings Settings) *contest {
	return &contest{State: NewState(settings), now: noon, jobs: map[job.ID]*rival{}, active: map[job.ID]*rival{},
		locks: lock.New(lock.Settings{Hierarchy: lock.Implied, BypassAfter: settings.LockBypass})}
}

// nodesOp is an opcode that wants nodes exclusively, and says so.
func nodesOp(takes time.Duration, names ...string) rivalOp {
	op := rivalOp{takes: takes, expected: takes}
	if len(names) > 0 {
		op.declared = wants(lock.Node, lock.ExclusiveSet, names...)
		op.wants = op.declared.Request()
	}
	return op
}

// submit adds a job.
func (c *contest) submit(priority int, limits []Limit, ops ...rivalOp) *rival {
	for i := range ops {
		if ops[i].undeclared && c.settings.LockBypass > 0 { // without a bound it could wait in its slot for ever
			ops[i].declared = lock.Declaration{}
		}
	}
	c.last++
	r := &rival{Candidate: Candidate{ID: c.last, Priority: priority, ReceivedUs: c.now.UnixMicro(), Limits: limits}, ops: ops}
	c.jobs[r.ID] = r
	c.Enqueue(r.candidate())
	return r
}

func (r *rival) candidate() Candidate {
	c := r.Candidate
	c.Declared, c.Expected = r.ops[0].declared, 0
	for _, op := range r.ops {
		c.Expected += op.expected
	}
	return c
}

// stream submits the job that next makes after a time and then whenever so much time has passed, for ever.
func (c *contest) stream(after, every time.Duration, next func()) {
	at := c.now.Add(after)
	c.streams = append(c.streams, func() {
		for !at.After(c.now) {
			next()
			at = at.Add(every)
		}
	})
}

// program takes a lock, keeps it for a time, and takes it again after a pause, for ever.
func (c *contest) program(name string, after, keeps time.Duration, req lock.Request) {
	owner := lock.NamedOwner(name, name, 1)
	at := c.now.Add(after)
	var held time.Time
	c.streams = append(c.streams, func() {
		switch has := len(c.locks.Allocation().Held(owner)) > 0; {
		case has && held.IsZero():
			held = c.now
		case has && c.now.Sub(held) >= keeps:
			held = time.Time{}
			at = c.now.Add(contestStep)
			c.report(c.locks.Release(c.now, owner))
		case !has && !at.After(c.now) && !c.locks.HasPending(owner):
			u, err := c.locks.UpdateWaiting(c.now, lock.Pending{Owner: owner, Request: req})
			if err != nil {
				panic(err)
			}
			c.report(u)
		}
	})
}

// run lets time pass until done says so; false: it has not.
func (c *contest) run(most time.Duration, done func() bool) bool {
	for end := c.now.Add(most); c.now.Before(end); c.now = c.now.Add(contestStep) {
		for _, next := range c.streams {
			next()
		}
		for _, id := range slices.Sorted(maps.Keys(c.active)) {
			if r := c.active[id]; !r.until.IsZero() && !r.until.After(c.now) {
				c.endOp(r)
			}
		}
		c.choose()
		if done() {
			return true
		}
	}
	return false
}

func (c *contest) endOp(r *rival) {
	r.until, r.ops = time.Time{}, r.ops[1:]
	c.report(c.locks.Release(c.now, jobOwner(r.ID)))
	if len(r.ops) == 0 {
		delete(c.active, r.ID)
		delete(c.jobs, r.ID)
		c.Remove(r.ID)
		return
	}
	if next := r.candidate(); c.GivesSlotBack(next, c.now) {
		c.Yield(r.ID)
		c.Enqueue(next)
	} else {
		c.begin(r)
	}
}

// choose starts the jobs that the State picks.
func (c *contest) choose() {
	for again := true; again; again = c.Unfinished() {
		for _, id := range c.Pick(c.now) {
			r := c.jobs[id]
			if c.active[id] == nil {
				c.active[id], r.picked = r, c.now
			}
			c.begin(r)
		}
	}
	if c.settings.LockBypass == 0 {
		for _, id := range c.RunningIDs() {
			if c.jobs[id].ReceivedUs+c.settings.ReserveAfter.Microseconds() <= c.now.UnixMicro() {
				c.locks.ForbidBypass(jobOwner(id))
			}
		}
	}
}

// begin asks for the locks of a job's opcode.
func (c *contest) begin(r *rival) {
	c.SetDeclared(r.ID, r.ops[0].declared, lock.Declaration{})
	if len(r.ops[0].wants) == 0 {
		c.execute(r)
		return
	}
	u, err := c.locks.UpdateWaiting(c.now, lock.Pending{Owner: jobOwner(r.ID), Priority: r.Priority, Request: r.ops[0].wants})
	if err != nil {
		panic(fmt.Sprint(r.ID, err))
	}
	if u.Granted {
		c.execute(r)
	}
	c.report(u)
}

func (c *contest) execute(r *rival) {
	if r.executes.IsZero() {
		r.executes = c.now
	}
	r.until = c.now.Add(max(r.ops[0].takes, contestStep))
	if c.begun != nil {
		c.begun(r, r.ops[0])
	}
}

// report tells the scheduler of changed owners, and begins the opcodes that have got their locks.
func (c *contest) report(u lock.Update) {
	for _, o := range u.Changed {
		rec := c.locks.Record(o)
		var pending lock.Request
		if rec.Pending != nil {
			pending = rec.Pending.Request
		}
		c.SetOwnerLocks(o, rec.Locks, pending)
	}
	for _, o := range u.Notify {
		if !o.Named {
			c.execute(c.jobs[o.Job])
		}
	}
}

// jobOwner is the owner of a job's locks, as the lock manager knows it.
func jobOwner(id job.ID) lock.Owner { return lock.JobOwner(id, "", 0) }

// adversaries are three that kept a job past ReserveAfter from its locks for ever. Each begins before the job comes, which is the
// most urgent in the first one, and returns it.
var adversaries = map[string]func(*contest) *rival{
	"later jobs with second opcodes": func(c *contest) *rival {
		for i, name := range []string{"a", "b"} {
			c.stream(time.Duration(i)*500*time.Millisecond, 1200*time.Millisecond, func() { c.submit(10, nil, nodesOp(100*time.Millisecond), nodesOp(1300*time.Millisecond, name)) })
		}
		c.run(5*time.Second, func() bool { return false })
		return c.submit(-10, nil, nodesOp(time.Second, "a", "b"))
	},
	"jobs of its limit, and others of its lock": func(c *contest) *rival {
		limit := []Limit{{"label", 1}}
		c.stream(0, 700*time.Millisecond, func() { c.submit(0, limit, nodesOp(900*time.Millisecond)) })
		c.stream(400*time.Millisecond, 700*time.Millisecond, func() { c.submit(0, nil, nodesOp(900*time.Millisecond, "a")) })
		c.run(5*time.Second, func() bool { return false })
		return c.submit(0, limit, nodesOp(20*time.Second, "a"))
	},
	"programs that take turns": func(c *contest) *rival {
		for i, name := range []string{"p", "q"} {
			c.program(name, time.Duration(i)*200*time.Millisecond, 500*time.Millisecond, lock.Request{{Lock: lock.Member(lock.Node, "a"), Mode: lock.Exclusive}})
		}
		c.run(5*time.Second, func() bool { return false })
		return c.submit(0, nil, nodesOp(time.Second, "a"))
	},
}

// No adversary keeps a job past ReserveAfter from its locks, in any order.
func TestNoAdversaryStarvesAnAgedJob(t *testing.T) {
	for name, begin := range adversaries {
		for _, order := range []Order{Plain, Weights, Expected} {
			for _, bypass := range []time.Duration{2 * time.Second, 0} {
				if order != Expected && bypass == 0 {
					continue // no bound is what Ganeti does
				}
				t.Run(fmt.Sprintf("%s, %s, bypass %v", name, order, bypass), func(t *testing.T) {
					settings := Defaults()
					settings.Slots, settings.Order, settings.ReserveAfter, settings.LockBypass = 6, order, 3*time.Second, bypass
					c := newContest(settings)
					r := begin(c)
					came := c.now
					require.True(t, c.run(20*time.Minute, func() bool { return !r.executes.IsZero() }), "it starves")
					t.Logf("it had its locks after %v, and its slot after %v", r.executes.Sub(came), r.picked.Sub(came))
				})
			}
		}
	}
}

// genRivalOp draws an opcode that wants up to two of three nodes. Its declaration may have no or all locks, and its expected
// duration be wrong.
var genRivalOp = rapid.Custom(func(t *rapid.T) rivalOp {
	tenths := rapid.IntRange(1, 25)
	names := rapid.SampledFrom([][]string{nil, {"a"}, {"b"}, {"c"}, {"a", "b"}, {"b", "c"}}).Draw(t, "names")
	op := nodesOp(time.Duration(tenths.Draw(t, "takes"))*contestStep, names...)
	op.expected = time.Duration(rapid.SampledFrom([]int{0, 1, 5, 20, 100}).Draw(t, "expected")) * contestStep
	op.undeclared = rapid.IntRange(0, 7).Draw(t, "undeclared") == 0
	return op
})

// vigil is what docs/predictive.md says about a job past ReserveAfter, watched while it waits.
type vigil struct {
	*contest
	victim  *rival
	promise time.Time
	before  map[job.ID]bool // jobs that had reservations before it, and more urgent ones
}

// see takes note of the promise, which is never moved to a later time.
func (c *vigil) see(t *rapid.T) {
	for i, a := range expectedOf(c.State).reserved.aged {
		if a.id != c.victim.ID {
			continue
		}
		require.True(t, c.promise.IsZero() || !a.promise.After(c.promise), "the promise was moved to a later time")
		if c.promise = a.promise; c.before == nil {
			c.before = map[job.ID]bool{}
			for _, earlier := range expectedOf(c.State).reserved.aged[:i] {
				c.before[earlier.id] = true
			}
		}
	}
}

// begins checks that nothing passes the job, past its promise and the bound of the lock manager, that had not begun. A job that
// comes to a later opcode while as many processes as slots are without one keeps its slot, and may pass it until it has its own.
func (c *vigil) begins(t *rapid.T, r *rival, op rivalOp) {
	v := c.victim
	if v == nil || r == v || !v.executes.IsZero() || r.Priority < v.Priority || c.promise.IsZero() || c.before[r.ID] {
		return
	}
	if r.picked.After(c.promise) && r.executes.Equal(c.now) {
		require.False(t, excludes(itemsOf(op.declared), itemsOf(v.ops[0].declared)), "job %d was started after the promise and takes locks before it", r.ID)
	}
	if !v.picked.IsZero() && c.now.Sub(v.picked) > c.settings.LockBypass+contestStep && r.picked.After(v.picked) {
		require.False(t, excludes(op.wants, v.ops[0].wants), "job %d, which had not begun, passes it in its slot", r.ID)
	}
}

// The claim of docs/predictive.md, for arrivals of all kinds: a job past ReserveAfter runs, unless more urgent work comes for ever.
func TestNobodyStarvesUnderAnyArrivals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := Defaults()
		settings.Order, settings.Slots = Expected, rapid.IntRange(1, 4).Draw(t, "slots")
		settings.ReserveAfter = time.Duration(rapid.IntRange(0, 40).Draw(t, "reserve")) * contestStep
		settings.LockBypass = time.Duration(rapid.SampledFrom([]int{0, 1, 20}).Draw(t, "bypass")) * contestStep
		c := &vigil{contest: newContest(settings)}
		c.begun = func(r *rival, op rivalOp) { c.begins(t, r, op) }
		genOps, genPlaces := rapid.SliceOfN(genRivalOp, 1, 3), rapid.SampledFrom([][]Limit{nil, nil, {{"x", 1}}, {{"y", 2}}, {{"x", 1}, {"y", 2}}})
		programs := rapid.IntRange(0, 2).Draw(t, "programs")
		if settings.LockBypass == 0 {
			programs = min(programs, 1) // without a bound, programs keep any job in its slot from its locks for ever, and its slot from others
		}
		urgentUntil := c.now.Add(4 * time.Second)
		for i := range rapid.IntRange(1, 5).Draw(t, "streams") {
			ops, limits := genOps.Draw(t, "ops"), genPlaces.Draw(t, "limits")
			priority := rapid.SampledFrom([]int{0, 0, 10, -10}).Draw(t, "priority")
			every := time.Duration(rapid.IntRange(2, 20).Draw(t, "every")) * contestStep
			c.stream(time.Duration(i)*contestStep, every, func() {
				if priority >= 0 || c.now.Before(urgentUntil) {
					c.submit(priority, limits, slices.Clone(ops)...)
				}
			})
		}
		for i := range programs {
			req := lock.Request{{Lock: lock.Member(lock.Node, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "lock")), Mode: lock.Exclusive}}
			c.program(fmt.Sprint("p", i), 0, time.Duration(rapid.IntRange(1, 30).Draw(t, "keeps"))*contestStep, req)
		}
		c.run(3*time.Second, func() bool { return false })
		c.victim = c.submit(0, genPlaces.Draw(t, "limits of the job"), genOps.Draw(t, "its opcodes")...)
		require.True(t, c.run(20*time.Minute, func() bool { c.see(t); return !c.victim.executes.IsZero() }), "it starves")
	})
}
