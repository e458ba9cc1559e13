package main

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// said runs lockstep, which must succeed, and returns its output.
func (d *daemon) said(args ...string) string {
	d.t.Helper()
	output, code := d.client(args...)
	require.Zero(d.t, code, "lockstep %q: %s", args, output)
	return output
}

// due is an entry of schedule history --json.
type due struct {
	Due    time.Time `json:"due"`
	Jobs   []int64   `json:"jobs"`
	Missed string    `json:"missed"`
	By     string    `json:"by"`
}

func (d *daemon) history(name string) (all []due) {
	d.t.Helper()
	require.NoError(d.t, json.Unmarshal([]byte(d.said("--json", "schedule", "history", name, "-n", "100")), &all))
	return all
}

// The life of a schedule by the commands.
func TestACommandAgainAndAgain(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	require.Contains(t, d.said("schedule", "add", "tick", "--every", "1s", "--cwd", "/", "--kind", "ticks", "--", "echo", "tick"), "tick fires next ")
	output, code := d.client("schedule", "add", "tick", "--every", "1s", "--", "true")
	require.Equal(t, 1, code)
	require.Contains(t, output, "There is a schedule tick already")
	c.awaitHistory("tick", func(e answer.ScheduleEntry) bool { return len(e.Jobs) > 0 })
	first := d.history("tick")[0]
	require.Len(t, first.Jobs, 1)
	d.said("wait", strconv.FormatInt(first.Jobs[0], 10))
	require.Contains(t, d.said("log", strconv.FormatInt(first.Jobs[0], 10)), "tick\n")

	require.Contains(t, d.said("schedule", "pause", "tick"), "is paused")
	require.Contains(t, d.said("schedule", "list"), "paused")
	before := d.history("tick")
	for _, e := range before {
		for _, id := range e.Jobs { // the schedule does not run while one has not ended
			d.said("wait", strconv.FormatInt(id, 10))
		}
	}
	id := strings.TrimSpace(d.said("schedule", "run", "tick"))
	d.said("wait", id)
	after := d.history("tick")
	require.Len(t, after, len(before)+1, "no due time passes during the pause")
	last := after[len(after)-1]
	require.Equal(t, id, strconv.FormatInt(last.Jobs[0], 10))
	require.NotEmpty(t, last.By)

	d.said("schedule", "resume", "tick")
	c.awaitHistory("tick", func(e answer.ScheduleEntry) bool { return e.Due.After(last.Due) })
	shown := d.said("schedule", "show", "tick")
	require.Contains(t, shown, "every 1s")
	require.Contains(t, shown, "RUN_COMMAND(echo tick)")

	var times []time.Time
	require.NoError(t, json.Unmarshal([]byte(d.said("--json", "schedule", "next", "tick", "-n", "3")), &times))
	require.Len(t, times, 3)
	require.Equal(t, 2*time.Second, times[2].Sub(times[0]))
	due := d.history("tick")[0].Due
	require.Zero(t, times[0].Sub(due)%time.Second, "%v, %v", times[0], due)

	require.Contains(t, d.said("schedule", "remove", "tick"), "tick is removed")
	require.Contains(t, d.said("schedule", "list"), "There is no schedule")
}

const twoSchedules = `schedules:
  - name: nightly
    cron: '0 3 * * *'
    tz: Europe/Berlin
    overlap: queue
    job: {run: [./backup], cwd: /srv, lock: backup, timeout: 2h}
  - name: load
    every: 36h
    jobs:
      - {name: fetch, run: [./fetch], cwd: /srv}
      - {after: fetch, run: [./load], cwd: /srv}
`

// A file is applied once, whatever the number of times; another version of it changes what differs.
func TestSchedulesOfAFile(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	file := d.path("schedules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(twoSchedules), 0o600))
	require.Equal(t, "would add nightly\nwould add load\n0 unchanged\n", d.said("schedule", "apply", "--plan", file))
	require.Contains(t, d.said("schedule", "list"), "There is no schedule")
	require.Equal(t, "added nightly\nadded load\n0 unchanged\n", d.said("schedule", "apply", file))
	require.Equal(t, "2 unchanged\n", d.said("schedule", "apply", file))
	d.kill()
	d.start()
	require.Equal(t, "2 unchanged\n", d.said("schedule", "apply", "--plan", "--prune", file), "what the disk has is the same")

	changed := strings.Replace(strings.Replace(twoSchedules, "./load", "./load, -x", 1), "overlap: queue", "catch_up: all", 1)
	changed = strings.Replace(changed, "name: nightly", "name: daily", 1)
	require.NoError(t, os.WriteFile(file, []byte(changed), 0o600))
	plan := "would add daily\nwould change load: jobs\nwould remove nightly\n0 unchanged\n"
	require.Equal(t, plan, d.said("schedule", "apply", "--plan", "--prune", file))
	require.Equal(t, "added daily\nchanged load: jobs\nremoved nightly\n0 unchanged\n", d.said("schedule", "apply", "--prune", file))
	require.Equal(t, "2 unchanged\n", d.said("schedule", "apply", "--prune", file))

	// The jobs of a schedule come one after the other.
	ids := strings.Fields(d.said("schedule", "run", "load"))
	require.Len(t, ids, 2)
	var jobs []struct{ Name string }
	require.NoError(t, json.Unmarshal([]byte(d.said("--json", "info", ids[0], ids[1])), &jobs))
	require.Equal(t, "fetch", jobs[0].Name)
	require.Equal(t, "load", jobs[1].Name)
	require.True(t, slices.IsSorted(ids))
}

// With --prune who applies a file removes what he has applied before, also for another account, and nothing of others.
func TestPruneRemovesWhatWasApplied(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	file := d.path("schedules.yaml")
	apply := func(text string) string {
		require.NoError(t, os.WriteFile(file, []byte("schedules:\n"+text), 0o600))
		return d.said("schedule", "apply", "--prune", file)
	}
	const own, forDaemon = "  - {name: own, every: 36h, job: {run: ['true'], cwd: /}}\n", "  - {name: theirs, every: 36h, as: daemon, job: {run: ['true'], cwd: /}}\n"
	require.Equal(t, "added own\nadded theirs\n0 unchanged\n", apply(own+forDaemon))
	require.Equal(t, "2 unchanged\n", apply(own+forDaemon))
	require.NotEqual(t, c.schedule("own").Owner, c.schedule("theirs").Owner)
	require.Equal(t, c.schedule("own").Owner, c.schedule("theirs").MadeBy)
	d.kill()
	d.start()
	require.Equal(t, "removed theirs\n1 unchanged\n", apply(own))
}
