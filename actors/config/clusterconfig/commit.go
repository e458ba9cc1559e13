package clusterconfig

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kit"
	"lockstep/core/config/calls"
	"lockstep/core/config/journal"
	"lockstep/messages"
)

// change is a call that was applied in memory.
type change struct {
	origin kit.Deferral[any] // handled again if the storage has another state
	after  calls.State
	record *journal.Record // nil: nothing changed; the answer still tells of the changes before
	// done is called once: when the change and all before it are durable, or with the failure after which they are undone.
	done func(ctx actor.Context, f *messages.Failure)
}

// commits is the way of changes from memory to the disk. One write is under way at a time; changes that are applied meanwhile
// form the next one.
//
// Invariant: state is durable with the changes of writing and of next applied in order.
type commits struct {
	durable calls.State // on the disk
	state   calls.State
	number  uint64 // of the last durable record
	made    uint64 // of the last record
	writing []*change
	next    []*change
}

// reset starts with a loaded state. number is that of its last record.
func (c *commits) reset(state calls.State, number uint64) {
	c.durable, c.state, c.number, c.made = state, state, number, number
	c.writing, c.next = nil, nil
}

// stateOf is the part of a state that is kept on the disk.
func stateOf(s calls.State) journal.State {
	return journal.State{Config: s.Config, Reserved: s.Reserved, Concurrent: s.ConcurrentChanges, Rules: s.Rules}
}

// add takes a change that was applied to state, for the next write.
func (c *commits) add(ch *change) {
	if c.state = ch.after; ch.record != nil {
		c.made = ch.record.Number
	}
	c.next = append(c.next, ch)
}

// idle reports whether no change is on its way to the disk.
func (c *commits) idle() bool { return len(c.writing)+len(c.next) == 0 }

// undo returns to the durable state and returns the changes that are not durable.
func (c *commits) undo() []*change {
	undone := append(c.writing, c.next...)
	c.reset(c.durable, c.number)
	return undone
}

// write begins the next write, if none is under way. Changes without a record that wait for no write are done.
func (c *clusterconfig) write(ctx actor.Context) {
	w := &c.commits
	for w.writing == nil && len(w.next) > 0 {
		var records []*journal.Record
		for _, ch := range w.next {
			if ch.record != nil {
				records = append(records, ch.record)
			}
		}
		// All changes so far share one write. Those that come during it make the next one.
		w.writing, w.next = w.next, nil
		if len(records) == 0 {
			c.written(ctx, &configstore.AddRecordsResult{})
			continue
		}
		c.storage.AddRecords(ctx, records, c.written)
		return
	}
}

// written takes the result of a write. After a success the changes are published and their calls answered. After a failure all changes
// are undone and their calls fail. If the storage has another configuration, the calls are applied to that one.
func (c *clusterconfig) written(ctx actor.Context, m *configstore.AddRecordsResult) {
	w := &c.commits
	switch {
	case m.Failure != nil:
		f := messages.ConfigurationFailure(m.Failure.Text)
		c.config.Env.Log().WithField("err", m.Failure.Text).Error("configuration cannot be written; the changes are undone and their calls fail")
		// Every later change was made on the result of these, so all of them fail.
		for _, ch := range w.undo() {
			ch.done(ctx, f)
		}
		c.callers.watchAll(w.durable.Reserved) // owners of reservations that are back may have died meanwhile
		return
	case m.Refused:
		c.config.Env.Log().Warn("the storage has another configuration; the calls are applied to it")
		var again kit.Deferred[any]
		for _, ch := range w.undo() {
			if ch.origin.Message != nil {
				again = append(again, ch.origin)
			}
		}
		c.reload(ctx, again)
		return
	}
	durable := w.writing
	w.writing = nil
	last := durable[len(durable)-1].after
	changed := last.Config != w.durable.Config || last.Rules != w.durable.Rules
	w.durable = last
	for _, ch := range durable {
		if ch.record != nil {
			w.number = ch.record.Number
		}
	}
	if changed {
		// Before the clients are answered: a client that asks a subscriber next finds its change there.
		c.publish(ctx)
	}
	for _, ch := range durable {
		ch.done(ctx, nil)
	}
	c.write(ctx)
}
