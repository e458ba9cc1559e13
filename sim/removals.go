package sim

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"lockstep/core/paths"
	"lockstep/core/wire"
)

// removals is an operator who removes files of ended jobs from the queue's directory, and a client who then asks for these jobs, in a run
// over random work on one node. They have separate dice, so that the other work of a seed does not depend on them.
type removals struct {
	world *World
	rng   *rand.Rand
	left  int
	busy  bool
}

const (
	// RemovalSeeds is the usual value of runOptions.Removals: other checkers judge less in a run with files that were removed.
	RemovalSeeds = 16
	// removalDice separates the dice of this work from others of the same seed.
	removalDice = 0x4e40
	// removalQuestions bounds the questions about one job, one a second.
	removalQuestions = 120
)

func newRemovals(w *World, seed uint64, oneOf int) *removals {
	rng := rand.New(rand.NewPCG(seed, removalDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return nil
	}
	k := &removals{world: w, rng: rng, left: 1 + rng.IntN(4), busy: true}
	k.next(w.newClient())
	return k
}

func (k *removals) done() bool { return k == nil || !k.busy }

// next removes the file of a job after a while. There may be none with an end yet.
func (k *removals) next(c *client) {
	if k.left == 0 {
		k.busy = false
		return
	}
	k.left--
	c.later(time.Duration(k.rng.IntN(8000))*time.Millisecond, func() {
		var ended []int64
		for _, id := range k.world.recordedIDs() {
			if j := k.world.Job(id); j != nil && j.Status().Final() && k.world.disk.Find(paths.ArchivePath(id)) == nil {
				ended = append(ended, id)
			}
		}
		if len(ended) == 0 {
			k.next(c)
			return
		}
		id := ended[k.rng.IntN(len(ended))]
		k.world.removeFile(id)
		k.ask(c, id, removalQuestions)
	})
}

// ask asks for the file of a job and for the list, until the list does not have the job.
func (k *removals) ask(c *client, id int64, left int) {
	door := doors[1+k.rng.IntN(3)] // those that need the file
	c.rpc.call(door.name, door.args(id), answerMax, func(result json.RawMessage, err error) {
		failed, isFailed := errors.AsType[*wire.Error](err)
		if isFailed && failed.Class == "JobLost" || err == nil && !door.found(result) {
			k.world.notify(fileMissed{id})
		}
		sent := k.world.clock.Now()
		c.list(func(rows []listed, err error) {
			has := slices.ContainsFunc(rows, func(row listed) bool { return row.ID == id })
			if has {
				k.world.notify(removedListed{id, sent})
			}
			if left--; (has || err != nil) && left > 0 && k.world.Job(id) == nil {
				c.later(time.Second, func() { k.ask(c, id, left) })
				return
			}
			k.next(c)
		})
	})
}

// removeFile removes the file of a job, as an administrator could.
func (w *World) removeFile(id int64) {
	w.garbled = true
	w.disk.Discard(paths.JobPath(id))
	w.trace.addf(topicFault, "job %d: its file is removed by hand", id)
	w.notify(garbled{id})
}
