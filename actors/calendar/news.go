package calendar

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/core/schedule"
)

// standing is whether a schedule submits jobs, by the clock of now, and the end of its pause; 0: none.
func (c *calendar) standing(e *entry) (state schedule.State, pauseUs int64) {
	if state = e.File.State(c.now(), e.Broken); state == schedule.StatePaused {
		pauseUs = e.File.UntilUs
	}
	return state, pauseUs
}

// settle puts a schedule in force as the disk has it now, and says what is new in it.
func (c *calendar) settle(ctx actor.Context, e *entry, f *schedule.File) {
	former := e.File
	if e.unwritten {
		former, e.unwritten, e.State = nil, false, schedule.StateActive
	}
	c.take(e, f)
	c.say(ctx, f.News(former)...)
	c.sayState(ctx, e)
}

// sayState says that a schedule is paused, has stopped, or goes on, if no event has said so.
func (c *calendar) sayState(ctx actor.Context, e *entry) {
	state, pauseUs := c.standing(e)
	if state == e.State && pauseUs == e.pauseUs {
		return
	}
	e.State, e.pauseUs = state, pauseUs
	event := answer.ScheduleEvent{Name: e.File.Name, Change: answer.ScheduleResumed, Reason: e.File.WhyNot(state, e.Broken)}
	switch state {
	case schedule.StatePaused:
		if event.Change = answer.SchedulePaused; pauseUs > 0 {
			event = event.PausedUntil(time.UnixMicro(pauseUs))
		}
	case schedule.StateStopped, schedule.StateBroken:
		event.Change = answer.ScheduleStopped
	}
	c.say(ctx, event)
}

func (c *calendar) say(ctx actor.Context, events ...answer.ScheduleEvent) {
	if len(events) > 0 && c.config.Events != nil {
		ctx.Send(c.config.Events, &Happened{Events: events})
	}
}

// gone forgets a schedule that the disk does not have any longer.
func (c *calendar) gone(ctx actor.Context, e *entry) {
	c.forget(e)
	if !e.unwritten {
		c.say(ctx, answer.ScheduleEvent{Name: e.File.Name, Change: answer.ScheduleRemoved})
	}
}

// summary counts the schedules, in one walk.
func (c *calendar) summary() *answer.ScheduleSummary {
	if !c.loaded {
		return nil
	}
	t := schedule.Tally{Now: c.now()}
	for _, e := range c.schedules {
		if !e.unwritten {
			t.Add(&e.Standing)
		}
	}
	return t.Summary()
}
