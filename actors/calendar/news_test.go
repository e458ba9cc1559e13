package calendar_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/calendar"
	"lockstep/actors/kittest"
	"lockstep/actors/store"
	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/schedule"
	"lockstep/messages"
)

var daemonUser = access.Submitter{UID: 7}

// secondly is a schedule of a period of a second, of the daemon's user.
func secondly(name string) schedule.Definition {
	return schedule.Definition{Name: name, EveryUs: time.Second.Microseconds(), Overlap: schedule.Allow, CatchUp: schedule.Last,
		WithinUs: time.Hour.Microseconds(), Jobs: []schedule.Job{{Ops: []json.RawMessage{json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "duration": 1}`)}}}}
}

// bench is a calendar with a real store.
type bench struct {
	*kittest.Env
	disk                  *kittest.Disk
	queue, events, client *kittest.Probe
	pid                   *actor.PID
}

func onBench(t *testing.T, files map[string]string, f func(*testing.T, *bench)) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{Env: e, disk: kittest.NewDisk(files), queue: e.Probe("queue"), events: e.Probe("events"), client: e.Probe("client")}
		b.disk.MakeDir(paths.ScheduleDir)
		b.queue.Answer(func(m any) any {
			switch m := m.(type) {
			case *messages.AnnounceQueue:
				return &messages.QueueStarted{Incarnation: 1}
			case *messages.ListJobs:
				return &messages.ListJobsResult{Request: m.Request}
			}
			return nil
		})
		disk := e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 2, Clients: []*actor.PID{e.PID("above-calendar/calendar")}}))
		b.pid = e.Start("calendar", calendar.Props(calendar.Config{Env: e.Env, Store: disk, Queue: b.queue.PID, Events: b.events.PID,
			Catalogue: opcode.Builtin(), Daemon: daemonUser, Zones: time.LoadLocation}))
		f(t, b)
	})
}

func (b *bench) put(name string, replace bool) {
	b.client.Ask(b.pid, &calendar.Change{Name: name, By: "root", Put: &calendar.Put{Definition: secondly(name), Owner: access.DaemonItself(7), Replace: replace}})
}

func (b *bench) order(name string, order calendar.Order) {
	b.client.Ask(b.pid, &calendar.Change{Name: name, Order: order, By: "root"})
}

// told are the events since the last call, a short text each.
func (b *bench) told() (all []string) {
	for _, m := range b.events.Unread() {
		h := m.(*calendar.Happened)
		if h.Lost {
			all = append(all, "lost")
		}
		for _, e := range h.Events {
			text := e.Name + " " + e.Change
			if e.Reason != "" {
				text += ": " + e.Reason
			}
			if len(e.Jobs) > 0 {
				text += fmt.Sprint(" ", e.Jobs)
			}
			all = append(all, text)
		}
	}
	return all
}

// answered answers the submission of a due time.
func (b *bench) answered(t *testing.T, result *messages.SubmitJobsResult) {
	t.Helper()
	result.Request = kittest.Expect[*messages.SubmitJobs](b.queue).Request
	b.queue.Ask(b.pid, result)
	b.Settle()
}

// What happens to a schedule is said when the disk has it, once.
func TestWhatHappensToASchedule(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		require.Empty(t, b.told())
		block := b.disk.Block("replace schedule")
		b.put("tick", false)
		b.Settle()
		require.Empty(t, b.told(), "the disk does not have it")
		block.Release()
		require.Equal(t, []string{"tick added"}, b.told())

		b.Advance(1500 * time.Millisecond)
		require.Empty(t, b.told(), "the queue has not recorded the job")
		b.answered(t, &messages.SubmitJobsResult{Ids: []int64{12}})
		require.Equal(t, []string{"tick fired [12]"}, b.told())
		b.Advance(time.Second)
		b.answered(t, &messages.SubmitJobsResult{Failure: &messages.Failure{Class: messages.ClassQueueDrained, Text: "drained"}})
		require.Equal(t, []string{"tick missed: drained"}, b.told())

		b.order("tick", calendar.Pause)
		b.Settle()
		require.Equal(t, []string{"tick paused"}, b.told())
		b.put("tick", true)
		require.Empty(t, b.told(), "it has this definition")
		b.order("tick", calendar.Resume)
		require.Equal(t, []string{"tick resumed"}, b.told())
		b.order("tick", calendar.Remove)
		require.Equal(t, []string{"tick removed"}, b.told())
	})
}

// A firing whose outcome the calendar hears of from the disk alone is said, too; one that was not recorded is not.
func TestAFiringWithAnUnknownOutcomeIsSaidFromTheDisk(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		onBench(t, nil, func(t *testing.T, b *bench) {
			b.put("tick", false)
			b.Advance(1500 * time.Millisecond)
			require.Equal(t, []string{"tick added"}, b.told())
			submit := kittest.Expect[*messages.SubmitJobs](b.queue)
			if recorded {
				content, err := schedule.WithJobs(submit.Firing.File, 5)
				require.NoError(t, err)
				require.NoError(t, b.disk.Replace("fire-schedule", paths.SchedulePath("tick"), content))
			}
			b.queue.Ask(b.pid, &messages.CheckSubmissionResult{Request: submit.Request})
			if recorded {
				require.Equal(t, []string{"tick fired [5]"}, b.told())
			} else {
				require.Empty(t, b.told())
			}
		})
	}
}

// A failed write says nothing, until the disk is read again.
func TestAFailedWriteIsNotSaid(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.disk.Fail("replace schedule", 1)
		b.put("tick", false)
		b.Advance(10 * time.Second)
		require.Empty(t, b.told())
		b.client.Ask(b.pid, &calendar.Summarize{Request: 3})
		require.Zero(t, kittest.Expect[*calendar.SummarizeResult](b.client).Summary.Count())
	})
}

// What the disk has when the calendar starts is no news. After its restart events may be missing.
func TestARestartOfTheCalendarIsAGap(t *testing.T) {
	paused := schedule.Make(secondly("tick"), schedule.Owner{Submitter: daemonUser}, "root", time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Pause(0)
	onBench(t, map[string]string{paths.SchedulePath("tick"): string(paused.Encode())}, func(t *testing.T, b *bench) {
		require.Empty(t, b.told())
		b.Restart(b.pid)
		require.Equal(t, []string{"lost"}, b.told())
		b.order("tick", calendar.Resume)
		require.Equal(t, []string{"tick resumed"}, b.told())
	})
}

// A schedule stops and goes on when the clock was set back and has come near again, and an event says so within a minute.
func TestAScheduleThatStopsSaysSo(t *testing.T) {
	file := schedule.Make(secondly("tick"), schedule.Owner{Submitter: daemonUser}, "root", kittest.NewClock().Now())
	file.LastUs = kittest.NewClock().Now().Add(schedule.AheadMax + 30*time.Second).UnixMicro()
	onBench(t, map[string]string{paths.SchedulePath("tick"): string(file.Encode())}, func(t *testing.T, b *bench) {
		require.Empty(t, b.told(), "it was stopped already")
		b.client.Ask(b.pid, &calendar.Summarize{})
		require.Equal(t, 1, kittest.Expect[*calendar.SummarizeResult](b.client).Summary.Stopped)
		b.Advance(time.Minute)
		require.Equal(t, []string{"tick resumed"}, b.told())
		b.Clock.SetBack(time.Hour)
		b.Advance(time.Minute)
		told := b.told()
		require.Len(t, told, 1)
		require.Contains(t, told[0], "tick stopped: its last due time")
		b.order("tick", calendar.Resume)
		require.Equal(t, []string{"tick resumed"}, b.told())
	})
}

func TestASummaryIsAnsweredBeforeTheSchedulesAreRead(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.put("tick", false)
		b.Settle()
		b.client.Ask(b.pid, &calendar.Summarize{Request: 8})
		m := kittest.Expect[*calendar.SummarizeResult](b.client)
		require.EqualValues(t, 8, m.Request)
		require.Equal(t, 1, m.Summary.Active)
		require.Equal(t, "tick", m.Summary.NextOf)
		require.False(t, m.Summary.Next.IsZero())
		require.Equal(t, []answer.ScheduleTrouble{}, m.Summary.Trouble)

		b.disk.Fail("list schedules", 1)
		b.Restart(b.pid)
		b.client.Ask(b.pid, &calendar.Summarize{Request: 9})
		require.Nil(t, kittest.Expect[*calendar.SummarizeResult](b.client).Summary)
		b.Advance(10 * time.Second)
		b.client.Ask(b.pid, &calendar.Summarize{Request: 10})
		require.Equal(t, 1, kittest.Expect[*calendar.SummarizeResult](b.client).Summary.Count())
	})
}
