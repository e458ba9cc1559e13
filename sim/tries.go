package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"lockstep/core/paths"
)

// tryWork is the work of clients whose commands fail and have policies of tries, in a run over random work. Some of their jobs depend on
// others, and get client orders between tries. The work has separate dice, so that the other work of a seed does not depend on it.
type tryWork struct {
	world *World
	rng   *rand.Rand
	left  int             // submissions left, over all clients
	busy  int             // clients that are not done
	mine  map[int64]bool  // jobs
	idle  []*client       // who give orders between tries
	all   int             // who give orders
	seen  map[int64]int64 // by job: the start after which it was seen to wait for another try
}

const (
	// TrySeeds is the usual value of runOptions.Tries.
	TrySeeds = 2
	// tryDice separates the dice of this work from others of the same seed.
	tryDice = 0x7219
)

// tryCount is the number of clients whose commands have policies of tries in the run of a seed: 1 to 3 in one of oneOf seeds, otherwise 0.
func tryCount(seed uint64, oneOf int) int {
	rng := rand.New(rand.NewPCG(seed, tryDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return 0
	}
	return 1 + rng.IntN(3)
}

func newTryWork(w *World, count int) *tryWork {
	k := &tryWork{world: w, rng: rand.New(rand.NewPCG(w.options.Seed, tryDice)), left: 4 * count, busy: count,
		mine: map[int64]bool{}, seen: map[int64]int64{}, all: 2}
	for range k.all {
		k.idle = append(k.idle, w.newClient())
	}
	for range count {
		k.think(w.newClient())
	}
	return k
}

func (k *tryWork) done() bool { return k == nil || k.busy == 0 && len(k.idle) == k.all }

// think submits the next jobs after a pause.
func (k *tryWork) think(c *client) {
	c.later(time.Duration(k.rng.IntN(2000))*time.Millisecond, func() {
		if k.left == 0 {
			k.busy--
			return
		}
		k.left--
		k.submit(c)
	})
}

func (k *tryWork) submit(c *client) {
	jobs := [][]OpSpec{k.job("")}
	for k.rng.IntN(3) == 0 && len(jobs) < 3 {
		jobs = append(jobs, k.job(OpSpec([]string{" after=-1", " after=-1:success", " after=-1:error,canceled"}[k.rng.IntN(3)])))
	}
	c.submit(jobs, func(s *submission) {
		if s.ids == nil {
			k.think(c)
			return
		}
		for _, id := range s.ids {
			k.mine[id] = true
		}
		if k.rng.IntN(4) > 0 {
			c.awaitEnd(s.ids[0], func(string) { k.think(c) })
			return
		}
		c.later(time.Duration(k.rng.IntN(4000))*time.Millisecond, func() { k.order(c, s.ids[0], func() { k.think(c) }) })
	})
}

// job makes a job of one to three commands, of which some may be tried again.
func (k *tryWork) job(first OpSpec) []OpSpec {
	ops := make([]OpSpec, 1+k.rng.IntN(3))
	for i := range ops {
		ops[i] = k.command()
		if i == 0 {
			ops[i] += first
		}
		if k.rng.IntN(3) == 0 {
			ops[i] += OpSpec(" locks=" + []string{"node/a", "node/b:shared", "node/a,free", "instance/i,node/b"}[k.rng.IntN(4)])
		}
	}
	if k.rng.IntN(8) == 0 {
		ops[0] += OpSpec(" limit=" + []string{"1:a", "2:a"}[k.rng.IntN(2)])
	}
	return ops
}

// command is a command that fails often, most of them with a policy of tries.
func (k *tryWork) command() OpSpec {
	runs := []float64{0, 0.01, 0.3, 2}[k.rng.IntN(4)]
	ends := []string{
		"exit=1", "exit=75 fails=1", "exit=75 fails=2", "exit=3 fails=1", "timeout=0.5", "timeout=0.05 stubborn", "exit=0", "exit=1 fails=4",
	}[k.rng.IntN(8)]
	op := fmt.Sprintf("run run_for=%g %s", runs, ends)
	if k.rng.IntN(6) == 0 {
		return OpSpec(op)
	}
	times := 1 + k.rng.IntN(5)
	switch k.rng.IntN(8) {
	case 0:
		op += fmt.Sprintf(" retry=%d", times)
	default:
		delay := []string{"0.01", "0.01", "0.3", "2", "20"}[k.rng.IntN(5)]
		longest := []string{"", "", "30"}[k.rng.IntN(3)]
		causes := []string{"", "", ":75", ":timeout", ":lost", ":failure/lost", ":75/timeout/lost", ":1/3"}[k.rng.IntN(8)]
		op += fmt.Sprintf(" retry=%d:%s:%s%s", times, delay, longest, causes)
	}
	return OpSpec(op)
}

// order gives one order about a job, and calls done.
func (k *tryWork) order(c *client, id int64, done func()) {
	switch k.rng.IntN(5) {
	case 0:
		c.cancel(id, false, done)
	case 1:
		c.cancel(id, true, done)
	case 2:
		c.reprioritise(id, k.rng.IntN(40)-20, done)
	default:
		c.setHold(id, true, func(bool, bool, string) {
			c.later(time.Duration(k.rng.IntN(5000))*time.Millisecond, func() { c.release(id, done) })
		})
	}
}

// observe has clients give orders about some of the jobs that begin to wait for another try, a moment later.
func (k *tryWork) observe(w *World, event any) {
	e, is := event.(fileChanged)
	if k == nil || !is || e.job == nil || !k.mine[e.id] || !e.job.IsPending() || paths.IsJobLivelock(e.job.Livelock) {
		return
	}
	start := paths.StartOfLivelock(e.job.Livelock)
	if start == k.seen[e.id] || len(k.idle) == 0 {
		return
	}
	k.seen[e.id] = start
	if k.rng.IntN(4) > 0 {
		return
	}
	c := k.idle[0]
	k.idle = k.idle[1:]
	done := func() { k.idle = append(k.idle, c) }
	steps, pause := k.rng.IntN(momentSteps), time.Duration(k.rng.IntN(3)*k.rng.IntN(1000))*time.Millisecond
	var step func()
	step = func() {
		if steps--; steps >= 0 {
			c.rpc.thread.Do(step)
			return
		}
		k.order(c, e.id, done)
	}
	w.clock.After(pause, w.life, func() { c.rpc.thread.Do(step) })
}
