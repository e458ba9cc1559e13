package configstore

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/messages"
)

// load reads the files and decodes them. Until it has a state all requests wait.
func (k *configstore) load(ctx actor.Context) {
	k.ready, k.failure = false, nil
	k.store.Identify(ctx, "config", paths.ConfigPath, func(ctx actor.Context, id *messages.IdentifyFileResult) {
		if id.Failure != nil {
			k.cannotRead(ctx, id.Failure)
			return
		}
		k.readAll(ctx, contentPaths(), nil, func(ctx actor.Context, read [][]byte) {
			c := contents(read)
			k.codec.ask(ctx, func(n uint64) any { return &recoverFiles{n, c} }, func(ctx actor.Context, answer any) {
				k.recovered(ctx, id.Identity, c[0] == nil, answer.(*recovered))
			})
		})
	})
}

// readAll reads files one after the other and passes their contents to then. An absent file has nil, an empty one an empty slice. A
// failure ends in cannotRead.
func (k *configstore) readAll(ctx actor.Context, names []string, contents [][]byte, then func(actor.Context, [][]byte)) {
	if len(names) == 0 {
		then(ctx, contents)
		return
	}
	k.store.Read(ctx, "config", names[0], func(ctx actor.Context, r *messages.ReadFileResult) {
		content := r.Content
		switch {
		case r.Failure != nil:
			k.cannotRead(ctx, r.Failure)
			return
		case r.Missing:
			content = nil
		case content == nil:
			content = []byte{}
		}
		k.readAll(ctx, names[1:], append(contents, content), then)
	})
}

// cannotRead tries again later. Until then all requests fail.
func (k *configstore) cannotRead(ctx actor.Context, f *messages.Failure) {
	k.failure = messages.ConfigurationFailure("The configuration cannot be read: " + f.Text)
	delay := kit.Backoff(k.tries)
	k.tries++
	k.config.Env.Log().WithFields(logrus.Fields{"err": f.Text, "delay": delay}).Error("configuration cannot be read; trying again")
	kit.SendAfter(k.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryLoad{k.incarnation})
}

// recovered takes the state that the files have together, or the failure with which all requests are answered. A journal that belongs to
// another config.data is set aside first.
func (k *configstore) recovered(ctx actor.Context, identity string, isEmpty bool, r *recovered) {
	if r.err != nil {
		text := Explain(r.err, "")
		k.config.Env.Log().WithField("err", text).Error("configuration cannot be used; all requests for it fail")
		k.failure = messages.ConfigurationFailure("The configuration cannot be used: " + text)
		return
	}
	result := r.result
	k.tries = 0
	k.at, k.isEmpty = result.Position, isEmpty
	k.file = file{identity: identity, at: result.File.Point(), isFilled: r.isFilled}
	k.journal = journalFile{}
	k.folds = folds{}
	before := result.File.Config
	for i, record := range result.Remaining {
		k.journal.add(entry{record, result.Lines[i], before, result.Configs[i]})
		before = result.Configs[i]
	}
	if result.Torn > 0 {
		k.config.Env.Log().WithFields(logrus.Fields{"path": paths.ConfigJournalPath, "bytes": result.Torn, "serial": k.at.Point().Serial}).Warn(
			"journal of the configuration ends in an incomplete record; it was never answered, and is cut")
	}
	if result.Unused {
		k.setJournalAside(ctx, result.Number, k.becomeReady, k.cannotRead)
		return
	}
	k.becomeReady(ctx)
}

// becomeReady writes the journal that the state needs. That makes all durable that was read.
func (k *configstore) becomeReady(ctx actor.Context) {
	k.journal.isUnsure, k.journal.unsynced, k.ready = true, true, true
}

// setJournalAside renames the journal, because config.data has another content than the journal applies to. The new name has the number
// and is not in use. An absent journal is no failure.
func (k *configstore) setJournalAside(
	ctx actor.Context, number uint64,
	then func(actor.Context), fail func(actor.Context, *messages.Failure),
) {
	k.store.List(ctx, "config", ".", func(ctx actor.Context, names *messages.ListDirResult) {
		if names.Failure != nil {
			fail(ctx, names.Failure)
			return
		}
		to := store.FreeName(fmt.Sprintf("%s.unused-%d", paths.ConfigJournalPath, number), names.Names)
		move := &messages.MoveFile{Op: "config", From: paths.ConfigJournalPath, To: to}
		k.store.Move(ctx, &messages.MoveFiles{Files: []*messages.MoveFile{move}}, func(ctx actor.Context, done *messages.ChangeFilesResult) {
			if len(done.Failures) > 0 && !done.Failures[0].Missing {
				fail(ctx, done.Failures[0].Failure)
				return
			}
			k.config.Env.Log().WithFields(logrus.Fields{"path": to, "serial": k.at.Point().Serial}).Warn(
				"config.data was written by another program; its content counts, and the journal of the configuration is set aside")
			then(ctx)
		})
	})
}

// Explain returns the text for an operator about an error of journal.Recover: what is wrong, and the command that goes on. dataDir
// is that of the daemon, "" for its default.
func Explain(err error, dataDir string) string {
	if !errors.As(err, new(*journal.DamageError)) {
		return err.Error()
	}
	command := "lockstep config fold --discard-rest"
	if dataDir != "" {
		command += " --data-dir " + dataDir
	}
	return fmt.Sprintf("%v. To go on without the changes after that: %s", err, command)
}
