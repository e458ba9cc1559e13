package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// put defines a schedule.
func (c *client) put(name string, rest map[string]any, ops ...op) {
	c.t.Helper()
	definition := map[string]any{"name": name, "jobs": []any{map[string]any{"ops": ops}}}
	for key, value := range rest {
		definition[key] = value
	}
	var changed answer.ScheduleChanged
	c.call("LockstepPutSchedule", &changed, definition, map[string]any{})
	require.True(c.t, changed.Changed)
}

func (c *client) schedule(name string) answer.Schedule {
	c.t.Helper()
	var all answer.Schedules
	c.call("LockstepSchedules", &all, name)
	require.Len(c.t, all.Schedules, 1)
	return all.Schedules[0]
}

func everySecond(rest map[string]any) map[string]any {
	all := map[string]any{"every_us": time.Second.Microseconds()}
	for key, value := range rest {
		all[key] = value
	}
	return all
}

// awaitHistory waits for an entry.
func (c *client) awaitHistory(name string, is func(answer.ScheduleEntry) bool) (s answer.Schedule) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		s = c.schedule(name)
		for _, e := range s.History {
			if is(e) {
				return true
			}
		}
		return false
	}, patience, 20*time.Millisecond)
	return s
}

// A due time has its job once, also if the daemon is killed around it.
func TestAScheduleFiresOnce(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.put("tick", everySecond(nil), command("true"))
	for range 5 {
		last := c.schedule("tick").History
		c.awaitHistory("tick", func(e answer.ScheduleEntry) bool {
			return len(last) == 0 || e.Due.After(last[len(last)-1].Due.Time)
		})
		d.kill()
		d.start()
		c = d.dial()
	}
	s := c.schedule("tick")
	seen := map[int64]bool{}
	for _, e := range s.History {
		require.False(t, seen[e.Due.UnixMicro()], "%v", s.History)
		seen[e.Due.UnixMicro()] = true
	}
	// Each job of the queue is that of its due time, and there is no other.
	var listed []answer.ListedJob
	require.Eventually(t, func() bool {
		listed = c.list(answer.JobSelection{})
		s = c.schedule("tick")
		ids := 0
		for _, e := range s.History {
			ids += len(e.Jobs)
		}
		return ids == len(listed)
	}, patience, 20*time.Millisecond)
	for _, j := range listed {
		require.Equal(t, "tick", j.Name)
		require.Equal(t, "tick", j.Schedule.Name)
		require.True(t, seen[j.Schedule.Due.UnixMicro()] || j.Schedule.Due.After(s.History[0].Due.Time))
	}
	out, _ := d.client("info", fmt.Sprint(listed[0].ID))
	require.Contains(t, out, "Schedule:  tick, due ")
}

// What the queue refuses is missed, with the reason, and made up for.
func TestADueTimeInADrainedQueueIsMissed(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.call("SetDrainFlag", nil, true)
	c.put("tick", everySecond(nil), command("true"))
	s := c.awaitHistory("tick", func(e answer.ScheduleEntry) bool { return e.Missed != "" })
	require.Equal(t, "Job queue is drained, refusing job", s.History[0].Missed)
	require.Empty(t, s.History[0].Jobs)
	c.call("SetDrainFlag", nil, false)
	c.awaitHistory("tick", func(e answer.ScheduleEntry) bool { return len(e.Jobs) > 0 })
}

// What happens at due times while a job of the schedule runs.
func TestOverlap(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	endless := command("sleep", "300")
	c.put("skip", everySecond(nil), endless)
	c.put("queue", everySecond(map[string]any{"overlap": "queue"}), endless)
	c.put("replace", everySecond(map[string]any{"overlap": "replace"}), endless)
	c.put("allow", everySecond(map[string]any{"overlap": "allow"}), endless)
	s := c.awaitHistory("skip", func(e answer.ScheduleEntry) bool { return e.Skipped != "" })
	require.Len(t, s.Running, 1)
	s = c.awaitHistory("queue", func(e answer.ScheduleEntry) bool { return e.Skipped != "" })
	require.Len(t, s.Running, 2, "one runs, one waits")
	require.Eventually(t, func() bool { return len(c.schedule("allow").Running) > 2 }, patience, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		s := c.schedule("replace")
		return len(s.History) > 2 && s.LastEnd != nil && s.LastEnd.Result == "killed by schedule replace"
	}, patience, 50*time.Millisecond)
	for _, name := range []string{"skip", "queue", "replace", "allow"} {
		c.call("LockstepOrderSchedule", nil, name, "remove", nil)
	}
	d.endJobs()
}

// A new master goes on with the schedules: each due time of the history has its job, and each job its due time.
func TestClusterAScheduleFiresAfterAKillOfTheMaster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	master := c.master()
	client := master.dial()
	client.put("tick", everySecond(nil), command("true"))
	before := client.awaitHistory("tick", func(e answer.ScheduleEntry) bool { return len(e.Jobs) > 0 })
	master.crash()
	next := c.master()
	require.NotEqual(t, master.name, next.name)
	client = next.dial()
	last := before.History[len(before.History)-1].Due
	s := client.awaitHistory("tick", func(e answer.ScheduleEntry) bool { return len(e.Jobs) > 0 && e.Due.After(last.Time) })
	due := map[int64]time.Time{}
	for i, e := range s.History {
		require.True(t, i == 0 || e.Due.After(s.History[i-1].Due.Time), "%v", s.History)
		for _, id := range e.Jobs {
			due[id] = e.Due.Time
		}
	}
	newest := s.History[len(s.History)-1].Due
	for _, j := range client.list(answer.JobSelection{}) {
		if !j.Schedule.Due.After(newest.Time) { // later ones have come since
			require.True(t, j.Schedule.Due.Equal(due[j.ID]), "job %d is of %v, and the history has it at %v", j.ID, j.Schedule.Due, due[j.ID])
		}
	}
}

// A schedule that is made again under the name of a removed one fires, and has no history.
func TestAScheduleIsMadeAgain(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	for range 2 {
		c.put("tick", everySecond(nil), command("true"))
		require.Empty(t, c.schedule("tick").History)
		c.awaitHistory("tick", func(e answer.ScheduleEntry) bool { return len(e.Jobs) > 0 })
		c.awaitHistory("tick", func(e answer.ScheduleEntry) bool { return len(e.Jobs) > 0 && e.Jobs[0]%2 == 0 })
		c.call("LockstepOrderSchedule", nil, "tick", "remove", nil)
	}
}
