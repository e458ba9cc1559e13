package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"lockstep/core/answer"
	"lockstep/core/jobproc"
	"lockstep/core/progress"
)

// progressWork is the work of clients that submit jobs whose commands say their progress, and look at it, in a run over random work. It has
// separate dice, so that the other work of a seed does not depend on it.
type progressWork struct {
	world *World
	rng   *rand.Rand
	left  int // jobs left, over all clients
	busy  int // clients that are not done
}

const (
	// ProgressSeeds is the usual value of runOptions.Progress.
	ProgressSeeds = 8
	// progressDice separates the dice of this work from others of the same seed.
	progressDice = 0x9046
	// progressMark begins each text about progress. No file has it.
	progressMark = "saying:"
)

// progressCount is the number of clients that look at progress in the run of a seed: 1 to 3 in one of oneOf seeds, otherwise 0.
func progressCount(seed uint64, oneOf int) int {
	rng := rand.New(rand.NewPCG(seed, progressDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return 0
	}
	return 1 + rng.IntN(3)
}

func newProgressWork(w *World, count int) *progressWork {
	k := &progressWork{world: w, rng: rand.New(rand.NewPCG(w.options.Seed, progressDice)), left: 4 * count, busy: count}
	for range count {
		k.think(w.newClient(), w.newClient())
	}
	return k
}

func (k *progressWork) done() bool { return k == nil || k.busy == 0 }

// think pauses, and submits the next job. A second client, other, looks at its progress.
func (k *progressWork) think(c, other *client) {
	c.later(time.Duration(k.rng.IntN(2000))*time.Millisecond, func() {
		if k.left == 0 {
			k.busy--
			return
		}
		k.left--
		k.submit(c, other)
	})
}

func (k *progressWork) submit(c, other *client) {
	ops := make([]OpSpec, 1+k.rng.IntN(3))
	for i := range ops {
		ops[i] = OpSpec(fmt.Sprintf("run says=%d every=%g run_for=%g", []int{0, 1, 3, 40}[k.rng.IntN(4)],
			[]float64{0, 0.1, 1, 7}[k.rng.IntN(4)], []float64{0.5, 5, 30}[k.rng.IntN(3)]))
	}
	c.submitAs(&submission{jobs: [][]OpSpec{ops}}, func(s *submission) {
		if s.ids == nil {
			k.think(c, other)
			return
		}
		ended := false
		c.awaitEnd(s.ids[0], func(string) { ended = true })
		var look func()
		look = func() {
			last := ended
			other.lookAtProgress(s.ids[0], func(*answer.Progress, error) {
				if last {
					k.think(c, other)
					return
				}
				other.later(time.Duration(k.rng.IntN(1500))*time.Millisecond, look)
			})
		}
		look()
	})
}

// The events of progress.
type (
	// progressSaid: the command of an opcode has said something about its progress, and its process will read it.
	progressSaid struct {
		process *process
		op      int
		line    progress.Line
	}
	// progressShown: a client was shown a job with the progress of its command, nil if there is none.
	progressShown struct {
		client *client
		job    answer.ListedJob
		asked  uint64 // step of the world at which the client has sent its question
	}
)

// lookAtProgress asks for a job with its progress.
func (c *client) lookAtProgress(id int64, done func(*answer.Progress, error)) {
	asked := c.world.stepCount
	c.rpc.call("LockstepListJobs", []any{answer.JobSelection{IDs: []int64{id}}}, answerMax, func(result json.RawMessage, err error) {
		var list answer.JobList
		if err == nil {
			mustDecode(result, &list)
		}
		if len(list.Jobs) != 1 {
			done(nil, err)
			return
		}
		c.world.notify(progressShown{c, list.Jobs[0], asked})
		done(list.Jobs[0].Progress, nil)
	})
}

// say says how far the command is for the nth time, from 1.
func (c *command) say(n int) {
	p, s := c.process, c.script
	if p.life.Over || p.hung {
		return // nobody reads it
	}
	line := progress.Line{Percent: float64(100 * n / s.says), Text: fmt.Sprintf("%s%d:%d:%d", progressMark, p.job, c.op, n)}
	p.machine.world.notify(progressSaid{p, c.op, line})
	p.then(func() {
		p.shell.event(func(now time.Time) jobproc.Actions { return p.shell.jobproc.Progressed(now, c.op, line) })
	})
}
