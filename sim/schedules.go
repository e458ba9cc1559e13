package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"lockstep/core/wire"
)

// scheduleWork is the work of clients who define schedules, give orders about them and remove them in the end, in a run over random work.
// It has separate dice, so that the other work of a seed does not depend on it.
type scheduleWork struct {
	world *World
	rng   *rand.Rand
	busy  int // clients that are not done
}

const (
	// ScheduleSeeds is the usual value of runOptions.Schedules.
	ScheduleSeeds = 3
	// scheduleDice separates the dice of this work from others of the same seed.
	scheduleDice = 0x5ced
	// scheduleTag begins the tags of the jobs of schedules, of which each is followed by the id of the job (tagIn).
	scheduleTag = "schedule "
)

// scheduleCount is the number of clients with schedules in the run of a seed: 1 to 3 in one of oneOf seeds, otherwise 0.
func scheduleCount(seed uint64, oneOf int) int {
	rng := rand.New(rand.NewPCG(seed, scheduleDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return 0
	}
	return 1 + rng.IntN(3)
}

func newScheduleWork(w *World, count int) *scheduleWork {
	k := &scheduleWork{world: w, rng: rand.New(rand.NewPCG(w.options.Seed, scheduleDice)), busy: count}
	for i := range count {
		c := w.newClient()
		name := fmt.Sprintf("schedule-%d", i)
		c.later(time.Duration(k.rng.IntN(2000))*time.Millisecond, func() { k.define(c, name, func() { k.live(c, name, 2+k.rng.IntN(6)) }) })
	}
	return k
}

func (k *scheduleWork) done() bool { return k == nil || k.busy == 0 }

// live gives some orders about a schedule, and removes it.
func (k *scheduleWork) live(c *client, name string, orders int) {
	c.later(time.Duration(k.rng.IntN(20))*time.Second, func() {
		if orders == 0 {
			k.untilDone(c, "LockstepOrderSchedule", []any{name, "remove", nil}, func() { k.busy-- })
			return
		}
		again := func() { k.live(c, name, orders-1) }
		switch k.rng.IntN(7) {
		case 0:
			k.define(c, name, again)
		case 3:
			k.untilDone(c, "LockstepOrderSchedule", []any{name, "remove", nil}, func() { k.define(c, name, again) })
		case 1:
			c.rpc.call("LockstepOrderSchedule", []any{name, "run", nil}, answerMax, func(json.RawMessage, error) { again() })
		case 2:
			k.untilDone(c, "LockstepOrderSchedule", []any{name, "pause", nil}, func() {
				c.later(time.Duration(k.rng.IntN(10))*time.Second, func() {
					k.untilDone(c, "LockstepOrderSchedule", []any{name, "resume", nil}, again)
				})
			})
		default:
			again()
		}
	})
}

func (k *scheduleWork) define(c *client, name string, then func()) {
	op := OpSpec(fmt.Sprintf("run run_for=%g exit=%d", []float64{0, 0.1, 1, 8}[k.rng.IntN(4)], k.rng.IntN(2)))
	if k.rng.IntN(3) == 0 {
		op += " locks=node/a"
	}
	period := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 20 * time.Second}[k.rng.IntN(4)]
	definition := map[string]any{
		"name": name, "every_us": period.Microseconds(),
		"overlap":            []string{"skip", "queue", "replace", "allow"}[k.rng.IntN(4)],
		"catch_up":           []string{"none", "last", "all"}[k.rng.IntN(3)],
		"catch_up_within_us": ([]time.Duration{5 * time.Second, time.Minute, 24 * time.Hour}[k.rng.IntN(3)]).Microseconds(),
		"jitter_us":          ([]time.Duration{0, 0, 3 * time.Second}[k.rng.IntN(3)]).Microseconds(),
		"jobs":               []any{map[string]any{"ops": []json.RawMessage{op.Encode(scheduleTag + name)}}},
	}
	k.untilDone(c, "LockstepPutSchedule", []any{definition, map[string]any{"replace": true}}, then)
}

// untilDone makes a call, and repeats it until it has an answer that decides it.
func (k *scheduleWork) untilDone(c *client, method string, args []any, then func()) {
	c.rpc.call(method, args, answerMax, func(_ json.RawMessage, err error) {
		var failed *wire.Error
		if err == nil || errors.As(err, &failed) && strings.Contains(failed.Error(), "There is no schedule") {
			then()
			return
		}
		c.later(time.Second, func() { k.untilDone(c, method, args, then) })
	})
}
