package locks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/core/lock"
	"lockstep/messages"
)

// functions that the lock manager has beside those of core/lock.
var functions = map[string]func(*locks, actor.Context, *clientCall){
	"cleanupLocks": noArgs(func(l *locks, ctx actor.Context, q *clientCall) { l.probe(ctx, q.request, q.sender) }),
	AwaitLocks:     (*locks).await,
	PassBGL:        (*locks).passBGL,
	Rows:           noArgs((*locks).monitorRows),
	Waits:          noArgs((*locks).waits),
	Status:         noArgs((*locks).managerStatus),
}

// noArgs is for functions that take no arguments.
func noArgs(serve func(*locks, actor.Context, *clientCall)) func(*locks, actor.Context, *clientCall) {
	return func(l *locks, ctx actor.Context, q *clientCall) {
		if err := lock.Arguments(q.args); err != nil {
			q.answer(ctx, nil, badArguments(err))
			return
		}
		serve(l, ctx, q)
	}
}

// The functions that are lockstep's own.
const (
	// AwaitLocks is updateLocksWaiting for clients that wait on their
	// connection: [identity, priority, request, seconds]. The answer, an Awaited,
	// comes when the request is granted, withdrawn by somebody else, or after so
	// many seconds; it goes on waiting then, until it is asked for again or freed.
	AwaitLocks = "lockstepAwaitLocks"
	// PassBGL passes the big lock from an owner to the daemon, for good: [identity]
	// (prepareClusterDestruction of locks.md 2.3).
	PassBGL = "lockstepPassBGL"
	// Rows is the lock monitor, [answer.Lock, ...].
	Rows = "lockstepRows"
	// Waits is who waits for whom, [answer.LockWait, ...].
	Waits = "lockstepWaits"
	// Status is a Standing.
	Status = "lockstepLockStatus"
)

// ManagerStatus is how the lock manager stands.
type ManagerStatus struct {
	Owners      int      `json:"owners"`
	Waiting     int      `json:"waiting"`
	Quarantined []string `json:"quarantined"`
	Failure     string   `json:"failure,omitempty"` // why no lock is given
}

// clientCall is a call and who wants the answer.
type clientCall struct {
	call    *messages.CallLocks
	request uint64
	sender  *actor.PID
	args    []json.RawMessage
}

func (q *clientCall) answer(ctx actor.Context, result any, f *messages.Failure) {
	a := &messages.CallLocksResult{Request: q.request, Failure: f}
	if f == nil {
		encoded, err := json.Marshal(result)
		if err != nil {
			panic(fmt.Errorf("the answer to a call cannot be encoded: %w", err))
		}
		a.Result = encoded
	}
	ctx.Send(q.sender, a)
}

func genericError(text string) *messages.Failure {
	return &messages.Failure{Class: "GenericError", Text: text}
}

// badArguments is Ganeti's answer to arguments that are not what a function takes.
func badArguments(err error) *messages.Failure { return genericError("RPC input: " + err.Error()) }

// call answers a call, at once or when what it has changed is written.
func (l *locks) call(ctx actor.Context, m *messages.CallLocks, sender *actor.PID) {
	q := &clientCall{call: m, request: m.Request, sender: sender}
	if err := json.Unmarshal(m.Args, &q.args); err != nil {
		q.answer(ctx, nil, badArguments(err))
		return
	}
	if m.Function == Status && l.fenced {
		functions[Status](l, ctx, q)
		return
	}
	if !l.ready(m, sender) && (l.unavailable == nil || m.Function != Status) {
		if l.unavailable != nil {
			q.answer(ctx, nil, l.unavailable)
		}
		return
	}
	if serve, own := functions[m.Function]; own {
		serve(l, ctx, q)
		return
	}
	c, err := lock.ParseCall(m.Function, q.args)
	switch {
	case errors.Is(err, lock.ErrNoFunction):
		q.answer(ctx, nil, genericError("No such method: "+m.Function))
	case err != nil:
		q.answer(ctx, nil, badArguments(err))
	default:
		l.do(ctx, c, q)
	}
}

func (l *locks) do(ctx actor.Context, c lock.Call, q *clientCall) {
	if c.Opportunistic && l.isPaused(c.Owner) { // nothing of a choice is free; when it waits, it hears that it is paused
		l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, []lock.Lock{}, f) })
		return
	}
	a, err := c.Do(l.state, l.config.Env.Clock().Now())
	if err != nil {
		l.deny(ctx, q, err)
		return
	}
	l.changed(ctx, a)
	// Encoded now: an answer says how things stood when the call was made.
	encoded, err := json.Marshal(a.Result)
	if err != nil {
		panic(fmt.Errorf("the answer to %s cannot be encoded: %w", c.Function, err))
	}
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, json.RawMessage(encoded), f) })
}

// deny answers with an error, which is about how things stand, too.
func (l *locks) deny(ctx actor.Context, q *clientCall, err error) {
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) {
		q.answer(ctx, nil, cmp.Or(f, genericError(err.Error())))
	})
}

// refuse answers what was held back for a state that there will not be soon.
func (l *locks) refuse(ctx actor.Context, h deferredMessage, f *messages.Failure) {
	switch m := h.message.(type) {
	case *messages.CallLocks:
		ctx.Send(h.sender, &messages.CallLocksResult{Request: m.Request, Failure: f})
	case *messages.OwnersProbed:
		if m.Request != 0 {
			ctx.Send(h.sender, &messages.CallLocksResult{Request: m.Request, Failure: f})
		}
	}
}

func (l *locks) passBGL(ctx actor.Context, q *clientCall) {
	var from lock.Owner
	if err := lock.Arguments(q.args, &from); err != nil {
		q.answer(ctx, nil, badArguments(err))
		return
	}
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
	const beforeAll = -21 // more urgent than any job can be
	u, err := l.state.SafeUpdateWaiting(now, lock.Pending{Priority: beforeAll, Owner: l.config.Self,
		Request: lock.Request{{Lock: lock.BGL, Mode: lock.Exclusive}}})
	if err != nil {
		l.deny(ctx, q, err)
		return
	}
	l.changed(ctx, lock.CallResult{Changed: u.Changed, Notify: u.Notify})
	u = l.state.ReleaseMatching(now, from, func(freed lock.Lock) bool { return freed == lock.BGL })
	l.changed(ctx, lock.CallResult{Changed: u.Changed, Notify: u.Notify})
	l.notifyWhenWritten(ctx, done)
}

// monitorRows is the lock monitor in the order of the query's answer (queue.md 2.6).
func (l *locks) monitorRows(ctx actor.Context, q *clientCall) {
	state := l.state.MonitorRows()
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
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) { q.answer(ctx, rows, f) })
}

// managerStatus is answered at once, and also when nothing else is.
func (l *locks) managerStatus(ctx actor.Context, q *clientCall) {
	s := ManagerStatus{Owners: l.owners.len(), Waiting: len(l.deferredCalls), Quarantined: append([]string{}, l.quarantined...)}
	if l.state != nil {
		s.Waiting += len(l.state.Pending())
	}
	if l.unavailable != nil {
		s.Failure = l.unavailable.Text
	}
	q.answer(ctx, s, nil)
}
