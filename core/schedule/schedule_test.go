package schedule_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/access"
	"lockstep/core/calendar"
	"lockstep/core/schedule"
)

var began = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return began.Add(d) }

// hourly is a schedule of a period of an hour.
func hourly(t require.TestingT, change func(*schedule.Definition)) *schedule.File {
	d := schedule.Definition{Name: "nightly", EveryUs: time.Hour.Microseconds(), Jobs: []schedule.Job{{Ops: []json.RawMessage{json.RawMessage(`{}`)}}}}
	if change != nil {
		change(&d)
	}
	require.NoError(t, d.Complete(calendar.LoadZone))
	return schedule.Make(d, schedule.Owner{Submitter: access.Submitter{UID: 0}}, "root", began)
}

func rule(t require.TestingT, f *schedule.File) calendar.Rule {
	r, err := f.Rule(calendar.LoadZone)
	require.NoError(t, err)
	return r
}

// driver does with a schedule what the actor does, with a queue that takes jobs, or refuses them.
type driver struct {
	t       require.TestingT
	file    *schedule.File
	serial  int64
	refuses string
	busy    string // why jobs are skipped
}

// look performs all steps at a time.
func (d *driver) look(now time.Time, owed bool) {
	for {
		s := d.file.Next(now, rule(d.t, d.file), "down", owed)
		owed = false
		next := d.file
		if s.File != nil {
			next = s.File
		}
		switch {
		case s.Fire == nil && s.File == nil:
			return
		case s.Fire == nil:
			d.file = next
		case d.refuses != "":
			d.file = next.Refused(*s.Fire, d.refuses)
		case d.busy != "":
			d.file = next.Skipped(*s.Fire, d.busy)
		default:
			d.serial++
			content, err := schedule.WithJobs(next.Fired(*s.Fire, d.file).Encode(), d.serial)
			require.NoError(d.t, err)
			d.file, err = schedule.Decode(content)
			require.NoError(d.t, err)
		}
	}
}

func (d *driver) history() (all []schedule.Entry) {
	for _, e := range d.file.History {
		e.DueUs -= began.UnixMicro()
		e.DueUs /= time.Hour.Microseconds()
		all = append(all, e)
	}
	return all
}

func entry(hour int64, change ...func(*schedule.Entry)) schedule.Entry {
	e := schedule.Entry{DueUs: hour}
	for _, c := range change {
		c(&e)
	}
	return e
}

func jobs(ids ...int64) func(*schedule.Entry) { return func(e *schedule.Entry) { e.Jobs = ids } }

func missed(why string) func(*schedule.Entry) { return func(e *schedule.Entry) { e.Missed = why } }

func owed(e *schedule.Entry) { e.Owed = true }

// What is made up for after a time without a daemon.
func TestCatchUp(t *testing.T) {
	for choice, want := range map[schedule.CatchUp][]schedule.Entry{
		schedule.None: {entry(1, jobs(1)), entry(2, missed("down")), entry(3, missed("down")), entry(4, missed("down"))},
		schedule.Last: {entry(1, jobs(1)), entry(2, missed("down")), entry(3, missed("down")), entry(4, missed("down"), jobs(2))},
		schedule.All:  {entry(1, jobs(1)), entry(2, missed("down"), jobs(2)), entry(3, missed("down"), jobs(3)), entry(4, missed("down"), jobs(4))},
	} {
		d := &driver{t: t, file: hourly(t, func(d *schedule.Definition) { d.CatchUp = choice })}
		d.look(at(30*time.Minute), false)
		require.Empty(t, d.history())
		d.look(at(time.Hour), false)
		d.look(at(4*time.Hour+30*time.Minute), false)
		require.Equal(t, want, d.history(), choice)
		require.Equal(t, int64(3), d.file.Missed, choice)
	}
}

// A due time whose jobs the queue refuses is missed, and made up for later.
func TestARefusedDueTimeIsOwed(t *testing.T) {
	d := &driver{t: t, file: hourly(t, nil), refuses: "drained"}
	d.look(at(time.Hour), false)
	require.Equal(t, []schedule.Entry{entry(1, missed("drained"), owed)}, d.history())
	d.look(at(2*time.Hour), false)
	require.Equal(t, []schedule.Entry{entry(1, missed("drained")), entry(2, missed("drained"), owed)}, d.history(), "only the last is owed")
	d.refuses = ""
	d.look(at(2*time.Hour+time.Minute), false)
	require.Len(t, d.history(), 2, "it is not tried at each look")
	d.look(at(2*time.Hour+time.Minute), true)
	require.Equal(t, []schedule.Entry{entry(1, missed("drained")), entry(2, missed("drained"), jobs(1))}, d.history())
	require.Equal(t, int64(2), d.file.Missed)
}

// A due time that is too old is given up. The many before are one entry.
func TestOldDueTimesAreNotMadeUpFor(t *testing.T) {
	d := &driver{t: t, file: hourly(t, func(d *schedule.Definition) { d.CatchUp, d.WithinUs = schedule.All, (2 * time.Hour).Microseconds() })}
	d.look(at(100*time.Hour+time.Minute), false)
	all := d.history()
	require.Len(t, all, 3)
	require.Equal(t, int64(1), all[0].DueUs)
	require.Contains(t, all[0].Missed, "older than 2h")
	require.Equal(t, []schedule.Entry{entry(99, missed("down"), jobs(1)), entry(100, jobs(2))}, all[1:])
}

