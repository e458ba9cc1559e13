package throughput

import (
	"container/heap"
	"fmt"
	"math"
	"time"

	"lockstep/core/config"
	"lockstep/core/durations"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/core/sched"
	"lockstep/sim/study"
)

// epoch is the beginning of virtual time, at the beginning of a tick of the default length.
var epoch = time.Unix(1_800_000_000, 0)

// engine runs the work.
//
// Invariant: the queue numbers jobs in the order of their arrival; received and numbers are
// indexed by id, from 0 for job 1.
type engine struct {
	work      Work
	options   Options
	catalogue *opcode.Catalogue
	sched     *sched.State
	locks     *lock.State
	durations durations.Table

	now       time.Duration
	next      int // index of the next job to arrive
	scheduled eventHeap
	order     int // of the event that was scheduled last

	numbers  []int32
	received []time.Duration
	active   map[job.ID]*activeJob
	starting []*activeJob // chosen, without a lock request yet

	coreTime  stopwatch
	arrivals  []time.Duration // durations of the scheduler's core, by event
	ends      []time.Duration
	watermark *watermark

	ended, peakPending int
	waits              []float64
	slotTime, lockWait time.Duration
}

// activeJob is a job with a slot.
type activeJob struct {
	id           job.ID
	owner        lock.Owner
	ops          []opcodePlan  // opcodes that have not ended
	picked       time.Duration // when it got its slot
	executed     []executed    // opcodes that have ended
	waitingSince time.Duration // since when the job only waits
	began        bool
}

// executed is an opcode that has ended.
type executed struct {
	kind durations.Kind
	took time.Duration
}

// opcodePlan is an opcode as the daemon sees it, with its duration.
type opcodePlan struct {
	declared lock.Declaration
	kind     durations.Kind
	needs    lock.RequiredLocks
	duration time.Duration
}

// event says that a job begins or ends to work with locks.
type event struct {
	id    job.ID
	locks lock.Request
	ends  bool
}

func newEngine(work Work, o Options) *engine {
	n := work.Len()
	return &engine{work: work, options: o, catalogue: opcode.Builtin(),
		sched:   sched.NewState(sched.SettingsOf(o.Slots, o.Settings)),
		locks:   lock.New(lock.Settings{Hierarchy: lock.Implied, BypassAfter: o.Settings.LockBypass()}),
		numbers: make([]int32, 0, n), received: make([]time.Duration, 0, n), waits: make([]float64, 0, n),
		arrivals: make([]time.Duration, 0, n), ends: make([]time.Duration, 0, n+n/2),
		active: map[job.ID]*activeJob{}}
}

func (w *engine) time() time.Time { return epoch.Add(w.now) }

// step handles the next event, and everything that follows at the same moment. At one moment ends
// come before arrivals.
func (w *engine) step() error {
	if w.next == w.work.Len() || len(w.scheduled) > 0 && w.scheduled[0].at <= w.work.At(w.next) {
		return w.nextScheduled()
	}
	w.now = w.work.At(w.next)
	var together []int
	for ; w.next < w.work.Len() && w.work.At(w.next) == w.now; w.next++ {
		together = append(together, w.next)
	}
	return w.arrive(together...)
}

// nextScheduled moves the time to the earliest end of an opcode and handles it. The error is errStuck if there is none.
func (w *engine) nextScheduled() error {
	if len(w.scheduled) == 0 {
		return errStuck(w)
	}
	e := heap.Pop(&w.scheduled).(*opcodeEnd)
	w.now = e.at
	return w.opEnded(e.ends)
}

// arrive enqueues jobs, and runs the scheduler once.
func (w *engine) arrive(numbers ...int) error {
	if err := w.enqueue(numbers...); err != nil {
		return err
	}
	err := w.runScheduler()
	w.arrivals = append(w.arrivals, w.coreTime.reset())
	return err
}

// enqueue does what the scheduler's actor does with new jobs, and measures the time of the core alone. numbers are those of the work.
func (w *engine) enqueue(numbers ...int) error {
	for _, i := range numbers {
		plans, err := w.parsedOpcodes(i)
		if err != nil {
			return err
		}
		w.numbers, w.received = append(w.numbers, int32(i)), append(w.received, w.now)
		c := w.candidate(job.ID(len(w.numbers)), plans)
		w.coreTime.start()
		w.sched.Enqueue(c)
		w.coreTime.stop()
	}
	return nil
}

// candidate is a job with these opcodes left, as the scheduler's actor makes it.
func (w *engine) candidate(id job.ID, plans []opcodePlan) sched.Candidate {
	current, later := declaredLocks(plans)
	c := sched.Candidate{ID: id, ReceivedUs: epoch.Add(w.received[id-1]).UnixMicro(), Declared: current}
	if w.options.Settings.Order != config.OrderExpected {
		c.Declared = lock.Merge(current, later)
		return c
	}
	for i := range plans {
		if w.options.Clairvoyant {
			c.Expected += plans[i].duration
		} else {
			c.Expected += w.durations.Expect(plans[i].kind).Median
		}
	}
	return c
}

// parsedOpcodes parses the opcodes of a job as the daemon does.
func (w *engine) parsedOpcodes(i int) ([]opcodePlan, error) {
	ops := w.work.Job(i)
	plans := make([]opcodePlan, len(ops))
	for k, op := range ops {
		draft, err := w.catalogue.Parse(op.Input)
		if err != nil {
			return nil, fmt.Errorf("job %d of the work: %w", i+1, err)
		}
		needs, err := w.catalogue.RequiredLocks(draft.Input, nil)
		if err != nil {
			return nil, fmt.Errorf("job %d of the work: %w", i+1, err)
		}
		if len(needs.AnyOf) > 0 {
			return nil, fmt.Errorf("job %d of the work: opportunistic locks are not supported here", i+1)
		}
		plans[k] = opcodePlan{w.catalogue.Declare(draft.Input, nil), durations.KindOf(draft.Input, ""), needs, op.Duration}
	}
	return plans, nil
}

