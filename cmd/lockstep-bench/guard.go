package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// errRegression means that a ratio is worse than its floor.
var errRegression = errors.New("lockstep has become slower, relative to the limits of this machine")

// floor is the worst ratio that passes, of the row with the given name and limit: the minimum if
// larger is better, else the maximum.
type floor struct {
	name, limit string
	ratio       float64
	reason      string // what the ratio guards
}

// floors are two to four times worse than measured on an idle machine with two cores and ext4: the
// noise of a busy machine passes; a slowdown of several times, such as a cost that grows with the
// queue, does not. Floors are no absolute times, because these depend on the machine.
var floors = []floor{
	{"Submit/clients=1", "BareSubmit", 3, "a submission costs little more than its files"},
	{"SubmitGain/clients=64", "", 1.8, "concurrent clients share the syncs"},
	{"SubmitMany", "BareSubmitMany", 0.3, "jobs of one submission share the syncs"},
	{"Job", "BareJob", 2.5, "a job costs little more than its process and its files"},
	{"JobInGroup", "JobInNoGroup", 1.05, "a control group costs a command next to nothing"},
	{"Chain", "BareChain", 2.5, "the next job starts as soon as its dependency has ended"},
	{"Jobs/slots=20", "BareLoop/workers=20", 0.45, "the daemon is not the bottleneck of the slots"},
	{"Jobs/slots=64", "BareLoop/workers=64", 0.4, "nor with more slots"},
	{"LockUpdates", "BareUpdates", 0.05, "a lock costs a message or two, and no sync"},
	{"Wake", "BareWake", 4, "changes are pushed to waiting clients, not polled"},
	{"ConfigUpdates/many", "ConfigUpdates/few", 0.3, "a change of the configuration costs nothing for the objects that it does not touch"},
	{"Start", "BareReadAll", 8, "a queue is read about as fast as its files"},
	{"ClusterJobs/nodes=3", "ClusterAloneJobs/nodes=3", 0.2, "a job of a cluster costs few entries of the log"},
	{"ClusterSubmitRate/nodes=3", "ClusterFilesRate/nodes=3", 0.15, "submissions of a cluster that come together travel together"},
	{"List/all", "BareList/all", 10, "a list is made about as fast as it is sent"},
}

// guardPattern matches the names of the measurements of the guard, and no others.
func guardPattern() *regexp.Regexp {
	names := make([]string, len(floors))
	for i, f := range floors {
		names[i] = regexp.QuoteMeta(f.name)
	}
	return regexp.MustCompile("^(" + strings.Join(names, "|") + ")$")
}

// checkFloors returns nil if each ratio is as good as its floor. The error wraps errRegression and names the ratios that are missing or
// worse. What this machine cannot measure (notRun) passes.
func checkFloors(rows []row, floors []floor, notRun map[string]string) error {
	var bad []error
	for _, f := range floors {
		r := findRow(rows, f)
		switch {
		case notRun[f.name] != "":
		case r == nil:
			bad = append(bad, fmt.Errorf("%s was not measured", f.name))
		case r.unit.largerIsBetter() && r.guardValue() < f.ratio:
			bad = append(bad, fmt.Errorf("%s: ratio %s, at least %s is wanted: %s",
				f.name, threeDigits(r.guardValue()), threeDigits(f.ratio), f.reason))
		case !r.unit.largerIsBetter() && r.guardValue() > f.ratio:
			bad = append(bad, fmt.Errorf("%s: ratio %s, at most %s is wanted: %s",
				f.name, threeDigits(r.guardValue()), threeDigits(f.ratio), f.reason))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%w", errRegression, errors.Join(bad...))
}

func findRow(rows []row, f floor) *row {
	for i, r := range rows {
		if r.name == f.name && r.measure.limit == f.limit && (r.limit != nil || f.limit == "") {
			return &rows[i]
		}
	}
	return nil
}

// guardValue is the ratio to the machine's limit, or the gain, which is a ratio itself.
func (r row) guardValue() float64 {
	if r.limit == nil {
		return r.value.Median
	}
	return r.ratios.Median
}
