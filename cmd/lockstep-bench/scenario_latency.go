package main

import (
	"context"
	"errors"
	"os"
	"time"

	"lockstep/core/lock"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// scenarioLocks acquires and releases a lock through the socket, which are two updates, and measures round trips of an echo process
// beside it.
func scenarioLocks(b *bench) error {
	d, c, err := b.startDaemon(false)
	if err != nil {
		return err
	}
	defer d.kill()
	c.close()
	if c, err = d.dial(persistence.WconfSocket); err != nil {
		return err
	}
	defer c.close()
	e, err := b.startEcho()
	if err != nil {
		return err
	}
	defer e.stop()
	livelock, err := persistence.CreateLivelock(persistence.LivelockDir(d.runDir()), "bench", ownership.Rules{})
	if err != nil {
		return err
	}
	defer func() { _ = livelock.Release() }()
	owner := lock.NamedOwner("bench", livelock.Path(), os.Getpid())
	for round := range b.each(b.rounds) {
		err := alternate(round,
			func() error {
				began := time.Now()
				for range b.sizes.locks / 2 {
					for _, mode := range []string{"exclusive", "release"} {
						var blockers []any
						if err := c.call(&blockers, "tryUpdateLocks", owner, [][]string{{"node/bench", mode}}); err != nil {
							return err
						}
						if len(blockers) > 0 {
							return errors.New("a free lock is refused")
						}
					}
				}
				b.recordRate("LockUpdates", time.Since(began), b.sizes.locks)
				return nil
			},
			func() error {
				began := time.Now()
				for range b.sizes.locks {
					if err := e.roundTrip(1); err != nil {
						return err
					}
				}
				b.recordRate("BareUpdates", time.Since(began), b.sizes.locks)
				return nil
			})
		if err != nil {
			return err
		}
	}
	return d.stop()
}

// scenarioWake measures the time from a client's request to change a queued job until another client,
// which waits for the change, has it. The change is on disk then.
func scenarioWake(b *bench) error {
	d, c, err := b.startDaemon(true)
	if err != nil {
		return err
	}
	defer d.kill()
	defer c.close()
	waiter, err := d.dial(persistence.LuxiSocket)
	if err != nil {
		return err
	}
	defer waiter.close()
	files, e, done, err := b.bareParts()
	if err != nil {
		return err
	}
	defer done()
	id, err := c.submit(command())
	if err != nil {
		return err
	}
	for round := range b.each(b.rounds) {
		err := alternate(round,
			func() error { return b.wake(c, waiter, id) },
			func() error {
				return b.timeEach("BareWake", b.sizes.wakes, func() error {
					return errors.Join(
						files.Replace("bare", paths.JobPath(id), make([]byte, jobSize)),
						files.SyncDir("bare", paths.QueueDir),
						e.roundTrip(1),
					)
				})
			})
		if err != nil {
			return err
		}
	}
	return d.stop()
}

func (b *bench) wake(c, waiter *client, id int64) error {
	var rows [][]int
	if err := c.call(&rows, "QueryJobs", []int64{id}, []string{"priority"}); err != nil {
		return err
	}
	priority, took := rows[0][0], make([]float64, b.sizes.wakes)
	for i := range took {
		seen := make(chan error, 1)
		go func() {
			seen <- waiter.call(nil, "WaitForJobChange", id, []string{"priority"}, []int{priority}, nil, 60)
		}()
		// A second request: when it is answered, the waiting call has most likely arrived.
		if err := c.call(&rows, "QueryJobs", []int64{id}, []string{"priority"}); err != nil {
			return err
		}
		priority = (priority + 1) % 10
		began := time.Now()
		if err := c.call(nil, "ChangeJobPriority", id, priority); err != nil {
			return err
		}
		if err := <-seen; err != nil {
			return err
		}
		took[i] = float64(time.Since(began).Nanoseconds())
	}
	b.record("Wake", median(took), len(took))
	return nil
}

// idleWarmup is the time between the start of a daemon and the measurement of its idle state.
const idleWarmup = 2 * time.Second

// scenarioIdle measures the wake-ups and the memory of an idle daemon.
func scenarioIdle(b *bench) error {
	d, c, err := b.startDaemon(false)
	if err != nil {
		return err
	}
	defer d.kill()
	c.close()
	pid := d.cmd.Process.Pid
	sleep(b.ctx, idleWarmup)
	for range b.each(b.rounds) {
		before, err := contextSwitches(pid)
		if err != nil {
			return err
		}
		began := time.Now()
		sleep(b.ctx, b.sizes.idle)
		after, err := contextSwitches(pid)
		if err != nil {
			return err
		}
		b.record("IdleWakeups", float64(switchesBetween(before, after))/time.Since(began).Seconds(), 1)
		bytes, err := residentBytes(pid)
		if err != nil {
			return err
		}
		b.record("IdleResident", bytes, 1)
	}
	return d.stop()
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