// declaredLocks are the expected locks of the current opcode, and of the later ones.
func declaredLocks(plans []opcodePlan) (current, later lock.Declaration) {
	for _, p := range plans[1:] {
		later = lock.Merge(later, p.declared)
	}
	return plans[0].declared, later
}

// runScheduler does what the scheduler's actor does after every message, and then starts the
// chosen jobs, until nothing changes at this moment.
func (w *engine) runScheduler() error {
	if err := w.pick(); err != nil {
		return err
	}
	for len(w.starting) > 0 {
		a := w.starting[0]
		w.starting = w.starting[1:]
		if err := w.takeLocks(a); err != nil {
			return err
		}
	}
	return nil
}

func (w *engine) pick() error {
	w.coreTime.start()
	picked := w.sched.Pick(w.time())
	w.coreTime.stop()
	for _, id := range picked {
		if a := w.active[id]; a != nil { // it continues
			a.picked = w.now
			w.begin(a)
			continue
		}
		plans, err := w.parsedOpcodes(int(w.numbers[id-1]))
		if err != nil {
			return err
		}
		a := &activeJob{id: id, owner: lock.JobOwner(id, "load", int(id)%math.MaxInt32), ops: plans, picked: w.now}
		w.active[id] = a
		w.begin(a)
	}
	return nil
}

// begin declares the locks of the current opcode, and permits it: a job with a slot is always
// permitted.
func (w *engine) begin(a *activeJob) {
	current, later := declaredLocks(a.ops)
	w.coreTime.start()
	w.sched.SetDeclared(a.id, current, later)
	w.coreTime.stop()
	a.waitingSince = w.now
	w.starting = append(w.starting, a)
}

// takeLocks requests all locks of the current opcode, as the job's process does. With them the opcode executes; else the job waits.
func (w *engine) takeLocks(a *activeJob) error {
	needs := a.ops[0].needs
	if !needs.NotEmpty() {
		return w.execute(a)
	}
	u, err := w.locks.UpdateWaiting(w.time(), lock.Pending{Owner: a.owner, Request: needs.Request})
	if err != nil {
		return fmt.Errorf("job %d: %w", a.id, err)
	}
	if err := w.locksChanged(u); err != nil {
		return err
	}
	if u.Granted {
		return w.execute(a)
	}
	return nil
}

// locksChanged passes the changes of the lock manager to the scheduler, and begins the jobs that
// have got their locks.
func (w *engine) locksChanged(u lock.Update) error {
	for _, o := range u.Changed {
		r := w.locks.Record(o)
		var pending lock.Request
		if r.Pending != nil {
			pending = r.Pending.Request
		}
		w.coreTime.start()
		w.sched.SetOwnerLocks(r.Owner, r.Locks, pending)
		w.coreTime.stop()
	}
	if err := w.pick(); err != nil {
		return err
	}
	for _, o := range u.Notify {
		if err := w.execute(w.active[o.Job]); err != nil {
			return err
		}
	}
	return nil
}

// execute begins the current opcode: it has its locks.
func (w *engine) execute(a *activeJob) error {
	w.lockWait += w.now - a.waitingSince
	if !a.began {
		a.began = true
		w.waits = append(w.waits, (w.now - w.received[a.id-1]).Seconds())
	}
	w.notify(a, false)
	return w.schedule(opcodeEnd{at: w.now + a.ops[0].duration, ends: a})
}

func (w *engine) notify(a *activeJob, ends bool) {
	if w.options.onEvent != nil {
		w.options.onEvent(event{a.id, a.ops[0].needs.Request, ends})
	}
}

// opEnded releases the locks, and begins the next opcode in the same slot.
func (w *engine) opEnded(a *activeJob) error {
	w.notify(a, true)
	a.executed = append(a.executed, executed{a.ops[0].kind, a.ops[0].duration})
	a.ops = a.ops[1:]
	if err := w.locksChanged(w.locks.Release(w.time(), a.owner)); err != nil {
		return err
	}
	if len(a.ops) > 0 {
		w.beginNext(a)
	} else {
		w.endJob(a)
	}
	err := w.runScheduler()
	w.ends = append(w.ends, w.coreTime.reset())
	return err
}

// beginNext begins the next opcode of a job, or takes its slot until it can get the locks.
func (w *engine) beginNext(a *activeJob) {
	c := w.candidate(a.id, a.ops)
	if !w.sched.GivesSlotBack(c, w.time()) {
		w.begin(a)
		return
	}
	w.coreTime.start()
	w.sched.Yield(a.id)
	w.sched.Enqueue(c)
	w.coreTime.stop()
	w.slotTime += w.now - a.picked
}

// endJob forgets a job, records how long its opcodes took, and counts it.
func (w *engine) endJob(a *activeJob) {
	w.coreTime.start()
	w.sched.Remove(a.id)
	w.coreTime.stop()
	delete(w.active, a.id)
	for _, op := range a.executed {
		w.durations.Record(op.kind, op.took, true)
	}
	w.ended++
	w.slotTime += w.now - a.picked
	if w.options.OnJob != nil {
		w.options.OnJob()
	}
}

var _ Work = (*study.Plan)(nil)
