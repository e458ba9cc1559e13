package main

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// updatingClients is the number of clients that change the configuration at the same time.
const updatingClients = 100

// scenarioConfigUpdates compares changes of one instance among few and among many instances.
func scenarioConfigUpdates(b *bench) error {
	var steps []func() error
	for _, of := range []struct {
		instances int
		name      string
	}{
		{b.sizes.fewInstances, "ConfigUpdates/few"},
		{b.sizes.manyInstances, "ConfigUpdates/many"},
	} {
		d, err := b.startConfigDaemon(of.instances)
		if err != nil {
			return err
		}
		defer d.kill()
		u, err := d.newUpdater(1)
		if err != nil {
			return err
		}
		defer u.close()
		steps = append(steps, func() error { return b.rateFor(of.name, b.sizes.updating, u.update) })
	}
	for round := range b.each(b.rounds) {
		if err := alternate(round, slices.Clone(steps)...); err != nil {
			return err
		}
	}
	return nil
}

// rateFor adds the rate of an operation that is repeated for some time.
func (b *bench) rateFor(name string, length time.Duration, do func() error) error {
	n, err := repeatFor(length, do)
	b.recordRate(name, length, n)
	return err
}

// repeatFor repeats an operation for some time and returns how often.
func repeatFor(length time.Duration, do func() error) (n int, err error) {
	for began := time.Now(); time.Since(began) < length && err == nil; n++ {
		err = do()
	}
	return n, err
}

// scenarioConfig measures a daemon with many instances: its fairness to several clients, and its memory.
func scenarioConfig(b *bench) error {
	d, err := b.startConfigDaemon(b.sizes.manyInstances)
	if err != nil {
		return err
	}
	defer d.kill()
	for range b.each(b.rounds) {
		if err := b.configFairness(d); err != nil {
			return err
		}
		resident, err := residentBytes(d.cmd.Process.Pid)
		if err != nil {
			return err
		}
		b.record("ConfigResident", resident, 1)
		b.record("ConfigFile", float64(d.size), 1)
	}
	return nil
}

// configFairness has many clients change an instance each at the same time. It adds the rate of the slowest relative to the mean.
func (b *bench) configFairness(d *configDaemon) error {
	counts, errs := make([]int, updatingClients), make([]error, updatingClients)
	var all sync.WaitGroup
	for i := range counts {
		u, err := d.newUpdater(i + 2)
		if err != nil {
			return err
		}
		defer u.close()
		all.Go(func() { counts[i], errs[i] = repeatFor(b.sizes.updating, u.update) })
	}
	all.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	b.record("ConfigFairness", float64(slices.Min(counts)*len(counts))/float64(sum), sum)
	b.recordRate("ConfigUpdates/clients=100", b.sizes.updating, sum)
	return errors.Join(errs...)
}
