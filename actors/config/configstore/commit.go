package configstore

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/config/history"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/messages"
)

func (m *Commit) hasWhole() bool {
	return slices.ContainsFunc(m.Changes, func(c journal.Change) bool { return c.Whole != nil })
}

// commit carries out Commit: it writes the records of the changes that fit, and answers which were refused. It reports false if the
// request waits for a fold or for another operation on the file.
func (k *configstore) commit(ctx actor.Context, sender *actor.PID, m *Commit) bool {
	switch {
	case m.hasWhole() && (k.file.busy || k.folds.wanted):
		return false
	case m.hasWhole():
		k.install(ctx, sender, m)
		return true
	case (k.file.isFilled || k.journal.length > openMax) && !k.isEmpty:
		if k.folds.hasFailed() && k.now().Before(k.folds.notBefore) {
			ctx.Send(sender, &Committed{Request: m.Request, Failure: k.folds.failure})
			return true
		}
		k.folds.want(nil, false)
		return false
	}
	c := k.at.Commit(m.Changes)
	answer := func(ctx actor.Context, f *messages.Failure) {
		ctx.Send(sender, &Committed{Request: m.Request, Refused: c.Refused, Foreign: k.file.foreign, Failure: f})
	}
	if len(c.Steps) == 0 {
		answer(ctx, nil)
		return true
	}
	b := &journalWrite{answers: []reply{answer}}
	b.take(c.Position, c.Steps)
	k.writeJournal(ctx, b)
	return true
}

// installWhole asks the codec for the result of changes with a whole state, and for the contents of the files.
type (
	installWhole struct {
		request uint64
		at      journal.Position
		changes []journal.Change
		records []entry // without an entry of the history
		history *historyContents
	}
	installed struct {
		request uint64
		result  journal.Committed
		files   journal.Contents
		entries []history.Entry
		log     *history.Log // nil if it was not asked for
	}
)

func (c *codec) install(m *installWhole) *installed {
	a := &installed{request: m.request, result: m.at.Commit(m.changes)}
	if a.result.Whole {
		a.files, a.entries = a.result.Contents(), entriesOf(m.records, c.secrets, nil)
	}
	if m.history != nil {
		a.log = history.Open(m.history.older, m.history.current)
	}
	return a
}

// install writes the result of changes with a whole state to the files, in the order of a fold, and then removes the journal. If
// it is interrupted, the files have a state that means nothing: the log repeats the changes.
func (k *configstore) install(ctx actor.Context, sender *actor.PID, m *Commit) {
	k.file.busy, k.file.isAdopting = true, true
	open := slices.Clone(k.journal.open)
	k.readHistory(ctx, func(ctx actor.Context, contents *historyContents) {
		k.codec.ask(ctx, func(n uint64) any { return &installWhole{n, k.at, m.Changes, open, contents} }, func(ctx actor.Context, answer any) {
			k.writeInstalled(ctx, sender, m, answer.(*installed))
		})
	})
}

func (k *configstore) writeInstalled(ctx actor.Context, sender *actor.PID, m *Commit, a *installed) {
	if a.log != nil {
		k.history.log = a.log
	}
	done := func(ctx actor.Context, f *messages.Failure) {
		ctx.Send(sender, &Committed{Request: m.Request, Refused: a.result.Refused, Foreign: k.file.foreign, Failure: f})
	}
	if !a.result.Whole {
		k.notInstalled(ctx, m, done)
		return
	}
	k.writeBesides(ctx, a.result.Position, a.entries, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			k.installFailed(ctx, f, done)
			return
		}
		data := &messages.FileWrite{Op: "config", Path: paths.ConfigPath, Content: a.files.Config}
		k.replace(ctx, []*messages.FileWrite{data}, func(ctx actor.Context, f *messages.Failure) {
			if f != nil {
				k.installFailed(ctx, f, done)
				return
			}
			k.store.Identify(ctx, "config", paths.ConfigPath, func(ctx actor.Context, id *messages.IdentifyFileResult) {
				k.isInstalled(a.result.Position, id.Identity, done)
			})
		})
	})
}

// isInstalled takes a position that the files have. The answer waits until the journal is removed.
func (k *configstore) isInstalled(at journal.Position, identity string, done notify) {
	k.at, k.isEmpty = at, false
	k.file = file{identity: identity, at: at.Point()}
	k.journal = journalFile{isUnsure: true, answers: []func(actor.Context){func(ctx actor.Context) { done(ctx, nil) }}}
	k.folds.failure, k.folds.tries = nil, 0
	k.ready, k.failure, k.tries = true, nil, 0
}

// installFailed answers and reads the files again: they can be a mixture of old and new ones.
func (k *configstore) installFailed(ctx actor.Context, f *messages.Failure, done notify) {
	k.config.Env.Log().WithFields(logrus.Fields{"err": f.Text}).
		Error("configuration from the log of the cluster cannot be written; the write is repeated")
	k.file.busy, k.file.isAdopting = false, false
	done(ctx, f)
	k.load(ctx)
}

// notInstalled handles changes whose whole states cannot be decoded. The records among them are committed without them.
func (k *configstore) notInstalled(ctx actor.Context, m *Commit, done notify) {
	k.config.Env.Log().WithField("serial", k.at.Point().Serial).
		Error("a configuration in the log of the cluster cannot be decoded; every node ignores it")
	k.file.busy, k.file.isAdopting = false, false
	c := k.at.Commit(m.Changes)
	if k.failure != nil {
		done(ctx, k.failure)
		return
	}
	if len(c.Steps) == 0 {
		done(ctx, nil)
		return
	}
	b := &journalWrite{answers: []reply{reply(done)}}
	b.take(c.Position, c.Steps)
	k.writeJournal(ctx, b)
}

// export carries out Export. Until the answer the file is busy: no fold begins.
func (k *configstore) export(ctx actor.Context, m *Export, then func(actor.Context, *Exported)) {
	k.file.busy = true
	answer := func(ctx actor.Context, at journal.Position) {
		whole := func(n uint64) any { return &encode{request: n, config: at.Config, isWhole: true} }
		k.codec.ask(ctx, whole, func(ctx actor.Context, answer any) {
			k.file.busy = false
			contents := journal.Contents{Config: answer.(*encoded).config[0], TempRes: at.TempRes(), Extra: at.Extra()}
			then(ctx, &Exported{Request: m.Request, Contents: contents})
		})
	}
	end := func(ctx actor.Context, f *messages.Failure) {
		k.file.busy = false
		then(ctx, &Exported{Request: m.Request, Failure: f})
	}
	switch {
	case k.isEmpty:
		end(ctx, nil)
		return
	case !m.Adopting:
		answer(ctx, k.at)
		return
	}
	k.examine(ctx, func(ctx actor.Context, f *messages.Failure) {
		switch {
		case f != nil || k.file.foreign == nil:
			end(ctx, f)
		case k.file.adoptable == nil:
			end(ctx, k.file.foreign)
		default:
			answer(ctx, k.at.Adopt(k.file.adoptable))
		}
	})
}