// What overlap skips stays skipped.
func TestSkippedDueTimesStaySkipped(t *testing.T) {
	d := &driver{t: t, file: hourly(t, func(d *schedule.Definition) { d.CatchUp = schedule.All }), busy: "job 1 has not ended"}
	d.look(at(time.Hour), false)
	d.busy = ""
	d.look(at(90*time.Minute), true)
	require.Equal(t, []schedule.Entry{entry(1, func(e *schedule.Entry) { e.Skipped = "job 1 has not ended" })}, d.history())
}

// Due times of a pause are passed over.
func TestPause(t *testing.T) {
	d := &driver{t: t, file: hourly(t, nil)}
	d.file = d.file.Pause(at(3*time.Hour + time.Minute).UnixMicro())
	d.look(at(2*time.Hour), true)
	require.Empty(t, d.history())
	d.look(at(4*time.Hour), false)
	require.Equal(t, []schedule.Entry{entry(4, jobs(1))}, d.history())
	d.file = d.file.Pause(0)
	d.look(at(100*time.Hour), true)
	d.file = d.file.Resume(at(100 * time.Hour))
	d.look(at(101*time.Hour), false)
	require.Equal(t, []schedule.Entry{entry(4, jobs(1)), entry(101, jobs(2))}, d.history())
}

// A clock that was set back lets nothing fire twice. If it was set back by more than a day, the schedule stops until it is resumed.
func TestAClockThatIsSetBack(t *testing.T) {
	d := &driver{t: t, file: hourly(t, nil)}
	d.look(at(50*time.Hour), false)
	fired := len(d.history())
	d.look(at(30*time.Hour), true)
	require.Len(t, d.history(), fired)
	require.Zero(t, d.file.StoppedUntil(at(30*time.Hour)))
	require.True(t, at(26*time.Hour).Equal(d.file.StoppedUntil(at(10*time.Hour))))
	d.look(at(12*time.Hour), true)
	require.Len(t, d.history(), fired)
	d.file = d.file.Resume(at(12 * time.Hour))
	d.look(at(13*time.Hour), true)
	require.Len(t, d.history(), fired+1)
}

// A firing counts only if its jobs exist: taken back, the schedule is as it was before.
func TestAFiringWithoutJobsIsTakenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &driver{t: t, file: hourly(t, func(d *schedule.Definition) {
			d.CatchUp = rapid.SampledFrom([]schedule.CatchUp{schedule.None, schedule.Last, schedule.All}).Draw(t, "catch up")
		})}
		now := began
		for range rapid.IntRange(0, 10).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "minutes")) * time.Minute)
			d.refuses = rapid.SampledFrom([]string{"", "drained"}).Draw(t, "refuses")
			d.look(now, rapid.Bool().Draw(t, "owed"))
		}
		before := d.file
		now = now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "minutes")) * time.Minute)
		s := before.Next(now, rule(t, before), "down", true)
		if s.Fire == nil {
			return
		}
		next := before
		if s.File != nil {
			next = s.File
		}
		content, err := schedule.WithJobs(next.Fired(*s.Fire, before).Encode(), d.serial+1)
		require.NoError(t, err)
		fired, err := schedule.Decode(content)
		require.NoError(t, err)
		require.Same(t, fired, fired.TakeBack(d.serial+1), "the serial covers the jobs")
		back := fired.TakeBack(d.serial)
		back.Firing = before.Firing
		tooOld := now.UnixMicro() - before.WithinUs
		for i := range back.History { // what is owed no longer stays so: a newer due time comes, or it is too old
			if before.CatchUp == schedule.Last || back.History[i].DueUs < tooOld {
				back.History[i].Owed = before.History[i].Owed
			}
		}
		require.Equal(t, string(before.Encode()), string(back.Encode()))
	})
}

func TestNamesOfSchedules(t *testing.T) {
	for name, good := range map[string]bool{"nightly": true, "a.b-c_1": true, "": false, "a/b": false, "..": false, ".a": false, "-x": false, "12": false, "ä": false} {
		require.Equal(t, good, schedule.CheckName(name) == nil, name)
	}
}

// The times to come follow the rule from a first one, each later by the jitter.
func TestUpcoming(t *testing.T) {
	f := hourly(t, func(d *schedule.Definition) { d.EveryUs, d.Cron, d.Zone = 0, "30 2 * * *", "Europe/Berlin" })
	first := time.Date(2027, 3, 27, 1, 30, 0, 0, time.UTC)
	require.Equal(t, []time.Time{first, time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC), time.Date(2027, 3, 29, 0, 30, 0, 0, time.UTC)},
		inUTC(f.Upcoming(first, calendar.LoadZone, 3)), "clocks are set forward on 28 March")
	require.Empty(t, f.Upcoming(time.Time{}, calendar.LoadZone, 3))

	f = hourly(t, func(d *schedule.Definition) { d.JitterUs = (30 * time.Minute).Microseconds() })
	require.Positive(t, f.Jitter())
	first = at(time.Hour).Add(f.Jitter())
	require.Equal(t, []time.Time{first, first.Add(time.Hour)}, inUTC(f.Upcoming(first, calendar.LoadZone, 2)))
}

func inUTC(times []time.Time) (utc []time.Time) {
	for _, t := range times {
		utc = append(utc, t.UTC())
	}
	return utc
}
