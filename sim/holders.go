package sim

import (
	"math/rand/v2"
	"time"
)

// holders is the work of clients that hold jobs whose processes are being started, in a run over random work whose job
// programs take time to load. They have their own dice, so that the other work of a seed does not depend on them.
type holders struct {
	world   *World
	rng     *rand.Rand
	idle    []*client
	clients int
	left    int // holds left, over all clients
}

const (
	// HolderSeeds is the usual value of runOptions.Holders.
	HolderSeeds = 3
	// holderDice separates the dice of this work from others of the same seed.
	holderDice = 0x401d
)

// holderCount is the number of clients that hold jobs in the run of a seed: 1 to 3 in one of oneOf seeds, otherwise 0.
func holderCount(seed uint64, oneOf int) int {
	rng := rand.New(rand.NewPCG(seed, holderDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return 0
	}
	return 1 + rng.IntN(3)
}

func newHolders(w *World, count int) *holders {
	k := &holders{world: w, rng: rand.New(rand.NewPCG(w.options.Seed, holderDice)), left: 20 * count, clients: count}
	for range count {
		k.idle = append(k.idle, w.newClient())
	}
	return k
}

func (k *holders) done() bool { return k == nil || len(k.idle) == k.clients }

// loading is the time that the program of the next process takes to load; 0 in a run without holders.
func (k *holders) loading() time.Duration {
	if k == nil {
		return 0
	}
	return time.Duration(k.rng.Int64N([]int64{1, int64(5 * time.Millisecond), int64(time.Second)}[k.rng.IntN(3)]))
}

// observe has clients hold some of the jobs whose processes have been spawned, a moment later.
func (k *holders) observe(event any) {
	spawned, is := event.(processSpawned)
	if k == nil || !is || k.left == 0 || len(k.idle) == 0 || k.rng.IntN(3) == 0 {
		return
	}
	k.left--
	c := k.idle[0]
	k.idle = k.idle[1:]
	c.world.clock.After(k.loading(), c.world.life, func() { k.afterSteps(c, func() { k.hold(c, spawned.job) }) })
}

// afterSteps runs f while the messages about an event are in transit in the daemon.
func (k *holders) afterSteps(c *client, f func()) {
	steps := k.rng.IntN(momentSteps)
	var step func()
	step = func() {
		if steps--; steps < 0 {
			f()
			return
		}
		c.rpc.thread.Do(step)
	}
	c.rpc.thread.Do(step)
}

// hold holds a job once or twice, sometimes cancels it, and releases it at once or after a while.
func (k *holders) hold(c *client, id int64) {
	c.setHold(id, true, func(bool, bool, string) {
		release := func() { c.release(id, func() { k.idle = append(k.idle, c) }) }
		switch k.rng.IntN(6) {
		case 0, 1:
			k.afterSteps(c, release)
		case 2:
			c.setHold(id, true, func(bool, bool, string) { c.later(k.loading(), release) })
		case 3:
			c.cancel(id, false, release)
		default:
			c.later(2*k.loading(), release)
		}
	})
}
