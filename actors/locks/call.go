package locks

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/core/lock"
	"lockstep/messages"
)

// ManagerStatus answers GetStatus: how many owners there are, how many requests and calls wait, which files were quarantined, and why no
// lock can be granted.
type ManagerStatus struct {
	Owners      int      `json:"owners"`
	Waiting     int      `json:"waiting"`
	Quarantined []string `json:"quarantined"`
	Failure     string   `json:"failure,omitempty"` // why no lock is granted
}

// requester is an Operate with the actor to answer.
type requester struct {
	*Operate
	sender *actor.PID
}

func (c *requester) answer(ctx actor.Context, value any, f *messages.Failure) {
	a := &OperateResult{Request: c.Request, Failure: f}
	if f == nil {
		a.Value = value
	}
	ctx.Send(c.sender, a)
}

func genericError(text string) *messages.Failure {
	return messages.GenericFailure(text)
}

// operate carries out an operation. The answer leaves at once, or when the change is on the disk.
func (l *locks) operate(ctx actor.Context, m *Operate, sender *actor.PID) {
	c := &requester{m, sender}
	_, status := m.Operation.(GetStatus)
	if status && l.fenced {
		l.managerStatus(ctx, c)
		return
	}
	if !l.ready(m, sender) && (l.unavailable == nil || !status) {
		if l.unavailable != nil {
			c.answer(ctx, nil, l.unavailable)
		}
		return
	}
	switch op := m.Operation.(type) {
	case Apply:
		l.applyCall(ctx, op.Call, c)
	case Cleanup:
		l.probe(ctx, m.Request, sender)
	case Await:
		l.await(ctx, op, c)
	case AwaitUnion:
		l.awaitUnion(ctx, op, c)
	case PassBGL:
		l.passBGL(ctx, op.From, c)
	case ListRows:
		l.monitorRows(ctx, c)
	case ListWaits:
		l.waits(ctx, c)
	case ListHeld:
		c.answer(ctx, l.heldBy(op), nil)
	case GetStatus:
		l.managerStatus(ctx, c)
	default:
		panic(fmt.Sprintf("%T is no operation of the lock manager", op))
	}
}

func (l *locks) applyCall(ctx actor.Context, c lock.Call, q *requester) {
	if c.Opportunistic && l.isPaused(c.Owner) { // no lock of the choice is free; an owner that then waits gets the pause as its answer
		l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, []lock.Lock{}, f) })
		return
	}
	l.releaseFormer(ctx, c.Owner)
	a, err := c.Do(l.state, l.config.Env.Clock().Now())
	if err != nil {
		l.deny(ctx, q, err)
		return
	}
	l.protect(c.Owner)
	l.changed(ctx, a)
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, a.Result, f) })
}

// heldBy are the locks of an owner or, without an owner, those of all owners with the pid of the question.
func (l *locks) heldBy(op ListHeld) []lock.Item {
	table := l.state.Allocation()
	if op.Owner != (lock.Owner{}) {
		return table.Held(op.Owner)
	}
	var all []lock.Item
	for _, o := range table.Holders() {
		if o.PID == op.PID && op.PID > 0 {
			all = append(all, table.Held(o)...)
		}
	}
	return all
}

// deny answers with an error about the arguments or the state of the locks.
func (l *locks) deny(ctx actor.Context, q *requester, err error) {
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) {
		q.answer(ctx, nil, cmp.Or(f, genericError(err.Error())))
	})
}

// refuse answers a call while the files cannot be read or written. Messages that want no answer are dropped.
func (l *locks) refuse(ctx actor.Context, message any, sender *actor.PID) {
	switch m := message.(type) {
	case *Operate:
		ctx.Send(sender, &OperateResult{Request: m.Request, Failure: l.unavailable})
	case *messages.OwnersProbed:
		if m.Request != 0 {
			ctx.Send(sender, &OperateResult{Request: m.Request, Failure: l.unavailable})
		}
	}
}

func (l *locks) passBGL(ctx actor.Context, from lock.Owner, q *requester) {
	done := func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, []any{}, f) }
	if l.state.Allocation().Mode(l.config.Self, lock.BGL) == lock.Exclusive {
		l.notifyWhenWritten(ctx, done) // the call has come before
		return
	}
	if l.state.Allocation().Mode(from, lock.BGL) != lock.Exclusive {
		l.deny(ctx, q, errors.New("Cluster destruction requested without owning BGL exclusively"))
		return
	}
	now := l.config.Env.Clock().Now()
	const beforeAll = -21 // more urgent than any job
	u, err := l.state.SafeUpdateWaiting(now, lock.Pending{Priority: beforeAll, Owner: l.config.Self,
		Request: lock.Request{{Lock: lock.BGL, Mode: lock.Exclusive}}})
	if err != nil {
		l.deny(ctx, q, err)
		return
	}
	l.updated(ctx, u)
	u = l.state.ReleaseMatching(now, from, func(freed lock.Lock) bool { return freed == lock.BGL })
	l.updated(ctx, u)
	l.notifyWhenWritten(ctx, done)
}

// monitorRows answers ListRows, when the changes that the rows show are written.
func (l *locks) monitorRows(ctx actor.Context, q *requester) {
	rows := RowsOf(l.state)
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, rows, f) })
}

// RowsOf is the lock monitor, with free locks, ordered as in the answer of Query (queue.md 2.6).
func RowsOf(s *lock.State) []answer.Lock {
	state := s.MonitorRows()
	lock.SortMonitorRows(state)
	rows := make([]answer.Lock, len(state))
	for i, r := range state {
		row := answer.Lock{Name: r.Lock.String(), Owners: []string{}, Pending: []answer.LockWaiter{}}
		if r.Mode != lock.None {
			row.Mode = r.Mode.String()
		}
		for _, o := range r.Owners {
			row.Owners = append(row.Owners, o.IdentityJSON())
		}
		for _, w := range r.Pending {
			row.Pending = append(row.Pending, answer.LockWaiter{Mode: w.Mode.String(), Owner: w.Owner.IdentityJSON()})
		}
		rows[i] = row
	}
	return rows
}

// managerStatus answers GetStatus at once, even without a state.
func (l *locks) managerStatus(ctx actor.Context, q *requester) {
	s := ManagerStatus{Owners: l.owners.len(), Waiting: len(l.deferredCalls), Quarantined: append([]string{}, l.quarantined...)}
	if l.state != nil {
		s.Waiting += len(l.state.Pending())
	}
	if l.unavailable != nil {
		s.Failure = l.unavailable.Text
	}
	q.answer(ctx, s, nil)
}
