package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"

	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// scenarios are in their order of execution. The scenario that leaves most files is last, since its
// load on the disk would slow down others.
var scenarios = append([]scenario{
	{name: "submit", measurements: []string{"Submit/clients=1", "SubmitRate/clients=64", "SubmitGain/clients=64", "SubmitMany"},
		run: scenarioSubmit},
	{name: "members", measurements: []string{"SubmitMember/clients=1", "SubmitManyMember"}, run: scenarioMembers},
	{name: "job", measurements: []string{"Job", "Chain"}, run: scenarioJob},
	{name: "group", measurements: []string{"JobInGroup"}, run: scenarioGroup},
	{name: "jobs", measurements: []string{"Jobs/slots=20", "Jobs/slots=64"}, run: scenarioJobs},
	{name: "output", measurements: []string{"Output", "JobBesideOutput", "OutputMemory"}, run: scenarioOutput},
	{name: "locks", measurements: []string{"LockUpdates"}, run: scenarioLocks},
	{name: "wake", measurements: []string{"Wake"}, run: scenarioWake},
	{name: "idle", measurements: []string{"IdleResident", "IdleWakeups"}, run: scenarioIdle},
	{name: "config updates", measurements: []string{"ConfigUpdates/many"}, run: scenarioConfigUpdates},
	{name: "config", measurements: []string{"ConfigFairness", "ConfigResident"}, run: scenarioConfig},
	{name: "queue", measurements: []string{"Start", "HeapPerJob", "ResidentPerJob", "List/all"}, run: scenarioQueue},
}, clusterScenarios()...)

func clusterScenarios() []scenario {
	var all []scenario
	for _, size := range clusterSizes {
		all = append(all, scenario{
			name:         fmt.Sprintf("cluster of %d", size),
			measurements: clusterNames(size),
			run:          scenarioCluster(size),
			ofCluster:    true,
		})
	}
	return all
}

// chooseScenarios returns the scenarios with a matching name or measurement, of the kinds: true is that of clusters.
func chooseScenarios(only *regexp.Regexp, kinds map[bool]bool) []scenario {
	var chosen []scenario
	for _, s := range scenarios {
		if !kinds[s.ofCluster] {
			continue
		}
		if only.MatchString(s.name) || slices.ContainsFunc(s.measurements, only.MatchString) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// jobSize is the size of an ordinary job file, in bytes.
const jobSize = 700

// bareParts are files and an echo process, in place of a daemon. done ends both.
func (b *bench) bareParts() (files *persistence.OSFiles, e *echo, done func(), err error) {
	if files, err = b.newQueueDir(); err != nil {
		return nil, nil, nil, err
	}
	if e, err = b.startEcho(); err != nil {
		return nil, nil, nil, errors.Join(err, files.Close())
	}
	return files, e, func() { e.stop(); _ = files.Close() }, nil
}

// newQueueDir makes a data directory without a daemon, and opens its files.
func (b *bench) newQueueDir() (*persistence.OSFiles, error) {
	dir := b.newDir()
	if err := os.MkdirAll(dir+"/"+paths.QueueDir, 0o750); err != nil {
		return nil, err
	}
	return persistence.OpenFiles(dir, ownership.Rules{})
}
