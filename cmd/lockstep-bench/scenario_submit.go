package main

import (
	"time"

	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// scenarioSubmit measures the time until a submission is acknowledged, which means on disk. No job
// runs.
func scenarioSubmit(b *bench) error {
	d, c, err := b.startDaemon(true)
	if err != nil {
		return err
	}
	defer d.kill()
	defer c.close()
	submitters := make(chan *client, clients)
	for range clients {
		one, err := d.dial(persistence.LuxiSocket)
		if err != nil {
			return err
		}
		defer one.close()
		submitters <- one
	}
	files, err := persistence.OpenFiles(d.dataDir(), ownership.Rules{})
	if err != nil {
		return err
	}
	defer files.Close()
	bare := bareSubmissions{files: files, next: firstBareID}
	for round := range b.each(b.rounds) {
		err := alternate(round,
			func() error { return b.submitAlone(c) },
			func() error { return b.submitBare(&bare) },
			func() error { return b.submitConcurrently(submitters) },
			func() error { return b.submitMany(c) },
			func() error { return b.submitManyBare(&bare) })
		if err != nil {
			return err
		}
		b.recordGains()
	}
	return d.stop()
}

func (b *bench) submitAlone(c *client) error {
	began := time.Now()
	err := b.timeEach("Submit/clients=1", b.sizes.submits, func() error {
		_, err := c.submit(command())
		return err
	})
	b.recordRate("SubmitRate/clients=1", time.Since(began), b.sizes.submits)
	return err
}

func (b *bench) submitConcurrently(submitters chan *client) error {
	n := clients * b.sizes.submitters
	began := time.Now()
	err := parallel(n, clients, func(int) error {
		c := <-submitters
		defer func() { submitters <- c }()
		_, err := c.submit(command())
		return err
	})
	b.recordRate("SubmitRate/clients=64", time.Since(began), n)
	return err
}

func (b *bench) submitMany(c *client) error {
	list := repeatJobs(b.sizes.many, command)
	began := time.Now()
	_, err := c.submitMany(list)
	b.recordRate("SubmitMany", time.Since(began), len(list))
	return err
}

// recordGains compares the 64 clients with the single client of the same round.
func (b *bench) recordGains() {
	alone, concurrent := b.samples["SubmitRate/clients=1"], b.samples["SubmitRate/clients=64"]
	last := len(alone) - 1
	b.record("SubmitGain/clients=64", concurrent[last].value/alone[last].value, concurrent[last].n)
}

// bareSubmissions writes the files of submissions without a queue.
type bareSubmissions struct {
	files *persistence.OSFiles
	next  int64
}

// submit writes n jobs and the serial durably, as a daemon does, with the given number of workers at the same time.
func (s *bareSubmissions) submit(n, workers int) error {
	content, first := make([]byte, jobSize), s.next
	s.next += int64(n)
	err := parallel(n, workers, func(i int) error {
		return s.files.Replace("bare", paths.JobPath(first+int64(i)), content)
	})
	if err == nil {
		err = s.files.SyncDir("bare", paths.QueueDir)
	}
	if err == nil {
		err = s.files.Replace("bare", bareSerial, paths.FormatSerial(s.next))
	}
	if err == nil {
		err = s.files.SyncDir("bare", paths.QueueDir)
	}
	return err
}

func (b *bench) submitBare(s *bareSubmissions) error {
	return b.timeEach("BareSubmit", b.sizes.submits, func() error { return s.submit(1, 1) })
}

// daemonWriters is the number of simultaneous disk operations of a daemon, see lockstepd --writers.
const daemonWriters = 32

// submitManyBare measures bare submissions of many jobs. They are also the limit of many clients: concurrent submissions can share their
// syncs.
func (b *bench) submitManyBare(s *bareSubmissions) error {
	began := time.Now()
	if err := s.submit(b.sizes.many, daemonWriters); err != nil {
		return err
	}
	b.recordRate("BareSubmitMany", time.Since(began), b.sizes.many)
	n := clients * b.sizes.submitters
	began = time.Now()
	for range b.sizes.submitters {
		if err := s.submit(clients, daemonWriters); err != nil {
			return err
		}
	}
	b.recordRate("BareSubmitters", time.Since(began), n)
	return nil
}
