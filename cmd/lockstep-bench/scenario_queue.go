package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"lockstep/core/paths"
	"lockstep/persistence"
)

// scenarioQueue measures a daemon with very many queued jobs: its start, its memory, and the list of all jobs.
func scenarioQueue(b *bench) error {
	d, c, err := b.startDaemon(true)
	if err != nil {
		return err
	}
	defer d.kill()
	empty, err := d.memory()
	if err != nil {
		return err
	}
	e, err := b.startEcho()
	if err != nil {
		return err
	}
	defer e.stop()
	if err := b.fill(c, b.sizes.queued); err != nil {
		return err
	}
	for round := range b.each(b.rounds) {
		c.close()
		if err := d.stop(); err != nil {
			return err
		}
		err := alternate(round,
			func() error { return b.startFull(d) },
			func() error { return b.readAll(d) })
		if err != nil {
			return err
		}
		if c, err = d.dial(persistence.LuxiSocket); err != nil {
			return err
		}
		now, err := d.memory()
		if err != nil {
			return err
		}
		b.record("ResidentPerJob", (now.resident-empty.resident)/float64(b.sizes.queued), b.sizes.queued)
		b.record("HeapPerJob", (now.heap-empty.heap)/float64(b.sizes.queued), b.sizes.queued)
		if err := b.list(c, e); err != nil {
			return err
		}
	}
	return nil // no orderly stop: the directory is removed
}

// fill queues n more jobs, 1000 in each submission.
func (b *bench) fill(c *client, n int) error {
	for done := 0; done < n; done += 1000 {
		if _, err := c.submitMany(repeatJobs(min(1000, n-done), command)); err != nil {
			return err
		}
	}
	return nil
}

// list lists all jobs, and then receives the same number of bytes from an echo process.
func (b *bench) list(c *client, e *echo) error {
	var rows json.RawMessage
	began := time.Now()
	if err := c.call(&rows, "QueryJobs", nil, []string{"id", "status", "summary"}); err != nil {
		return err
	}
	b.recordTime("List/all", time.Since(began))
	return b.timeEach("BareList/all", 1, func() error { return e.roundTrip(len(rows)) })
}

// startFull measures the time from the start of the daemon to its first answer.
func (b *bench) startFull(d *daemon) error {
	began := time.Now()
	if err := d.start(); err != nil {
		return err
	}
	c, err := d.dial(persistence.LuxiSocket)
	if err != nil {
		return err
	}
	defer c.close()
	err = c.call(nil, "LockstepStatus")
	b.recordTime("Start", time.Since(began))
	return err
}

// readAll reads all job files, one after the other, as the limit of a start, and records the time.
func (b *bench) readAll(d *daemon) error {
	began := time.Now()
	dir := filepath.Join(d.dataDir(), paths.QueueDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, isJob := paths.ParseJobName(entry.Name()); !isJob {
			continue
		}
		if _, err := os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	b.recordTime("BareReadAll", time.Since(began))
	return nil
}

// memoryUse is the memory of a daemon, in bytes: live heap after a collection, and resident before it.
type memoryUse struct{ heap, resident float64 }

func (d *daemon) memory() (m memoryUse, err error) {
	if m.resident, err = residentBytes(d.cmd.Process.Pid); err != nil {
		return m, err
	}
	m.heap, err = d.liveHeap()
	return m, err
}
