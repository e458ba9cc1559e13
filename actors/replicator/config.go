package replicator

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/configstore"
	"lockstep/core/config"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// configuration is what the replicator knows of the configuration. The storage of this node's copy is the actor configstore.
type configuration struct {
	// foreign is why the master accepts no change: another program has changed its config.data. nil: as far as is known, none has.
	foreign *messages.Failure
	// holds is the number of whole states that are about to be proposed. Requests wait meanwhile, so that no change comes
	// between a state and its proposal.
	holds int
}

// configRequest handles a request to the storage of the configuration, which only an actor of the master part sends. Requests
// are carried out in their order.
func (r *replicator) configRequest(ctx actor.Context, message any) {
	if !r.mastership.master {
		return // its sender stops, or repeats it after Started
	}
	from := ctx.Sender()
	if m, is := message.(*configstore.AddRecords); is {
		r.perform(ctx, deferred{waits: r.configHeld, perform: func(ctx actor.Context) { r.addRecords(ctx, from, m) }})
		return
	}
	after := r.numbers.last
	waits := func() bool { return r.configHeld() || r.proposals.isOpen(after) }
	r.perform(ctx, deferred{waits: waits, perform: func(ctx actor.Context) { r.forwardConfig(ctx, from, message) }})
}

func (r *replicator) configHeld() bool { return r.configuration.holds > 0 }

// forwardConfig has a request answered by this node's storage, which has all changes that were requested before.
func (r *replicator) forwardConfig(ctx actor.Context, from *actor.PID, message any) {
	switch m := message.(type) {
	case *configstore.Load:
		r.configs.Load(ctx, func(ctx actor.Context, a *configstore.Loaded) {
			answer := *a
			answer.Request = m.Request
			ctx.Send(from, &answer)
		})
	case *configstore.Flush:
		r.configs.Flush(ctx, func(ctx actor.Context, a *configstore.Flushed) {
			ctx.Send(from, &configstore.Flushed{Request: m.Request, Failure: a.Failure})
		})
	case *configstore.Check:
		r.configs.Check(ctx, func(ctx actor.Context, a *configstore.Checked) {
			ctx.Send(from, &configstore.Checked{Request: m.Request, Foreign: a.Foreign, Failure: a.Failure})
		})
	case *configstore.Discard:
		r.configs.Resolve(ctx, false, func(ctx actor.Context, a *configstore.ForeignResolved) {
			ctx.Send(from, &configstore.ForeignResolved{Request: m.Request, Foreign: a.Foreign, Failure: a.Failure})
		})
	case *configstore.Adopt:
		r.adoptConfig(ctx, from, m)
	}
}

// adoptConfig makes the foreign content of config.data that of all nodes, if there is any.
func (r *replicator) adoptConfig(ctx actor.Context, from *actor.PID, m *configstore.Adopt) {
	term := r.mastership.term
	r.configs.Check(ctx, func(ctx actor.Context, a *configstore.Checked) {
		switch {
		case !r.mastership.isTerm(term):
		case a.Failure != nil || a.Foreign == nil:
			ctx.Send(from, &configstore.ForeignResolved{Request: m.Request, Failure: a.Failure})
		default:
			r.proposeState(ctx, true, func(ctx actor.Context, f *messages.Failure) {
				ctx.Send(from, &configstore.ForeignResolved{Request: m.Request, Foreign: true, Failure: f})
			})
		}
	})
}

