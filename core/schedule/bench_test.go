package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"lockstep/core/schedule"
)

// A summary of 10,000 schedules, all of which have missed a due time.
func BenchmarkSummary(b *testing.B) {
	all := map[string]*schedule.Standing{}
	for i := range 10_000 {
		d := schedule.Definition{Name: fmt.Sprint("s", i), EveryUs: time.Hour.Microseconds()}
		f := schedule.Make(d, schedule.Owner{}, "root", began).Refused(schedule.Fire{DueUs: at(0).UnixMicro()}, "drained")
		all[d.Name] = &schedule.Standing{File: f, State: schedule.StateActive, Next: at(time.Hour), MissedUs: f.LastMissed().DueUs}
	}
	for b.Loop() {
		t := schedule.Tally{Now: at(time.Hour)}
		for _, s := range all {
			t.Add(s)
		}
		t.Summary()
	}
}
