package throughput

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/core/sched"
	"lockstep/sim/study"
)

// epoch is when virtual time begins, at the beginning of a tick of the default
// length.
var epoch = time.Unix(1_800_000_000, 0)

// world is the work while it is done.
//
// Invariant: jobs are numbered by id in the order in which they come, as the queue
// does it; received and numbers are by id, from 0 for job 1.
type world struct {
	work      Work
	options   Options
	catalogue *opcode.Catalogue
	sched     *sched.State
	locks     *lock.State

	now       time.Duration
	next      int // the next of the work to come
	scheduled schedule
	order     int           // of what was scheduled last
	followers map[int][]int // by the number of the job whose end they await
	chained   Chained       // nil if nobody awaits anybody

	numbers  []int32
	received []time.Duration
	active   map[job.ID]*active
	starting []*active // chosen, have not asked for locks yet

	core     stopwatch
	arrivals []time.Duration // what the scheduler's core has taken, by event
	ends     []time.Duration
	heap     *watermark

	ended, peak        int
	waits              []float64
	slotTime, lockWait time.Duration
}

// active is a job with a slot.
type active struct {
	id      job.ID
	owner   lock.Owner
	ops     []opcodePlan // those that have not ended
	picked  time.Duration
	waiting time.Duration // since when it only waits
	began   bool
}

// opcodePlan is an opcode as the daemon sees it, and how long it takes.
type opcodePlan struct {
	declared lock.Declaration
	needs    lock.Needs
	takes    time.Duration
}

// event tells who begins or ends to work with which locks.
type event struct {
	id    job.ID
	locks lock.Request
	ends  bool
}

func newWorld(work Work, o Options) *world {
	n := work.Len()
	w := &world{work: work, options: o, catalogue: opcode.Builtin(),
		sched: sched.NewState(sched.Settings{Slots: o.Slots, Predictive: o.Settings.Predictive, Base: o.Settings.PredictiveBase,
			Tick: o.Settings.PredictiveTick(), K: o.Settings.PredictiveTicks}),
		locks:   lock.New(lock.Settings{Lattice: lock.Implied, BypassAfter: o.Settings.LockBypass()}),
		numbers: make([]int32, 0, n), received: make([]time.Duration, 0, n), waits: make([]float64, 0, n),
		arrivals: make([]time.Duration, 0, n), ends: make([]time.Duration, 0, n+n/2),
		followers: map[int][]int{}, active: map[job.ID]*active{}}
	if chained, is := work.(Chained); is {
		w.chained = chained
		for i := range n {
			if preceding, _ := chained.After(i); preceding >= 0 {
				w.followers[preceding] = append(w.followers[preceding], i)
			}
		}
	}
	return w
}

func (w *world) time() time.Time { return epoch.Add(w.now) }

// follows tells whether a job comes only after another's end.
func (w *world) follows(i int) bool {
	if w.chained == nil {
		return false
	}
	preceding, _ := w.chained.After(i)
	return preceding >= 0
}

// step does what comes next, and all that happens at that moment because of it.
// At one moment ends go before arrivals.
func (w *world) step() error {
	for w.next < w.work.Len() && w.follows(w.next) {
		w.next++
	}
	if w.next == w.work.Len() || len(w.scheduled) > 0 && w.scheduled[0].at <= w.work.At(w.next) {
		return w.goOn()
	}
	w.now = w.work.At(w.next)
	var together []int
	for ; w.next < w.work.Len() && w.work.At(w.next) == w.now; w.next++ {
		if !w.follows(w.next) {
			together = append(together, w.next)
		}
	}
	return w.arrive(together...)
}

// goOn does what was scheduled for the soonest moment.
func (w *world) goOn() error {
	if len(w.scheduled) == 0 {
		return errStuck(w)
	}
	e := heap.Pop(&w.scheduled).(*scheduled)
	w.now = e.at
	if e.ends == nil {
		return w.arrive(e.comes)
	}
	return w.opEnded(e.ends)
}

// arrive puts jobs in line, and has the scheduler look once.
func (w *world) arrive(numbers ...int) error {
	if err := w.enqueue(numbers...); err != nil {
		return err
	}
	err := w.look()
	w.arrivals = append(w.arrivals, w.core.reset())
	return err
}

// enqueue is what the scheduler's actor does with news from the queue.
func (w *world) enqueue(numbers ...int) error {
	for _, i := range numbers {
		plans, err := w.plans(i)
		if err != nil {
			return err
		}
		atHand, later := declared(plans)
		w.numbers, w.received = append(w.numbers, int32(i)), append(w.received, w.now)
		c := sched.Candidate{ID: job.ID(len(w.numbers)), ReceivedUs: w.time().UnixMicro(), Declared: lock.Merge(atHand, later)}
		w.core.start()
		w.sched.Enqueue(c)
		w.core.stop()
	}
	return nil
}

