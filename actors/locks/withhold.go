package locks

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/messages"
)

// withhold takes back the request of a paused job that waits for locks, and what
// it has got of them; it may ask again when it is not paused any more (design.md
// 8). A job that does not wait is in the middle of an opcode, and goes on.
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

// withholdingTold: who is paused is known now. What jobs have asked for is done.
func (l *locks) withholdingTold(ctx actor.Context, m *messages.WithholdingTold) {
	if m.Epoch != uint64(l.incarnation) {
		return // meant for the former one
	}
	l.told = true
	clear(l.withheld)
	for _, id := range m.Ids {
		l.withhold(ctx, &messages.WithholdLocks{Id: id, Withhold: true})
	}
	untold := l.untold
	l.untold = nil
	for _, p := range untold {
		p.stop()
		l.handle(ctx, p.question.call, p.question.sender)
	}
}

// mayNot: an owner is not to be given locks, or nobody knows yet whether it may.
func (l *locks) mayNot(o lock.Owner) bool {
	return !o.Named && (!l.told || l.withheld[int64(o.Job)])
}

// putOff is a call that waits until it is known who is paused: a rule that was
// acknowledged holds over a restart, too.
type putOff struct {
	question *question
	stop     func() bool
}

// putOffOver: the time of a call that was put off is up.
type putOffOver struct{ put *putOff }

// putsOff keeps a call of a job while nobody knows whether that is paused, for as
// long as it would wait.
func (l *locks) putsOff(ctx actor.Context, o lock.Owner, q *question, wait time.Duration) bool {
	if l.told || o.Named {
		return false
	}
	p := &putOff{question: q}
	p.stop = kit.SendAfter(l.config.Env.Clock(), ctx.ActorSystem(), wait, ctx.Self(), &putOffOver{p})
	l.untold = append(l.untold, p)
	return true
}

func (l *locks) putOffOver(ctx actor.Context, m *putOffOver) {
	if at := slices.Index(l.untold, m.put); at >= 0 {
		l.untold = slices.Delete(l.untold, at, at+1)
		m.put.question.answer(ctx, Awaited{}, nil)
	}
}

// tellScheduler tells what owners hold and want now, and followers too; all says
// that these are all.
func (l *locks) tellScheduler(ctx actor.Context, owners []lock.Owner, all bool) {
	var records []byte
	for _, o := range owners {
		records = lock.AppendRecord(records, l.state.Record(o))
	}
	changed := &messages.LocksChanged{Records: records, All: all, Epoch: uint64(l.incarnation)}
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
	l.changed(ctx, lock.CallResult{Changed: u.Changed, Notify: u.Notify})
}
