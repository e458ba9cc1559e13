package schedule_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/schedule"
)

// told are events in JSON, a line each.
func told(t *testing.T, events []answer.ScheduleEvent) (lines []string) {
	for _, e := range events {
		e.Due, e.Until = nil, nil // they are there twice
		line, err := json.Marshal(e)
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
	return lines
}

func TestWhatHasHappenedToASchedule(t *testing.T) {
	first := hourly(t, func(d *schedule.Definition) { d.CatchUp = schedule.All })
	require.Equal(t, []string{`{"name":"nightly","change":"added","by":"root"}`}, told(t, first.News(nil)))
	d := &driver{t: t, file: first}
	step := func(hours time.Duration) []string {
		before := d.file
		d.look(at(hours*time.Hour), true)
		return told(t, d.file.News(before))
	}
	require.Equal(t, []string{`{"name":"nightly","change":"fired","due":"2027-01-01T01:00:00Z","jobs":[1]}`}, step(1))
	require.Empty(t, step(1))
	d.busy = "job 1 has not ended"
	require.Equal(t, []string{`{"name":"nightly","change":"skipped","due":"2027-01-01T02:00:00Z","times":1,"reason":"job 1 has not ended"}`}, step(2))
	d.busy, d.refuses = "", "drained"
	require.Equal(t, []string{`{"name":"nightly","change":"missed","due":"2027-01-01T05:00:00Z","times":3,"reason":"drained"}`}, step(5))
	d.refuses = ""
	require.Equal(t, []string{
		`{"name":"nightly","change":"fired","due":"2027-01-01T03:00:00Z","jobs":[2],"reason":"drained"}`,
	}, step(5)[:1], "what was owed is made up for")

	changed := d.file.Redefine(hourly(t, func(d *schedule.Definition) { d.Overlap = schedule.Allow }).Definition, d.file.Owner, "root", at(6*time.Hour))
	require.Equal(t, []string{`{"name":"nightly","change":"changed","by":"root"}`}, told(t, changed.News(d.file)))
	require.Empty(t, d.file.JobEnded(schedule.Ended{Job: 2}, true).News(d.file), "the end of a job is an event of the job")
}

// However many due times are missed at once, there are few events.
func TestManyMissedDueTimesAreOneEvent(t *testing.T) {
	d := &driver{t: t, file: hourly(t, func(d *schedule.Definition) { d.CatchUp = schedule.None })}
	before := d.file
	d.look(at(1000*time.Hour+2*time.Minute), true)
	news := told(t, d.file.News(before))
	require.Len(t, news, 2)
	require.Contains(t, news[0], "which are older than 1d")
	require.Equal(t, `{"name":"nightly","change":"missed","due":"2027-02-11T16:00:00Z","times":24,"reason":"down"}`, news[1])
}
