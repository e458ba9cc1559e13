package main

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/persistence"
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

// scenarioConfig measures a daemon with many instances.
func scenarioConfig(b *bench) error {
	d, err := b.startConfigDaemon(b.sizes.manyInstances)
	if err != nil {
		return err
	}
	defer d.kill()
	few, err := b.startConfigDaemon(b.sizes.fewInstances)
	if err != nil {
		return err
	}
	defer few.kill()
	for round := range b.each(b.rounds) {
		err := errors.Join(b.configReads(round, d), b.configFairness(d), b.configBehind(d, few), b.configMemory(d))
		if err != nil {
			return err
		}
	}
	return nil
}

// configReads reads the configuration without a change before and after a change, and as many bytes from an echo process.
func (b *bench) configReads(round int, d *configDaemon) error {
	u, err := d.newUpdater(1)
	if err != nil {
		return err
	}
	defer u.close()
	c, err := d.dialBare()
	if err != nil {
		return err
	}
	defer c.close()
	e, path, err := b.launchEcho()
	if err != nil {
		return err
	}
	defer e.stop()
	bare, err := b.dialBare(path)
	if err != nil {
		return err
	}
	defer bare.close()
	read := encodeCall("readConfig")
	size, err := c.call(read)
	if err != nil {
		return err
	}
	echo := encodeCall("Echo", size)
	if _, err := bare.call(echo); err != nil {
		return err
	}
	one := func(name string, c *bareClient, request []byte, before func() error) func() error {
		return func() error {
			took := make([]float64, b.sizes.reads)
			for i := range took {
				if err := before(); err != nil {
					return err
				}
				began := time.Now()
				if _, err := c.call(request); err != nil {
					return err
				}
				took[i] = float64(time.Since(began))
			}
			b.record(name, median(took), len(took))
			return nil
		}
	}
	nothing := func() error { return nil }
	return alternate(round,
		one("ConfigRead", c, read, nothing),
		one("BareConfigRead", bare, echo, nothing),
		one("ConfigReadChanged", c, read, u.update),
	)
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

// changePause is the time between two changes of the stream that configBehind makes.
const changePause = 10 * time.Millisecond

// configBehind makes a stream of changes and adds how far config.data is behind, at most, and the processor time of folds: what a
// daemon with many instances needs more than one with few.
func (b *bench) configBehind(many, few *configDaemon) error {
	fewCPU, _, err := b.changeStream(few)
	if err != nil {
		return err
	}
	manyCPU, behind, err := b.changeStream(many)
	b.recordTime("ConfigBehind", behind)
	b.record("ConfigFoldCPU", manyCPU-fewCPU, 1)
	return err
}

// changeStream returns the processors used during a stream of changes, and how far config.data was behind.
func (b *bench) changeStream(d *configDaemon) (cores float64, behind time.Duration, err error) {
	u, err := d.newUpdater(1)
	if err != nil {
		return 0, 0, err
	}
	defer u.close()
	if err := u.call(nil, "flushConfig"); err != nil {
		return 0, 0, err
	}
	first, err := d.serialOnDisk()
	if err != nil {
		return 0, 0, err
	}
	var answered []time.Time // by serial number, from first+1
	before, err := processorTime(d.cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	for time.Since(began) < b.sizes.stream {
		if err := u.update(); err != nil {
			return 0, 0, err
		}
		answered = append(answered, time.Now())
		serial, err := d.serialOnDisk()
		if err != nil {
			return 0, 0, err
		}
		if done := int(serial - first); done < len(answered) {
			behind = max(behind, time.Since(answered[done]))
		}
		sleep(b.ctx, changePause)
	}
	after, err := processorTime(d.cmd.Process.Pid)
	return (after - before).Seconds() / time.Since(began).Seconds(), behind, err
}

// configMemory adds the memory of the daemon.
func (b *bench) configMemory(d *configDaemon) error {
	use, err := d.memory()
	b.record("ConfigResident", use.resident, 1)
	b.record("ConfigHeap", use.heap, 1)
	b.record("ConfigFile", float64(d.size), 1)
	return err
}

// scenarioConfigWrite measures writes of the whole configuration.
func scenarioConfigWrite(b *bench) error {
	some, err := b.startConfigDaemon(b.sizes.someInstances)
	if err != nil {
		return err
	}
	defer some.kill()
	many, err := b.startConfigDaemon(b.sizes.manyInstances)
	if err != nil {
		return err
	}
	defer many.kill()
	someWriter, err := some.newWholeWriter()
	if err != nil {
		return err
	}
	defer someWriter.close()
	manyWriter, err := many.newWholeWriter()
	if err != nil {
		return err
	}
	defer manyWriter.close()
	content := some.config.JSON()
	path := b.newDir()
	for round := range b.each(b.rounds) {
		err := alternate(round,
			func() error { return b.timeEach("ConfigWrite/some", b.sizes.wholeWrites, someWriter.write) },
			func() error {
				return b.timeEach("BareConfigWrite/some", b.sizes.wholeWrites, func() error { return parseAndWrite(path, content) })
			},
			func() error { return b.writeBesideOthers(many, manyWriter) })
		if err != nil {
			return err
		}
	}
	return nil
}

// parseAndWrite parses JSON and writes it to a file durably.
func parseAndWrite(path string, content []byte) error {
	var parsed any
	if err := json.Unmarshal(content, &parsed); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		return err
	}
	return unix.Fdatasync(int(file.Fd()))
}

// writeBesideOthers writes the whole configuration and adds the longest time that another client waits meanwhile.
func (b *bench) writeBesideOthers(d *configDaemon, w *wholeWriter) error {
	other, err := d.dial(persistence.WconfSocket)
	if err != nil {
		return err
	}
	defer other.close()
	written := make(chan error, 1)
	var took time.Duration
	go func() {
		began := time.Now()
		err := w.write()
		took = time.Since(began)
		written <- err
	}()
	for longest := time.Duration(0); ; {
		select {
		case err := <-written:
			b.recordTime("ConfigWrite/many", took)
			b.recordTime("ConfigWrite/others", longest)
			return err
		default:
		}
		began := time.Now()
		if err := other.call(nil, "verifyConfig"); err != nil {
			return err
		}
		longest = max(longest, time.Since(began))
	}
}
