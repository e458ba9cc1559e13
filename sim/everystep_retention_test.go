package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
	"lockstep/core/record"
)

// retainedJobs submits jobs with and without names, among them a job that still runs when the job on which its last opcode
// depends is old enough for the archive. One second after their end jobs are archived, except the last one of each name.
func retainedJobs(w *World) (done func() bool) {
	c, o := w.newClient(), w.newClient()
	c.namesJobs = true
	submissions := [][][]OpSpec{
		{{"run run_for=0.01"}, {"run run_for=0.2 exit=1"}, {"run run_for=0.01"}},
		{{"run run_for=15", "delay 0.01 after=1:success"}},
		{{"run run_for=0.3"}, {"run run_for=0.01"}},
	}
	set := false
	var submit func(*submission)
	submit = func(*submission) {
		if len(submissions) > 0 {
			next := submissions[0]
			submissions = submissions[1:]
			c.submit(next, submit)
			return
		}
		submissions = nil
	}
	var settle func()
	settle = func() {
		o.set(map[string]any{"archive_after": 1, "keep_last": 1}, func(err error) {
			if set = err == nil; !set {
				o.later(100*time.Millisecond, settle)
			}
		})
	}
	o.whenReady(func() {
		settle()
		submit(nil)
	})
	return func() bool {
		return set && submissions == nil && w.retained() == nil
	}
}

// retained are the jobs in the queue that are not one of the last of a name.
func (w *World) retained() (extra []int64) {
	last := map[string]int64{}
	for _, id := range w.recordedIDs() {
		name := ""
		if f := w.disk.Find(paths.RecordPath(id)); f != nil {
			if r, err := record.Decode(f.Data); err == nil {
				name = r.Name()
			}
		}
		if name == "" || last[name] > 0 {
			extra = append(extra, id)
		}
		last[name] = id
	}
	return extra
}

// A fault at every step while old jobs are archived loses no job, doubles none, archives none too early, and all due jobs
// are archived in the end.
func TestEveryStepOfTheRetention(t *testing.T) {
	for name, fault := range stepFaults {
		t.Run(name, func(t *testing.T) { everyStepOf(t, 8, 5, retainedJobs, fault) })
	}
}

// Due jobs that stay in the queue are found.
func TestJobsThatAreNotArchivedAreFound(t *testing.T) {
	mutations, err := findMutation("no-retention")
	require.NoError(t, err)
	w := New(Options{Seed: 8, Checkers: []Checker{&checkRetention{}}, Mutations: mutations})
	w.startAgain()
	retainedJobs(w)
	w.RunFor(20 * time.Minute)
	w.finish()
	require.ErrorContains(t, w.Err(), "it is not archived")
}
