package main

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// watcher is a client that follows the events of schedules.
type watcher struct {
	*client
	unread []answer.ScheduleEvent
}

func (d *daemon) watch() *watcher {
	w := &watcher{client: d.dial()}
	var first answer.JobEvents
	w.call("LockstepEvents", &first, 0, []string{answer.EventSchedule})
	require.True(d.t, first.Missed)
	return w
}

// next is the next event with this change. Others before it are passed over.
func (w *watcher) next(change string) answer.ScheduleEvent {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		for len(w.unread) > 0 {
			e := w.unread[0]
			if w.unread = w.unread[1:]; e.Change == change {
				return e
			}
		}
		var events answer.JobEvents
		w.call("LockstepEvents", &events, 20, []string{answer.EventSchedule})
		for _, other := range events.Others {
			var e answer.ScheduleEvent
			require.Equal(w.t, answer.EventSchedule, other.Kind)
			require.NoError(w.t, json.Unmarshal(other.Data, &e))
			w.unread = append(w.unread, e)
		}
	}
	require.FailNow(w.t, "an event has not come", change)
	return answer.ScheduleEvent{}
}

// A client follows what happens to a schedule, and the status counts it and names it when it has missed a due time.
func TestWhatAnOperatorSeesOfASchedule(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c, watcher := d.dial(), d.watch()
	require.NotContains(t, d.said("status"), "schedule")

	c.put("tick", everySecond(nil), command("true"))
	require.Equal(t, "tick", watcher.next(answer.ScheduleAdded).Name)
	fired := watcher.next(answer.ScheduleFired)
	require.Len(t, fired.Jobs, 1)
	require.Equal(t, fired.Due.UTC(), c.list(answer.JobSelection{IDs: fired.Jobs})[0].Schedule.Due.UTC())
	require.Contains(t, d.said("status"), "Due:    1 schedule; tick fires ")

	c.call("SetDrainFlag", nil, true)
	require.Equal(t, "Job queue is drained, refusing job", watcher.next(answer.ScheduleMissed).Reason)
	status := d.said("status")
	require.Contains(t, status, "  tick: missed ")
	require.Contains(t, status, ": Job queue is drained, refusing job\n")
	require.Contains(t, status, "It is safe to stop or restart the daemon")
	c.call("SetDrainFlag", nil, false)

	c.call("LockstepOrderSchedule", nil, "tick", "pause", nil)
	watcher.next(answer.SchedulePaused)
	require.Contains(t, d.said("status"), "Due:    1 schedule, 1 paused; none fires at a known time")
	c.call("LockstepOrderSchedule", nil, "tick", "resume", nil)
	watcher.next(answer.ScheduleResumed)
	c.call("LockstepOrderSchedule", nil, "tick", "remove", nil)
	watcher.next(answer.ScheduleRemoved)
}

// No firing is said twice over kills of the daemon.
func TestAFiringIsSaidOnceOverKills(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	d.dial().put("tick", everySecond(nil), command("true"))
	said := map[int64]bool{}
	for range 3 {
		e := d.watch().next(answer.ScheduleFired)
		require.False(t, said[e.Due.UnixMicro()], "%+v", e)
		said[e.Due.UnixMicro()] = true
		d.kill()
		d.start()
		require.Equal(t, "tick", d.dial().list(answer.JobSelection{IDs: e.Jobs})[0].Schedule.Name, "the event came before its job was durable")
	}
}

// The reasons of a schedule, and of the job that waits because of the overlap.
func TestWhyAScheduleHasNotRun(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.put("queued", everySecond(map[string]any{"overlap": "queue"}), command("sleep", "300"))
	s := c.awaitHistory("queued", func(e answer.ScheduleEntry) bool { return e.Skipped != "" })
	var ids []string
	for _, e := range s.History { // on a busy machine a due time may be missed
		for _, id := range e.Jobs {
			ids = append(ids, strconv.FormatInt(id, 10))
		}
	}
	require.Len(t, ids, 2)
	first, second := ids[0], ids[1]
	why := d.said("why", "--schedule", "queued")
	require.Contains(t, why, "- Job "+second+" waits for the end of job "+first+": meanwhile due times are skipped (overlap queue).")
	require.Contains(t, why, "was skipped: job "+second+" waits already.")
	require.Contains(t, why, "- It fires next at ")
	waiting := d.said("why", second)
	require.Contains(t, waiting, ", of schedule queued, due ")
	require.Contains(t, waiting, "It waits for job "+first+", a former one of its schedule, which is running, to end.")
	require.Contains(t, waiting, "lockstep why --schedule queued")

	c.call("LockstepOrderSchedule", nil, "queued", "pause", nil)
	c.call("SetDrainFlag", nil, true)
	why = d.said("why", "--schedule", "queued")
	require.Contains(t, why, "Schedule queued is paused.\n- It is paused until it is resumed, and passes over its due times.\n- The queue is drained")
	output, code := d.client("why", "--schedule", "gone")
	require.Equal(t, 1, code)
	require.Contains(t, output, "There is no schedule gone")
}
