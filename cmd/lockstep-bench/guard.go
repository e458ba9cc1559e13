package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// errRegression says that a ratio is too bad.
var errRegression = errors.New("lockstep has become slower, next to what this machine can do")

// floor is the worst ratio to the machine's limit that passes, of a row by its name and
// its limit's. Where more is better it is the least, otherwise the most.
type floor struct {
	name, limit string
	ratio       float64
	reason      string // why this one is looked at
}

// floors are two to four times worse than what was measured on a machine with two cores
// and ext4, otherwise idle: the noise of a busy one must pass, and what makes a thing
// several times as slow, as something that grows with the queue does, must not. There
// are no absolute times among them, which are the machine's.
var floors = []floor{
	{"Submit/clients=1", "BareSubmit", 3, "the files of a submission are nearly all that it costs"},
	{"SubmitGain/clients=64", "", 1.8, "clients who wait at the same time share the syncs"},
	{"SubmitMany", "BareSubmitMany", 0.3, "jobs of one submission share the syncs"},
	{"Job", "BareJob", 2.5, "a job costs its process and its files, and little else"},
	{"Chain", "BareChain", 2.5, "the next job starts as soon as the one before has ended"},
	{"Jobs/slots=20", "BareLoop/workers=20", 0.45, "the daemon must not be what the slots wait for"},
	{"Jobs/slots=64", "BareLoop/workers=64", 0.4, "nor with more of them"},
	{"LockUpdates", "BareUpdates", 0.05, "a lock costs a message or two, and no sync"},
	{"Wake", "BareWake", 4, "who waits is told at once, not when somebody looks"},
	{"Start", "BareReadAll", 8, "a queue is read about as fast as its files"},
	{"List/all", "BareList/all", 10, "a list is made about as fast as it is sent"},
}

// guardPattern matches what the guard must look at.
func guardPattern() *regexp.Regexp {
	names := make([]string, len(floors))
	for i, f := range floors {
		names[i] = regexp.QuoteMeta(f.name)
	}
	return regexp.MustCompile("^(" + strings.Join(names, "|") + ")$")
}

// checkFloors wraps errRegression if a ratio is worse than its floor; one that is missing is, too.
func checkFloors(rows []row, floors []floor) error {
	var bad []error
	for _, f := range floors {
		r := findRow(rows, f)
		switch {
		case r == nil:
			bad = append(bad, fmt.Errorf("%s was not measured", f.name))
		case r.unit.largerIsBetter() && r.guardValue() < f.ratio:
			bad = append(bad, fmt.Errorf("%s: ratio %s, at least %s is wanted: %s", f.name, threeDigits(r.guardValue()), threeDigits(f.ratio), f.reason))
		case !r.unit.largerIsBetter() && r.guardValue() > f.ratio:
			bad = append(bad, fmt.Errorf("%s: ratio %s, at most %s is wanted: %s", f.name, threeDigits(r.guardValue()), threeDigits(f.ratio), f.reason))
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

// guardValue is the ratio to the machine's limit; of a gain, which is a ratio itself,
// the gain.
func (r row) guardValue() float64 {
	if r.limit == nil {
		return r.value.Median
	}
	return r.ratios.Median
}
