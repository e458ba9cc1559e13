package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lockstep/edge/cgroup"
)

// groupPairs is how many pairs of commands a round has for each serial job of other scenarios: what a group costs is a small part of a job.
const groupPairs = 8

// scenarioGroup runs commands that do nothing, alternately with a control group of their own and without one. The daemons differ in this
// only.
func scenarioGroup(b *bench) error {
	parent := cgroup.Resolve(fmt.Sprintf("/sys/fs/cgroup/lockstep-bench-%d", os.Getpid()))
	err := os.Mkdir(parent, 0o755)
	if err == nil {
		defer func() {
			_ = cgroup.Kill(parent, time.Second)
			cgroup.Remove(parent)
		}()
		err = cgroup.IsGroup(parent)
	}
	if err != nil {
		b.notRun["JobInGroup"] = fmt.Sprintf("no control group of version 2 can be made: %v", err)
		return nil
	}
	var clients [2]*client
	for i, args := range [][]string{nil, {"--job-cgroup", filepath.Join(parent, "jobs")}} {
		d, c, err := b.startDaemon(false, args...)
		if err != nil {
			return err
		}
		defer d.kill()
		defer c.close()
		clients[i] = c
	}
	pairs := groupPairs * b.sizes.serialJobs
	for range b.each(b.rounds) {
		var times [2][]float64
		for pair := range pairs {
			steps := make([]func() error, len(clients))
			for i, c := range clients {
				steps[i] = func() error {
					began := time.Now()
					err := c.run(command())
					times[i] = append(times[i], float64(time.Since(began).Nanoseconds()))
					return err
				}
			}
			if err := alternate(pair, steps...); err != nil {
				return err
			}
		}
		b.record("JobInNoGroup", median(times[0]), pairs)
		b.record("JobInGroup", median(times[1]), pairs)
	}
	return nil
}