// addRecords proposes records in one entry. If another program has changed config.data, it asks first whether that is still so.
func (r *replicator) addRecords(ctx actor.Context, from *actor.PID, m *configstore.AddRecords) {
	term := r.mastership.term
	answer := func(ctx actor.Context, refused bool, f *messages.Failure) {
		ctx.Send(from, &configstore.AddRecordsResult{Request: m.Request, Refused: refused, Failure: f})
	}
	if r.configuration.foreign == nil {
		r.proposeRecords(ctx, m.Records, answer)
		return
	}
	r.configs.Check(ctx, func(ctx actor.Context, a *configstore.Checked) {
		switch {
		case !r.mastership.isTerm(term):
		case a.Failure != nil:
			answer(ctx, false, a.Failure)
		case a.Foreign != nil:
			answer(ctx, false, r.configuration.foreign)
		default:
			r.configuration.foreign = nil
			r.proposeRecords(ctx, m.Records, answer)
		}
	})
}

// proposeRecords has records of the configuration applied on all nodes, all or none. done is called when this node has applied
// them, or nothing was changed.
func (r *replicator) proposeRecords(
	ctx actor.Context, records []*journal.Record,
	done func(ctx actor.Context, refused bool, f *messages.Failure),
) {
	changes, err := replication.RecordChanges(records)
	if err != nil {
		done(ctx, false, messages.ConfigurationFailure(err.Error()))
		return
	}
	if len(changes) == 0 {
		done(ctx, false, nil)
		return
	}
	w := &changeRequest{records: records}
	w.done = func(ctx actor.Context, m *messages.ChangeFilesResult) {
		var f *messages.Failure
		if len(m.Failures) > 0 {
			f = messages.ConfigurationFailure("the log of the cluster does not take it: " + m.Failures[0].Failure.Text)
		}
		done(ctx, w.refused, f)
	}
	r.proposals.add(changes, w)
}

// proposeState makes this node's configuration that of all nodes; adopting: with the foreign content of config.data. Without
// anything to propose it has no effect.
func (r *replicator) proposeState(ctx actor.Context, adopting bool, done func(actor.Context, *messages.Failure)) {
	term := r.mastership.term
	r.configuration.holds++
	// The exported state must have every change that was proposed before it.
	waits := func() bool { return r.proposals.touches(paths.ConfigPath) }
	r.perform(ctx, deferred{waits: waits, perform: func(ctx actor.Context) {
		r.configs.Export(ctx, adopting, func(ctx actor.Context, e *configstore.Exported) {
			if r.mastership.isTerm(term) {
				r.exported(ctx, e, done)
			}
		})
	}})
}

// exported proposes a state for all nodes, and lets requests go on that the export has held up. done hears when the log has the state.
func (r *replicator) exported(ctx actor.Context, e *configstore.Exported, done func(actor.Context, *messages.Failure)) {
	// The hold ends in the message in which the state is proposed, so that no change is proposed between the export and the state: all nodes
	// would lose it.
	r.configuration.holds--
	if e.Failure != nil || e.Contents.Config == nil {
		done(ctx, e.Failure)
	} else {
		r.propose([]*messages.FileChange{replication.StateChange(e.Contents)}, func(ctx actor.Context, m *messages.ChangeFilesResult) {
			if len(m.Failures) > 0 {
				done(ctx, messages.ConfigurationFailure("The configuration cannot be replicated: the log of the cluster does not take it: "+
					m.Failures[0].Failure.Text))
				return
			}
			done(ctx, nil)
		})
	}
	r.performDeferred(ctx)
}

// applyBatch hands the changes of the configuration in a batch to this node's storage, then applies the rest of the batch.
func (r *replicator) applyBatch(ctx actor.Context, b *batch) {
	found, err := replication.ConfigChanges(b.entries, r.ownRecords)
	if err != nil {
		panic(fmt.Errorf("decode the configuration up to index %d: %w", b.index, err)) // without it this node would differ from the others
	}
	if len(found) == 0 {
		r.readLocal(ctx, b)
		return
	}
	changes := make([]journal.Change, len(found))
	for i, c := range found {
		changes[i] = c.Change
	}
	// The configuration goes first. A change of it may be refused, on all nodes alike, and this must be known before the proposals are
	// answered (batchWritten).
	r.configs.Commit(ctx, changes, func(ctx actor.Context, m *configstore.Committed) {
		// A snapshot has replaced the batch meanwhile.
		if r.applying.batch != b {
			return
		}
		if m.Failure != nil {
			r.retryDisk(ctx, b, m.Failure, r.applyBatch)
			return
		}
		r.configuration.foreign = m.Foreign
		for i, refused := range m.Refused {
			if e := b.entries[found[i].Entry]; refused && r.isOwn(e) {
				r.proposals.refuse(e.Number)
			}
		}
		r.readLocal(ctx, b)
	})
}

