package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// workload is the work of the clients in a run over random work. Each client submits, sometimes
// waits for one of its jobs, pauses, and continues until its share is done.
type workload struct {
	world    *World
	rng      *rand.Rand
	left     int // submissions left, over all clients
	busy     int // clients that are not done
	requests *requestLog
}

func newWorkload(w *World, clients, submissions int, recipe *Recipe) *workload {
	dice := rand.NewPCG(w.options.Seed, 0x30a4)
	work := &workload{world: w, rng: rand.New(dice), left: submissions, busy: clients, requests: newRequestLog(dice, recipe)}
	for range clients {
		c := w.newClient()
		c.namesJobs = true
		work.think(c)
	}
	if work.rng.IntN(3) > 0 {
		work.newOperator()
	}
	return work
}

func (k *workload) done() bool { return k.busy == 0 }

// think schedules the next request of a client after a pause, if there is work left.
func (k *workload) think(c *client) {
	pause := time.Duration(k.rng.IntN(2000)) * time.Millisecond
	if k.rng.IntN(3) == 0 {
		pause = 0
	}
	k.requests.scheduleNext(c, pause, func() { k.submit(c) })
}

func (k *workload) submit(c *client) {
	if what := k.requests.begin(c, func() requestKind {
		if k.left == 0 {
			return requestNone
		}
		return requestSubmit
	}); what == requestNone {
		k.busy--
		return
	}
	k.left--
	jobs := make([][]OpSpec, 1)
	if k.rng.IntN(4) == 0 {
		jobs = make([][]OpSpec, 2+k.rng.IntN(3))
	}
	for i := range jobs {
		jobs[i] = k.job(i)
	}
	k.send(c, jobs)
}

// send submits jobs. If the outcome is unknown, a client that names its submissions sends them
// again, for a minute.
func (k *workload) send(c *client, jobs [][]OpSpec) {
	tries := 0
	var answered func(*submission)
	answered = func(s *submission) {
		switch {
		case s.ids != nil:
			k.followUp(c, s.ids[k.rng.IntN(len(s.ids))])
		case c.namesSubmissions() && s.outcome() == unknown && tries < resendMost:
			tries++
			c.later(time.Second, func() { c.resend(s, answered) })
		default:
			k.think(c)
		}
	}
	c.submit(jobs, answered)
}

// resendMost bounds the repetitions of a submission.
const resendMost = 60

// followUp makes the client's next request about one of its jobs, drawn at random, and then lets the client think.
func (k *workload) followUp(c *client, id int64) {
	think := func() { k.think(c) }
	if !k.requests.followUp(c) {
		think()
		return
	}
	switch k.rng.IntN(11) {
	case 0, 1, 2, 3:
		c.awaitEnd(id, func(status string) {
			c.tracef("sees job %d end with %q", id, status)
			if isFinal(status) && k.rng.IntN(3) == 0 {
				c.archive(id, think)
				return
			}
			k.think(c)
		})
	case 4, 5:
		kill := k.rng.IntN(2) == 0
		c.later(k.pause(), func() { c.cancel(id, kill, think) })
	case 6:
		priority := k.rng.IntN(40) - 20
		c.later(k.pause(), func() { c.reprioritise(id, priority, think) })
	case 7:
		k.orderAtMoment(c, processMoment{id, momentEnds}, think)
	case 8:
		k.orderAtMoment(c, processMoment{id, momentAsks}, think)
	case 9:
		k.archiveDependency(c, id)
	default:
		k.holdForAWhile(c, id)
	}
}

// holdForAWhile holds a job, and releases it whatever the answer was.
func (k *workload) holdForAWhile(c *client, id int64) {
	c.setHold(id, true, func(bool, bool, string) {
		c.later(k.pause(), func() { c.release(id, func() { k.think(c) }) })
	})
}

// momentMax is how long a client waits for a moment of a job's process, and crossSteps the most
// steps of its own that follow.
const (
	momentMax   = 5 * time.Second
	momentSteps = 60
)

// orderAtMoment sends a client order at a moment of a job's process, while the messages about
// that moment are in transit in the daemon.
func (k *workload) orderAtMoment(c *client, at processMoment, done func()) {
	steps, what, priority := k.rng.IntN(momentSteps), k.rng.IntN(4), k.rng.IntN(40)-20
	sent := false
	order := func() {
		if what > 1 {
			c.reprioritise(at.job, priority, done)
			return
		}
		c.cancel(at.job, what == 1, done)
	}
	var step func()
	step = func() {
		if steps--; steps < 0 {
			order()
			return
		}
		c.rpc.thread.Do(step)
	}
	begin := func() {
		if !sent {
			sent = true
			c.rpc.thread.Do(step)
		}
	}
	k.world.moments[at] = append(k.world.moments[at], begin)
	c.world.clock.After(momentMax, c.world.life, begin)
}

