package calendar

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/paths"
	"lockstep/core/schedule"
	"lockstep/messages"
)

func (c *calendar) now() time.Time { return c.config.Env.Clock().Now() }

// byName are the schedules by name, so that the order of their messages is the same each time.
func (c *calendar) byName() []*entry {
	var all []*entry
	for _, name := range slices.Sorted(maps.Keys(c.schedules)) {
		all = append(all, c.schedules[name])
	}
	return all
}

// look lets the schedules act whose time has come, and starts the timer for the next one. All times of a second share a timer.
func (c *calendar) look(ctx actor.Context) {
	now := c.now()
	c.clockLooked(ctx, now)
	for c.due.Len() > 0 && !now.Before(c.due.First().wake) {
		e := c.due.Pop()
		e.place = 0
		c.step(ctx, e)
	}
	c.startTimer(ctx)
}

// clockLooked lets all schedules look at a clock that was set back: some may have to stop.
func (c *calendar) clockLooked(ctx actor.Context, now time.Time) {
	if now.Add(lookPause).Before(c.seen) {
		c.seen = time.Time{}
		for _, e := range c.byName() {
			c.step(ctx, e)
		}
	}
	if now.After(c.seen) {
		c.seen = now.Round(0) // of the wall, as the times of schedules
	}
}

func (c *calendar) startTimer(ctx actor.Context) {
	pause := lookPause
	if c.due.Len() > 0 {
		pause = min(pause, max(c.due.First().wake.Sub(c.now()), 0))
	}
	c.timer++
	kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), pause, ctx.Self(), &looked{c.timer})
}

// step lets a schedule do what is to be done now.
func (c *calendar) step(ctx actor.Context, e *entry) {
	if e.busy || e.removed || e.Broken != nil {
		return
	}
	c.sayState(ctx, e)
	why := e.why
	if why == "" {
		why = notRunning
	}
	s := e.File.Next(c.now(), e.rule, why, e.owed)
	e.owed = false
	switch {
	case s.Fire != nil:
		from := e.File
		if s.File != nil {
			from = s.File
		}
		c.fire(ctx, e, firing{Fire: *s.Fire, next: from})
	case s.File != nil:
		c.write(ctx, e, s.File, nil)
	default:
		e.why, e.Next = "", s.Due
		c.wakeAt(ctx, e, s.Wake)
	}
}

// wakeAt looks at a schedule again at a time, in a whole second, and within a minute if a due time is owed.
func (c *calendar) wakeAt(ctx actor.Context, e *entry, at time.Time) {
	if e.File.HasOwed() {
		e.owed = true
		if soon := c.now().Add(lookPause); at.IsZero() || soon.Before(at) {
			at = soon
		}
	}
	c.rest(e)
	if at.IsZero() {
		return
	}
	if whole := at.Truncate(time.Second); !whole.Equal(at) {
		at = whole.Add(time.Second)
	}
	e.wake = at
	c.due.Push(e)
	if c.due.First() == e {
		c.startTimer(ctx)
	}
}

// rest takes a schedule out of those that are looked at.
func (c *calendar) rest(e *entry) {
	if e.place > 0 {
		c.due.Remove(e.place - 1)
		e.place = 0
	}
}

// write writes the file of a schedule, which is in force when it is on the disk. then is told how it went; nil: only the schedule needs to
// know. After a failure the file is read again after a pause: the disk may have either.
func (c *calendar) write(ctx actor.Context, e *entry, f *schedule.File, then func(actor.Context, *messages.Failure)) {
	e.busy = true
	file := &messages.FileWrite{Op: "schedule", Path: paths.SchedulePath(f.Name), Content: f.Encode()}
	c.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, m *messages.ChangeFilesResult) {
			if len(m.Failures) > 0 {
				c.failed(ctx, e, m.Failures[0].Failure.Text)
				if then != nil {
					then(ctx, m.Failures[0].Failure)
				}
				return
			}
			c.settle(ctx, e, f)
			if then != nil {
				then(ctx, nil)
			}
			c.goOn(ctx, e)
		})
}

// goOn ends the work on a schedule: what has waited for it comes next, and then the due times.
func (c *calendar) goOn(ctx actor.Context, e *entry) {
	e.busy = false
	for len(e.waiting) > 0 && !e.busy {
		next := e.waiting[0]
		e.waiting = e.waiting[1:]
		next.Message(ctx)
	}
	c.step(ctx, e)
}

// inTurn does something with a schedule when nothing else is on its way.
func (c *calendar) inTurn(ctx actor.Context, e *entry, do func(actor.Context)) {
	if e.busy || len(e.waiting) > 0 {
		e.waiting.Add(do, nil)
		return
	}
	do(ctx)
}

// failed leaves a schedule busy until its file has been read again.
func (c *calendar) failed(ctx actor.Context, e *entry, why string) {
	c.config.Env.Log().WithFields(logrus.Fields{"schedule": e.File.Name, "err": why}).
		Warn("a schedule cannot be written; it goes on in a moment")
	e.busy, e.why = true, why
	kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), failurePause, ctx.Self(), &readAgain{e})
}

// reread takes the state of a schedule from the disk, and goes on with it. The queue must have restored files after a restart: its answer
// to any question shows that it has.
func (c *calendar) reread(ctx actor.Context, e *entry) {
	if c.schedules[e.File.Name] != e { // of a former incarnation
		return
	}
	c.lists.Ask(ctx, func(number uint64) any { return &messages.ListJobs{Request: number} },
		func(ctx actor.Context, _ *messages.ListJobsResult) { c.readFile(ctx, e) })
}

func (c *calendar) readFile(ctx actor.Context, e *entry) {
	name := e.File.Name
	c.store.Read(ctx, "schedules", paths.SchedulePath(name), func(ctx actor.Context, m *messages.ReadFileResult) {
		f, err := schedule.Decode(m.Content)
		switch {
		case m.Failure != nil && !m.Missing || !m.Missing && err != nil:
			c.failed(ctx, e, "the file of the schedule cannot be read")
			return
		case m.Missing:
			c.gone(ctx, e)
		default:
			c.settle(ctx, e, f)
		}
		c.goOn(ctx, e)
	})
}

// forget drops a schedule whose file is gone.
func (c *calendar) forget(e *entry) {
	e.removed = true
	c.rest(e)
	delete(c.schedules, e.File.Name)
	for _, id := range e.File.Open {
		delete(c.jobs, id)
	}
}