func (r *replicator) isOwn(e *messages.LogEntry) bool {
	return e.Origin == r.config.Self.Node && e.Incarnation == r.config.Self.Incarnation
}

// ownRecords returns the records of an entry that this incarnation has proposed; nil if it has not.
func (r *replicator) ownRecords(e *messages.LogEntry) []*journal.Record {
	if !r.isOwn(e) {
		return nil
	}
	return r.proposals.records(e.Number)
}

// restoreConfig makes the configuration of a snapshot this node's, and then calls then. A snapshot without configuration leaves it as it
// is.
func (r *replicator) restoreConfig(ctx actor.Context, m *messages.LogSnapshotReceived, then func(actor.Context)) {
	s := &r.applying.snapshot
	if s.config.Config == nil {
		then(ctx)
		return
	}
	contents := s.config
	r.configs.Commit(ctx, []journal.Change{{Whole: &contents}}, func(ctx actor.Context, c *configstore.Committed) {
		switch {
		case s.part != m:
		case c.Failure != nil:
			r.retryRestore(ctx, m, c.Failure)
		default:
			then(ctx)
		}
	})
}

// answerCommitted answers GetCommittedFiles with the files of the replica and the configuration.
func (r *replicator) answerCommitted(ctx actor.Context) {
	sender := ctx.Sender()
	r.configs.Export(ctx, false, func(ctx actor.Context, e *configstore.Exported) {
		answer := r.replica.committedFiles()
		if answer.Failure == nil {
			answer.Failure = e.Failure
		}
		answer.Files = append(answer.Files, replication.ConfigFiles(e.Contents)...)
		ctx.Send(sender, answer)
	})
}

// nameMaster makes this node the master in the configuration, if it is not, and then the master.
func (r *replicator) nameMaster(ctx actor.Context, term uint64) {
	r.configs.Load(ctx, func(ctx actor.Context, m *configstore.Loaded) {
		if !r.mastership.isTerm(term) {
			return
		}
		if m.Failure != nil {
			r.config.Env.Log().WithField("err", m.Failure.Text).Error(
				"writing this node as the master into the configuration failed; the node becomes the master, and the configuration still names another")
		}
		record := r.masterRecord(m)
		if record == nil {
			r.becomeMaster(ctx, term)
			return
		}
		r.proposeRecords(ctx, []*journal.Record{record}, func(ctx actor.Context, refused bool, _ *messages.Failure) {
			if refused && r.mastership.isTerm(term) {
				r.nameMaster(ctx, term) // the configuration has changed since it was loaded
				return
			}
			r.becomeMaster(ctx, term)
		})
	})
}

// masterRecord returns the record that makes this node the master; nil if none is needed or there is no configuration.
func (r *replicator) masterRecord(m *configstore.Loaded) *journal.Record {
	if m.State.Config == nil {
		return nil
	}
	now := model.Time(float64(r.config.Env.Clock().Now().UnixMicro()) / 1e6)
	after := m.State
	var touched []model.Touched
	master := config.Master{Name: r.config.Name, UUID: r.config.Self.Node, IP: r.membership.ip()}
	after.Config, touched = config.SetMaster(m.State.Config, now, master)
	by := journal.Author{Caller: reserve.Caller{Program: "lockstepd"}, Method: "becomeMaster"}
	return journal.NewRecord(m.Number+1, m.State, after, touched, now, by)
}
