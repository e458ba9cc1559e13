package sim

import (
	"encoding/json"
	"math/rand/v2"
	"time"
)

// timeWork is the work of clients whose jobs start at times, and who change these times, in a run over random work. The work has separate
// dice, so that the other work of a seed does not depend on it.
type timeWork struct {
	world *World
	rng   *rand.Rand
	left  int // submissions left, over all clients
	busy  int // clients that are not done
}

const (
	// TimeSeeds is the usual value of runOptions.Times.
	TimeSeeds = 3
	// timeDice separates the dice of this work from others of the same seed.
	timeDice = 0x71e5
)

// timeCount is the number of clients whose jobs start at times in the run of a seed: 1 to 3 in one of oneOf seeds, otherwise 0.
func timeCount(seed uint64, oneOf int) int {
	rng := rand.New(rand.NewPCG(seed, timeDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return 0
	}
	return 1 + rng.IntN(3)
}

func newTimeWork(w *World, count int) *timeWork {
	k := &timeWork{world: w, rng: rand.New(rand.NewPCG(w.options.Seed, timeDice)), left: 4 * count, busy: count}
	for range count {
		k.think(w.newClient())
	}
	return k
}

func (k *timeWork) done() bool { return k == nil || k.busy == 0 }

// think submits the next jobs after a pause.
func (k *timeWork) think(c *client) {
	c.later(time.Duration(k.rng.IntN(2000))*time.Millisecond, func() {
		if k.left == 0 {
			k.busy--
			return
		}
		k.left--
		k.submit(c)
	})
}

func (k *timeWork) submit(c *client) {
	s := &submission{}
	ops := []OpSpec{"run run_for=0.1 exit=0", "run run_for=2 exit=0 locks=node/a", "delay 0.3", "run exit=1 retry=2:0.3"}
	for range 1 + k.rng.IntN(3) {
		op := ops[k.rng.IntN(len(ops))]
		if len(s.jobs) > 0 && k.rng.IntN(3) == 0 {
			op += " after=-1"
		}
		s.jobs, s.at = append(s.jobs, []OpSpec{op}), append(s.at, k.time())
	}
	c.submitAs(s, func(s *submission) {
		if s.ids == nil {
			k.think(c)
			return
		}
		k.orders(c, s.ids, k.rng.IntN(3))
	})
}

// time is a time around now; zero: none.
func (k *timeWork) time() time.Time {
	choices := []time.Duration{0, -time.Second, 10 * time.Millisecond, time.Second, 5 * time.Second, 20 * time.Second, 90 * time.Second}
	after := choices[k.rng.IntN(len(choices))]
	if after == 0 {
		return time.Time{}
	}
	return k.world.clock.Now().Add(after + time.Duration(k.rng.IntN(1000))*time.Microsecond)
}

// orders gives some orders about the jobs, mostly another time, and then waits for the ends of all.
func (k *timeWork) orders(c *client, ids []int64, left int) {
	if left == 0 {
		k.await(c, ids)
		return
	}
	c.later(time.Duration(k.rng.IntN(4000))*time.Millisecond, func() {
		id, next := ids[k.rng.IntN(len(ids))], func() { k.orders(c, ids, left-1) }
		switch k.rng.IntN(8) {
		case 0:
			c.cancel(id, false, next)
		case 1:
			c.reprioritise(id, k.rng.IntN(40)-20, next)
		case 2:
			c.setHold(id, true, func(bool, bool, string) { c.release(id, next) })
		default:
			c.reschedule(id, k.time(), next)
		}
	})
}

func (k *timeWork) await(c *client, ids []int64) {
	if len(ids) == 0 {
		k.think(c)
		return
	}
	c.awaitEnd(ids[0], func(string) { k.await(c, ids[1:]) })
}

// reschedule changes the time of a job, and calls done when that is answered; the zero time is now.
func (c *client) reschedule(id int64, at time.Time, done func()) {
	text, us := "now", int64(0)
	if !at.IsZero() {
		text, us = at.Format(time.RFC3339Nano), at.UnixMicro()
	}
	c.world.notify(timeSent{id, us})
	c.world.notify(orderSent{c, id, false})
	c.rpc.call("LockstepOrderJobs", []any{"reschedule", []int64{id}, text}, answerMax, func(result json.RawMessage, err error) {
		answer := json.RawMessage("[false, null]")
		changed := false
		if err == nil {
			var answers []json.RawMessage
			var pair [2]any
			mustDecode(result, &answers)
			answer = answers[0]
			mustDecode(answer, &pair)
			changed = pair[0] == true
		}
		c.world.notify(timeAnswered{id, us, changed, err})
		c.answeredOrder("time "+text, id, answer, err, done)
	})
}