// archiveDependency submits jobs that depend on a job, and archives that job as soon as it has
// ended. The new jobs may still wait for something else, or depend on it with a later opcode.
func (k *workload) archiveDependency(c *client, id int64) {
	wait := []float64{0, 0.3, 5, 60}[k.rng.IntN(4)]
	after := OpSpec(fmt.Sprintf(" after=%d:success,error,canceled", id))
	jobs := [][]OpSpec{{OpSpec(fmt.Sprintf("run run_for=%g", wait)), "delay 0.01" + after}, {"delay 0.01" + after}}
	c.submit(jobs, func(*submission) {
		c.awaitEnd(id, func(status string) {
			if !isFinal(status) {
				k.think(c)
				return
			}
			c.archive(id, func() { k.think(c) })
		})
	})
}

// job makes the nth job of a submission. A job that waits between two opcodes for another job has
// no rate limit: if the other job had the same limit, they would wait for each other.
func (k *workload) job(n int) []OpSpec {
	ops := make([]OpSpec, 1+k.rng.IntN(3))
	limited := k.rng.IntN(8) == 0
	for i := range ops {
		ops[i] = k.opcode()
		if i == 0 || !limited {
			ops[i] += k.dependencies(n)
		}
		if limited {
			ops[i] += " limit=" + []OpSpec{"1:a", "2:a", "1:b"}[k.rng.IntN(3)]
		}
		if k.rng.IntN(12) == 0 {
			ops[i] += " priority=" + []OpSpec{"-10", "10"}[k.rng.IntN(2)]
		}
	}
	return ops
}

// dependencies are dependencies on earlier jobs of any client, or on jobs that do not exist.
func (k *workload) dependencies(n int) (words OpSpec) {
	for range 2 {
		if k.rng.IntN(8) == 0 {
			statuses := []string{"", ":success", ":error", ":success,error", ":success,error,canceled"}
			words += OpSpec(fmt.Sprintf(" after=%d%s", k.before(n), statuses[k.rng.IntN(len(statuses))]))
		}
	}
	return words
}

func (k *workload) before(n int) int64 {
	switch latest := k.world.serial(); {
	case n > 0 && k.rng.IntN(2) == 0:
		return -1 - k.rng.Int64N(int64(n))
	case k.rng.IntN(8) == 0:
		return latest + k.rng.Int64N(4)
	default:
		return 1 + k.rng.Int64N(latest+1)
	}
}

func (k *workload) pause() time.Duration {
	if k.rng.IntN(2) == 0 {
		return 0
	}
	return time.Duration(k.rng.IntN(1000)) * time.Millisecond
}

// rareOpcode is an opcode that ends in a special way, which the drawn number chooses.
func rareOpcode(spell float64) OpSpec {
	switch spell {
	case 0:
		return "delay 1 unknown"
	case 0.01:
		return "jqueue"
	case 0.3:
		return "jqueue notify"
	case 2:
		return "run run_for=30 timeout=0.5 stubborn"
	default:
		return "OP_CLUSTER_VERIFY"
	}
}

func (k *workload) opcode() OpSpec {
	// Short opcodes make concurrent events meet.
	spell := []float64{0, 0.001, 0.01, 0.3, 2}[k.rng.IntN(5)]
	switch k.rng.IntN(14) {
	case 10, 11, 12:
		locks := k.locks()
		// No further dice: the runs of known seeds do not change.
		hides := []string{"", " hides=session", " hides=environment"}[len(locks)%3]
		if hides != "" && k.world.options.Groups {
			hides = " hides=both"
		}
		return OpSpec(fmt.Sprintf("run run_for=%g locks=%s%s", spell, locks, hides))
	case 13:
		return OpSpec(fmt.Sprintf("run run_for=%g any=%d:node/a,node/b,node/c locks=node-res/a", spell, 1+k.rng.IntN(2)))
	case 0:
		return rareOpcode(spell)
	case 1, 2:
		return OpSpec(fmt.Sprintf("delay %g", spell+0.001))
	case 3:
		return OpSpec(fmt.Sprintf("run run_for=%g exit=%d", spell, 1+k.rng.IntN(9)))
	case 4:
		return OpSpec(fmt.Sprintf("run run_for=%g say=hello", spell))
	case 5:
		return OpSpec(fmt.Sprintf("run run_for=%g stubborn", spell))
	default:
		return OpSpec(fmt.Sprintf("run run_for=%g", spell))
	}
}

// locks draws from few locks, so that jobs conflict: single nodes, all nodes, a free lock, and now and then
// the big lock.
func (k *workload) locks() string {
	if k.rng.IntN(12) == 0 {
		return "cluster/BGL"
	}
	names := []string{"instance/i", "node/[lockset]", "node/a", "node/b", "node-res/a"}
	var locks []string
	for _, name := range names {
		switch k.rng.IntN(6) {
		case 0:
			locks = append(locks, name)
		case 1:
			locks = append(locks, name+":shared")
		}
	}
	text := strings.Join(locks, ",")
	if locks == nil {
		text = "node/a"
	}
	// No further dice, as above. Half of them share or hold a free lock.
	return text + []string{"", ",free:shared", "", ",free"}[len(text)%4]
}
