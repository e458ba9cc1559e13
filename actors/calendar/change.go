package calendar

import (
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/paths"
	"lockstep/core/schedule"
	"lockstep/messages"
)

// Bounds of all schedules and of those of one user, if that is neither root nor the daemon's user.
const (
	schedulesMax, schedulesOfUserMax = 10_000, 2_000
)

func (c *calendar) asked(ctx actor.Context, message any, sender *actor.PID) {
	switch m := message.(type) {
	case *List:
		ctx.Send(sender, c.list(m))
	case *Change:
		answer := func(ctx actor.Context, r *ChangeResult) {
			r.Request = m.Request
			ctx.Send(sender, r)
		}
		e := c.schedules[m.Name]
		if e == nil {
			c.changeUnknown(ctx, m, answer)
			return
		}
		c.inTurn(ctx, e, func(ctx actor.Context) {
			if e.removed {
				c.changeUnknown(ctx, m, answer)
				return
			}
			c.change(ctx, e, m, answer)
		})
	}
}

func (c *calendar) list(m *List) *ListResult {
	r := &ListResult{Request: m.Request}
	for _, e := range c.byName() {
		name := e.File.Name
		if m.Name != "" && m.Name != name || e.unwritten || name <= m.After || !strings.Contains(name, m.Search) {
			continue
		}
		if m.Limit > 0 && len(r.Schedules) == m.Limit {
			r.More = true
			break
		}
		r.Schedules = append(r.Schedules,
			Shown{File: e.File, Next: e.Next, State: e.State, Why: e.File.WhyNot(e.State, e.Broken), Failing: e.why})
	}
	return r
}

func failedChange(code, text string) *ChangeResult {
	return &ChangeResult{Failure: messages.PrereqFailure(code, text)}
}

// changeUnknown adds a schedule. Nothing else can be done with one that does not exist.
func (c *calendar) changeUnknown(ctx actor.Context, m *Change, answer func(actor.Context, *ChangeResult)) {
	if c.unread[m.Name] {
		answer(ctx, &ChangeResult{Failure: messages.GenericFailure(fmt.Sprintf("The file of schedule %s cannot be read now: try again", m.Name))})
		return
	}
	if m.Put == nil {
		answer(ctx, failedChange(messages.UnknownEntity, fmt.Sprintf("There is no schedule %s: see lockstep schedule list", m.Name)))
		return
	}
	owner := schedule.OwnerOf(m.Put.Owner)
	bounded := owner.Remote != "" || owner.UID != 0 && owner.UID != c.config.Daemon.UID
	own := 0
	for _, e := range c.schedules {
		if e.File.Owner == owner {
			own++
		}
	}
	if len(c.schedules) >= schedulesMax || bounded && own >= schedulesOfUserMax {
		answer(ctx, failedChange(messages.WrongState, fmt.Sprintf(
			"There are %d schedules, %d of them yours; there may be %d, and %d of one user: remove some",
			len(c.schedules), own, schedulesMax, schedulesOfUserMax)))
		return
	}
	f := schedule.Make(m.Put.Definition, owner, m.By, c.now()).MadeBy(m.Put.Maker)
	e := &entry{unwritten: true}
	if len(c.schedules) == 0 {
		ctx.Request(c.config.Queue, &messages.SubscribeAllJobs{}) // before its first job
	}
	c.take(e, f) // a second request with this name waits for the write
	c.write(ctx, e, f, func(ctx actor.Context, failure *messages.Failure) {
		if failure == nil {
			c.note(m, "added")
		}
		answer(ctx, &ChangeResult{Changed: failure == nil, Failure: failure})
	})
}

func (c *calendar) note(m *Change, what string) {
	c.config.Env.Log().WithFields(logrus.Fields{"schedule": m.Name, "change": what, "by": m.By}).Info("schedule changed")
}

// change changes a schedule on which nothing else is on its way.
func (c *calendar) change(ctx actor.Context, e *entry, m *Change, answer func(actor.Context, *ChangeResult)) {
	if owner := e.File.Owner.Key(); m.OnlyOf != "" && m.OnlyOf != owner {
		text := fmt.Sprintf("schedule %s belongs to %s: to change it needs the role operate", m.Name, e.File.By)
		answer(ctx, failedChange(messages.NotPermitted, text))
		return
	}
	put := func(f *schedule.File, what string) {
		c.write(ctx, e, f, func(ctx actor.Context, failure *messages.Failure) {
			if failure == nil {
				c.note(m, what)
			}
			answer(ctx, &ChangeResult{Changed: failure == nil, Failure: failure})
		})
	}
	switch {
	case m.Put != nil && !m.Put.Replace:
		text := fmt.Sprintf("There is a schedule %s already: remove it first, or use lockstep schedule apply", m.Name)
		answer(ctx, failedChange(messages.WrongInput, text))
	case m.Put != nil:
		next := e.File.Redefine(m.Put.Definition, schedule.OwnerOf(m.Put.Owner), m.By, c.now()).MadeBy(m.Put.Maker)
		if schedule.Same(next.Definition, e.File.Definition) && next.Owner == e.File.Owner && next.Maker == e.File.Maker {
			answer(ctx, &ChangeResult{})
			return
		}
		put(next, "redefined")
	case m.Order == Pause:
		put(e.File.Pause(m.UntilUs), "paused")
	case m.Order == Resume:
		put(e.File.Resume(c.now()), "resumed")
	case m.Order == Run:
		c.note(m, "run")
		c.fire(ctx, e, firing{Fire: schedule.Fire{DueUs: c.now().UnixMicro(), By: m.By}, next: e.File, then: answer})
	case m.Order == Remove:
		c.remove(ctx, e, m, answer)
	}
}

func (c *calendar) remove(ctx actor.Context, e *entry, m *Change, answer func(actor.Context, *ChangeResult)) {
	e.busy = true
	c.store.Remove(ctx, &messages.RemoveFiles{Op: "schedule", Paths: []string{paths.SchedulePath(m.Name)}},
		func(ctx actor.Context, done *messages.ChangeFilesResult) {
			if len(done.Failures) > 0 {
				c.failed(ctx, e, done.Failures[0].Failure.Text)
				answer(ctx, &ChangeResult{Failure: done.Failures[0].Failure})
				return
			}
			c.gone(ctx, e)
			c.note(m, "removed")
			answer(ctx, &ChangeResult{Changed: true})
			c.goOn(ctx, e)
		})
}
