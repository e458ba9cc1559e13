package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// An adversary tries to keep one job, the victim, from its locks: with streams of jobs and with programs that do not end before the
// victim has begun. The other work of a run ends, so it outlasts no job for long.

// AdversaryOptions are the conditions of a run with an adversary.
type AdversaryOptions struct {
	Order     string // of jobs
	Mutations Mutations
	Sink      func(Line)
}

// adversaryPlan is what an adversary does.
type adversaryPlan struct {
	streams  []jobStream
	programs []lockProgram
	victim   []OpSpec
}

// jobStream submits the job, first after a time and then whenever so much time has passed. An end of 0 is none.
type jobStream struct {
	after, every, end time.Duration
	ops               []OpSpec
}

// lockProgram takes locks, keeps them for a time, and asks for them again at once.
type lockProgram struct {
	after, keeps time.Duration
	locks        string
}

// What every run has in common. A job is past reserve_after before the victim comes.
const (
	adversaryReserve = 3 * time.Second
	adversaryBypass  = time.Second
	adversaryLead    = 5 * time.Second
	adversaryMost    = 20 * time.Minute // the longest wait of a victim; older jobs are before it
)

// provenPlans have starved a job in the order expected.
var provenPlans = map[string]adversaryPlan{
	"second opcodes": {
		streams: []jobStream{
			{0, 1200 * time.Millisecond, 0, []OpSpec{"run run_for=0.1 priority=10", "run run_for=1.3 locks=node/a priority=10"}},
			{500 * time.Millisecond, 1200 * time.Millisecond, 0, []OpSpec{"run run_for=0.1 priority=10", "run run_for=1.3 locks=node/b priority=10"}}},
		victim: []OpSpec{"run run_for=1 locks=node/a,node/b priority=-10"}},
	"a limit and a lock": {
		streams: []jobStream{
			{0, 700 * time.Millisecond, 0, []OpSpec{"run run_for=0.9 limit=1:a"}},
			{400 * time.Millisecond, 700 * time.Millisecond, 0, []OpSpec{"run run_for=0.9 locks=node/a"}}},
		victim: []OpSpec{"run run_for=20 locks=node/a limit=1:a"}},
	"programs": {
		programs: []lockProgram{{0, 500 * time.Millisecond, "node/a"}, {200 * time.Millisecond, 500 * time.Millisecond, "node/a"}},
		victim:   []OpSpec{"run run_for=1 locks=node/a"}},
}

// drawPlan draws streams with second opcodes, limits, priorities above and below the victim's, and kinds with wrong expectations.
// More urgent streams end, and so early that their jobs do.
func drawPlan(rng *rand.Rand) adversaryPlan {
	var p adversaryPlan
	limits := []OpSpec{"", "", " limit=1:a", " limit=2:b"}
	locks := []OpSpec{"", " locks=node/a", " locks=node/b", " locks=node/a,node/b", " locks=instance/i,node/b"}
	op := func() OpSpec {
		return OpSpec(fmt.Sprintf("run run_for=%g kind=%d", float64(1+rng.IntN(25))/10, rng.IntN(3))) + locks[rng.IntN(len(locks))]
	}
	for range 1 + rng.IntN(4) {
		s := jobStream{after: time.Duration(rng.IntN(1000)) * time.Millisecond, every: time.Duration(300+rng.IntN(1500)) * time.Millisecond}
		words := limits[rng.IntN(len(limits))]
		switch rng.IntN(4) {
		case 0:
			words, s.end = words+" priority=-10", adversaryLead
		case 1:
			words += " priority=10"
		}
		for range 1 + rng.IntN(3) {
			s.ops = append(s.ops, op()+words)
		}
		p.streams = append(p.streams, s)
	}
	for range rng.IntN(3) {
		p.programs = append(p.programs, lockProgram{0, time.Duration(100+rng.IntN(2000)) * time.Millisecond, []string{"node/a", "node/b"}[rng.IntN(2)]})
	}
	p.victim = []OpSpec{op() + locks[1+rng.IntN(3)] + limits[rng.IntN(len(limits))]}
	return p
}

// adversaryDice separates the dice of an adversary from others of the same seed.
const adversaryDice = 0xadd

// RunAdversary makes the run of an adversary that is drawn from the seed. Err says that its victim starved.
func RunAdversary(seed uint64, o AdversaryOptions) Result {
	wait, w := runPlan(seed, drawPlan(rand.New(rand.NewPCG(seed, adversaryDice))), o)
	r := Result{Seed: seed, Steps: w.stepCount, Deliveries: w.deliveries, Sum: w.Sum(), Err: w.Err(), Last: w.Last(linesShown)}
	if r.Err == nil && wait == 0 {
		r.Err = fmt.Errorf("the victim has not begun after %v", adversaryMost)
	}
	return r
}

// runPlan runs a plan without faults until the victim has begun to execute. It returns the victim's wait; 0: it has not begun.
func runPlan(seed uint64, p adversaryPlan, o AdversaryOptions) (wait time.Duration, w *World) {
	v := &victimWatch{}
	checkers := []Checker{v, checkLocks{}, &checkLimits{}, &checkSlots{}}
	if len(p.programs) == 0 { // it does not know which locks programs have
		checkers = append(checkers, &checkExpected{})
	}
	w = New(Options{Seed: seed, Slots: 6, Starts: 4, Checkers: checkers, Mutations: o.Mutations, Sink: o.Sink})
	w.restartAfter = restartDelay
	w.nodes[0].startAgain()
	operator := w.newClient()
	operator.whenReady(func() {
		settings := map[string]any{"order": o.Order, "reserve_after": adversaryReserve.Seconds(), "lock_bypass_after": adversaryBypass.Seconds()}
		operator.set(settings, func(error) {
			for _, s := range p.streams {
				w.newClient().stream(s)
			}
			for i, q := range p.programs {
				w.newProgram(i, w.nodes[0]).run(q)
			}
			operator.later(adversaryLead, func() {
				operator.submit([][]OpSpec{p.victim}, func(s *submission) { v.id, v.came = s.ids[0], w.clock.Now() })
			})
		})
	})
	for end := w.clock.Now().Add(adversaryMost); v.began.IsZero() && w.clock.Now().Before(end) && w.Err() == nil && w.Step(); {
	}
	if v.began.IsZero() {
		return 0, w
	}
	return max(v.began.Sub(v.came), 1), w
}

// victimWatch sees when the victim begins to execute.
type victimWatch struct {
	id          int64
	came, began time.Time
}

func (*victimWatch) Name() string { return "the victim of an adversary" }

func (v *victimWatch) See(w *World, event any) error {
	if e, is := event.(opcodeStarted); is && e.job == v.id && v.id != 0 && v.began.IsZero() {
		v.began = w.clock.Now()
	}
	return nil
}

// stream submits jobs until the run ends, or until the end of the stream.
func (c *client) stream(s jobStream) {
	end := c.world.clock.Now().Add(s.end)
	var next func()
	next = func() {
		if s.end > 0 && c.world.clock.Now().After(end) {
			return
		}
		c.submit([][]OpSpec{s.ops}, nil)
		c.later(s.every, next)
	}
	c.later(s.after, next)
}

// run takes the locks of the plan, keeps them for a time, and begins again.
func (p *program) run(q lockProgram) {
	var next func()
	next = func() {
		p.take(strings.Split(q.locks, ","), func() { p.later(q.keeps, func() { p.free(next) }) })
	}
	p.later(q.after, next)
}
