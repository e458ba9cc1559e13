package main

import (
	"fmt"
	"runtime"
	"time"
)

// scenarioJob measures jobs that run one after the other, with lockstep and in a bare loop.
func scenarioJob(b *bench) error {
	return b.withBareLoop(func(c *client, loop *bareLoop) error {
		for round := range b.each(b.rounds) {
			err := alternate(round,
				func() error { return b.timeEach("Job", b.sizes.serialJobs, c.runNoOp) },
				func() error { return b.timeEach("BareJob", b.sizes.serialJobs, loop.runOne) },
				func() error { return b.chain(c) },
				func() error {
					began := time.Now()
					err := loop.runBatch(b.sizes.chain, 1)
					b.recordTime("BareChain", time.Since(began))
					return err
				})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// chain submits n jobs together, each of which depends on the previous job.
func (b *bench) chain(c *client) error {
	list := repeatJobs(b.sizes.chain, noOp)
	for _, ops := range list[1:] {
		ops[0]["depends"] = [][]any{{-1, []string{"success"}}}
	}
	began := time.Now()
	ids, err := c.submitMany(list)
	if err == nil {
		err = c.awaitSuccess(ids...)
	}
	b.recordTime("Chain", time.Since(began))
	return err
}

// scenarioJobs measures many jobs end to end, submitted together and run concurrently, with lockstep and in a bare loop.
func scenarioJobs(b *bench) error {
	return b.withBareLoop(func(c *client, loop *bareLoop) error {
		bare := func(workers int, name string) func() error {
			return func() error {
				began := time.Now()
				err := loop.runBatch(b.sizes.jobs, workers)
				b.recordRate(name, time.Since(began), b.sizes.jobs)
				return err
			}
		}
		lockstep := func(slots int) func() error { return func() error { return b.endToEnd(c, slots) } }
		for round := range b.each(b.rounds) {
			err := alternate(round, bare(1, "BareLoop/workers=1"), lockstep(20), bare(20, "BareLoop/workers=20"),
				bare(daemonStarts(), "BareLoop/starts"), lockstep(64), bare(64, "BareLoop/workers=64"))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// daemonStarts is the number of simultaneous starts of a daemon, see lockstepd --max-starts.
func daemonStarts() int { return 2 * runtime.NumCPU() }

func (b *bench) endToEnd(c *client, slots int) error {
	if err := c.call(nil, "LockstepSetSettings", map[string]any{"max_running_jobs": slots}); err != nil {
		return err
	}
	list := repeatJobs(b.sizes.jobs, noOp)
	began := time.Now()
	ids, err := c.submitMany(list)
	if err == nil {
		err = c.awaitSuccess(ids...)
	}
	b.recordRate(fmt.Sprintf("Jobs/slots=%d", slots), time.Since(began), len(list))
	return err
}