// plans takes the opcodes of a job as the daemon does.
func (w *world) plans(i int) ([]opcodePlan, error) {
	ops := w.work.Job(i)
	plans := make([]opcodePlan, len(ops))
	for k, op := range ops {
		draft, err := w.catalogue.Parse(op.Input)
		if err != nil {
			return nil, fmt.Errorf("job %d of the work: %w", i+1, err)
		}
		needs, err := w.catalogue.Locks(draft.Input, nil)
		if err != nil {
			return nil, fmt.Errorf("job %d of the work: %w", i+1, err)
		}
		if len(needs.AnyOf) > 0 {
			return nil, fmt.Errorf("job %d of the work: opportunistic locks are not supported here", i+1)
		}
		plans[k] = opcodePlan{w.catalogue.Declare(draft.Input, nil), needs, op.Takes}
	}
	return plans, nil
}

// declared is what the opcode at hand is expected to lock, and those after it.
func declared(plans []opcodePlan) (atHand, later lock.Declaration) {
	for _, p := range plans[1:] {
		later = lock.Merge(later, p.declared)
	}
	return plans[0].declared, later
}

// look is what the scheduler's actor does after every message, and what those who
// are chosen do then until nothing more happens at this moment.
func (w *world) look() error {
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

func (w *world) pick() error {
	w.core.start()
	picked := w.sched.Pick(w.time())
	w.core.stop()
	for _, id := range picked {
		plans, err := w.plans(int(w.numbers[id-1]))
		if err != nil {
			return err
		}
		a := &active{id: id, owner: lock.JobOwner(id, "load", int(id)%math.MaxInt32), ops: plans, picked: w.now}
		w.active[id] = a
		w.begin(a)
	}
	return nil
}

// begin has the opcode at hand declared, and permitted: whoever has a slot is.
func (w *world) begin(a *active) {
	atHand, later := declared(a.ops)
	w.core.start()
	w.sched.SetDeclared(a.id, atHand, later)
	w.core.stop()
	a.waiting = w.now
	w.starting = append(w.starting, a)
}

// takeLocks asks for all locks of the opcode at hand, as the job's process does.
func (w *world) takeLocks(a *active) error {
	needs := a.ops[0].needs
	if !needs.Any() {
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

// locksChanged tells the scheduler what the lock manager has done, and those who
// have got their locks.
func (w *world) locksChanged(u lock.Update) error {
	for _, o := range u.Changed {
		r := w.locks.Record(o)
		var pending lock.Request
		if r.Pending != nil {
			pending = r.Pending.Request
		}
		w.core.start()
		w.sched.SetHeld(r.Owner, r.Locks, pending)
		w.core.stop()
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

// execute begins to work: the opcode at hand has its locks.
func (w *world) execute(a *active) error {
	w.lockWait += w.now - a.waiting
	if !a.began {
		a.began = true
		w.waits = append(w.waits, (w.now - w.received[a.id-1]).Seconds())
	}
	w.tell(a, false)
	return w.schedule(scheduled{at: w.now + a.ops[0].takes, ends: a})
}

func (w *world) tell(a *active, ends bool) {
	if w.options.watch != nil {
		w.options.watch(event{a.id, a.ops[0].needs.Request, ends})
	}
}

// opEnded gives the locks back, and goes on with the next opcode in the same slot.
func (w *world) opEnded(a *active) error {
	w.tell(a, true)
	a.ops = a.ops[1:]
	if err := w.locksChanged(w.locks.Release(w.time(), a.owner)); err != nil {
		return err
	}
	if len(a.ops) > 0 {
		w.begin(a)
	} else if err := w.left(a); err != nil {
		return err
	}
	err := w.look()
	w.ends = append(w.ends, w.core.reset())
	return err
}

// left forgets a job, and lets come who awaited its end.
func (w *world) left(a *active) error {
	w.core.start()
	w.sched.Leave(a.id)
	w.core.stop()
	delete(w.active, a.id)
	w.ended++
	w.slotTime += w.now - a.picked
	if w.options.Told != nil {
		w.options.Told()
	}
	var errs []error
	for _, i := range w.followers[int(w.numbers[a.id-1])] {
		_, think := w.chained.After(i)
		errs = append(errs, w.schedule(scheduled{at: max(w.work.At(i), w.now+think), comes: i}))
	}
	return errors.Join(errs...)
}

var _ Work = (*study.Plan)(nil)
