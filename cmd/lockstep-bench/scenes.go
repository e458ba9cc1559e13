package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"

	"lockstep/core/paths"
	"lockstep/persistence"
)

// scenes are in the order in which they are played. That which leaves most files is the
// last: others would pay for its load on the disk.
var scenes = []scene{
	{name: "machine", gives: []string{"Spawn/lockstep-job", "Spawn/true", "Replace", "RoundTrip"}, run: sceneMachine},
	{name: "submit", gives: []string{"Submit/clients=1", "SubmitRate/clients=64", "SubmitGain/clients=64", "SubmitMany"}, run: sceneSubmit},
	{name: "job", gives: []string{"Job", "Chain"}, run: sceneJob},
	{name: "jobs", gives: []string{"Jobs/slots=20", "Jobs/slots=64"}, run: sceneJobs},
	{name: "locks", gives: []string{"LockUpdates"}, run: sceneLocks},
	{name: "wake", gives: []string{"Wake"}, run: sceneWake},
	{name: "death", gives: []string{"Death"}, run: sceneDeath},
	{name: "idle", gives: []string{"IdleResident", "IdleWakeups"}, run: sceneIdle},
	{name: "queue", gives: []string{"Start", "HeapPerJob", "ResidentPerJob", "List/some", "List/all"}, run: sceneQueue},
}

// choose are the scenes that give something that matches, or are called so.
func choose(only *regexp.Regexp) []scene {
	var chosen []scene
	for _, s := range scenes {
		if only.MatchString(s.name) || slices.ContainsFunc(s.gives, only.MatchString) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// jobSize is that of an ordinary job file, in bytes.
const jobSize = 700

// sceneMachine are the parts of which everything else is made.
func sceneMachine(b *bench) error {
	files, e, done, err := b.bareParts()
	if err != nil {
		return err
	}
	defer done()
	content := make([]byte, jobSize)
	for round := range b.each(b.rounds) {
		err := alternate(round,
			func() error { return b.timeEach("Spawn/lockstep-job", b.sizes.spawns, b.spawnJob) },
			func() error {
				return b.timeEach("Spawn/true", b.sizes.spawns, func() error { return exec.Command("/bin/true").Run() })
			},
			func() error {
				return b.timeEach("Replace", b.sizes.replaces, func() error { return files.Replace("bench", paths.JobPath(1), content) })
			},
			func() error { return b.timeEach("RoundTrip", b.sizes.trips, func() error { return e.trip(1) }) })
		if err != nil {
			return err
		}
	}
	return nil
}

// spawnJob starts lockstep-job without arguments, which says how it is used.
func (b *bench) spawnJob() error {
	err := exec.Command(b.program("lockstep-job")).Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 {
		return nil
	}
	return errors.Join(errors.New("lockstep-job without arguments does not say how it is used"), err)
}

// bareParts are what a daemon works with, without one: files, and who answers on a
// socket.
func (b *bench) bareParts() (files *persistence.OSFiles, e *echo, done func(), err error) {
	if files, err = b.newQueueDir(); err != nil {
		return nil, nil, nil, err
	}
	if e, err = b.startEcho(); err != nil {
		return nil, nil, nil, errors.Join(err, files.Close())
	}
	return files, e, func() { e.stop(); _ = files.Close() }, nil
}

// newQueueDir is a data directory without a daemon.
func (b *bench) newQueueDir() (*persistence.OSFiles, error) {
	dir := b.newDir()
	if err := os.MkdirAll(dir+"/"+paths.QueueDir, 0o750); err != nil {
		return nil, err
	}
	return persistence.OpenFiles(dir)
}
