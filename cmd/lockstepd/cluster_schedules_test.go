package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// dueTime is an entry of schedule history --json.
type dueTime struct {
	Due     time.Time
	Jobs    []int64
	Missed  string
	Skipped string
}

// history is the history of a schedule, as the command line program prints it.
func (m *member) history(name string) (all []dueTime) {
	m.t.Helper()
	require.NoError(m.t, json.Unmarshal([]byte(m.cli("--json", "schedule", "history", name, "-n", "100")), &all))
	return all
}

// Masters are killed right after due times. At the end each due time has its job or a reason, and each job, archived or not, is that of a
// due time. It fails if the queue writes jobs without the note of their due time.
func TestClusterDueTimesAndJobsCorrespond(t *testing.T) {
	t.Parallel()
	const kills, dueTimes = 4, 20
	c := newCluster(t, 3)
	master := c.master()
	master.cli("schedule", "add", "tick", "--every", "1s", "--catch-up", "all", "--", "true")
	client := master.dial()
	await := func(entries int) {
		require.Eventually(t, func() bool { return len(client.schedule("tick").History) >= entries }, patience, 10*time.Millisecond)
	}
	for i := range kills {
		await((i + 1) * dueTimes / (kills + 1))
		killed := master
		killed.crash()
		master = c.master()
		client = master.dial()
		killed.start()
	}
	master.cli("autoarchive", "5s")
	await(dueTimes)
	master.cli("schedule", "pause", "tick")
	jobs := map[int64]answer.ListedJob{}
	for _, j := range client.list(answer.JobSelection{Archived: true}) {
		jobs[j.ID] = j
	}
	history := master.history("tick")
	for i, e := range history {
		require.True(t, i == 0 || e.Due.After(history[i-1].Due), "%v", history)
		require.True(t, len(e.Jobs) == 1 || len(e.Jobs) == 0 && e.Missed+e.Skipped != "", "%v", e)
		for _, id := range e.Jobs {
			require.NotNil(t, jobs[id].Schedule, "job %d of %v", id, e.Due)
			require.True(t, jobs[id].Schedule.Due.Equal(e.Due), "job %d is of %v, and the history has it at %v", id, jobs[id].Schedule.Due, e.Due)
			delete(jobs, id)
		}
	}
	require.Empty(t, jobs, "they are in no history: %v", history)
}
