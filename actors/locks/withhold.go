package locks

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/core/config"
	"lockstep/actors/core/lock"
	"lockstep/messages"
)

// withhold takes back the request of a paused job that waits for locks, and what
// it has got of them; it may ask again when it is not paused any more (DESIGN
// section 8). A job that does not wait is in the middle of an opcode, and goes on.
func (l *locks) withhold(ctx actor.Context, m *messages.WithholdLocks) {
	if !m.Withhold {
		delete(l.withheld, m.Id)
		return
	}
	l.withheld[m.Id] = true
	if l.state == nil {
		return // the scheduler says it again when there is one
	}
	for _, o := range sortedOwners(l.owners.byJob[m.Id]) {
		if l.state.HasPending(o) {
			l.release(ctx, o)
		}
	}
}

// withholds reports whether a call would take what is free for a paused job. It is
// told that nothing is: it asks again for a while, and then waits, which is
// withdrawn.
func (l *locks) withholds(c lock.Call) bool {
	union := c.Function == "opportunisticLockUnion" || c.Function == "guardedOpportunisticLockUnion"
	return union && !c.Owner.Named && l.withheld[int64(c.Owner.Job)]
}

// tellScheduler tells what owners hold and want now, and followers too; all says
// that these are all.
func (l *locks) tellScheduler(ctx actor.Context, owners []lock.Owner, all bool) {
	var records []byte
	for _, o := range owners {
		records = lock.AppendRecord(records, l.state.Record(o))
	}
	changed := &messages.LocksChanged{Records: records, All: all}
	ctx.Send(l.config.Scheduler, changed)
	if all {
		return // followers have been told all changes, or that there is another lock manager
	}
	for _, pid := range l.config.Followers {
		ctx.Send(pid, changed)
	}
}

// configChanged takes the limit of bypass that is set now.
func (l *locks) configChanged(ctx actor.Context, m *messages.ConfigChanged) {
	settings, err := config.DecodeSettings(m.Settings)
	if err != nil {
		return // the scheduler complains
	}
	l.config.Settings.BypassAfter = settings.LockBypass()
	if l.state == nil || l.state.BypassAfter() == settings.LockBypass() {
		return
	}
	u := l.state.SetBypassAfter(l.config.Env.Clock().Now(), settings.LockBypass())
	l.changed(ctx, lock.Answer{Changed: u.Changed, Notify: u.Notify})
}
