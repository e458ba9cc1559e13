package schedule_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/schedule"
)

// add counts a schedule as the calendar does.
func add(t *schedule.Tally, f *schedule.File, broken error, next time.Time) {
	s := schedule.Standing{File: f, State: f.State(t.Now, broken), Broken: broken, Next: next}
	if missed := f.LastMissed(); missed != nil {
		s.MissedUs = missed.DueUs
	}
	t.Add(&s)
}

func named(t *testing.T, name string) *schedule.File {
	return hourly(t, func(d *schedule.Definition) { d.Name = name })
}

func TestTheSummaryCountsEachScheduleOnce(t *testing.T) {
	tally := schedule.Tally{Now: at(0)}
	ahead := named(t, "ahead")
	ahead.LastUs = at(25 * time.Hour).UnixMicro()
	ahead.Paused = true
	add(&tally, named(t, "b"), nil, at(time.Hour))
	add(&tally, named(t, "a"), nil, at(time.Hour))
	add(&tally, named(t, "late"), nil, at(2*time.Hour))
	add(&tally, named(t, "paused").Pause(0), nil, time.Time{})
	add(&tally, ahead, nil, time.Time{})
	add(&tally, named(t, "no-zone"), errors.New("the zone is unknown"), time.Time{})
	require.Equal(t, &answer.ScheduleSummary{Active: 3, Paused: 1, Stopped: 1, Broken: 1, Next: answer.Time{Time: at(time.Hour)}, NextOf: "a",
		Trouble: []answer.ScheduleTrouble{
			{Name: "ahead", State: "stopped", Why: "its last due time, 2027-01-02T01:00:00Z, is more than a day ahead of the clock: lockstep schedule resume ahead starts it from now"},
			{Name: "no-zone", State: "broken", Why: "the zone is unknown"},
		}}, tally.Summary())
	require.Equal(t, 6, tally.Summary().Count())
}

// A missed due time is told for a day, the newest first, of few schedules; one that was made up for or skipped is not told.
func TestTheSummaryNamesWhatWasMissed(t *testing.T) {
	missed := func(name string, hours time.Duration) *schedule.File {
		return named(t, name).Refused(schedule.Fire{DueUs: at(hours * time.Hour).UnixMicro()}, "drained "+name)
	}
	tally := schedule.Tally{Now: at(30 * time.Hour)}
	add(&tally, missed("old", 6), nil, time.Time{})
	add(&tally, named(t, "busy").Skipped(schedule.Fire{DueUs: at(29 * time.Hour).UnixMicro(), Missed: "down"}, "job 3 has not ended"), nil, time.Time{})
	paid := missed("paid", 29)
	content, err := schedule.WithJobs(paid.Fired(schedule.Fire{DueUs: at(29 * time.Hour).UnixMicro(), Missed: "drained"}, paid).Encode(), 7)
	require.NoError(t, err)
	paid, err = schedule.Decode(content)
	require.NoError(t, err)
	add(&tally, paid, nil, time.Time{})
	for i := range 8 {
		add(&tally, missed(fmt.Sprint("m", i), time.Duration(10+i)), nil, time.Time{})
	}
	add(&tally, named(t, "broken"), errors.New("no"), time.Time{})
	var names []string
	summary := tally.Summary()
	for _, trouble := range summary.Trouble {
		names = append(names, trouble.Name)
	}
	require.Equal(t, []string{"broken", "m7", "m6", "m5", "m4"}, names)
	require.Equal(t, 4, summary.MoreTrouble)
	require.Equal(t, answer.ScheduleTrouble{Name: "m7", State: "active", Missed: answer.TimeOf(at(17 * time.Hour).UnixMicro()), Why: "drained m7"},
		summary.Trouble[1])
}
