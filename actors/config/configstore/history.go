package configstore

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/config/history"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/config/redact"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// unwrittenMax is the number of entries that are kept in memory after failed writes.
const unwrittenMax = 1000

// adoptMethod is the method of the entry about foreign content that becomes the configuration.
const adoptMethod = "lockstepAdoptConfig"

// historyFile is config.history. A fold writes the entries of its records durably before it writes config.data. After a crash in
// between the records are folded again, and log recognises their entries.
type historyFile struct {
	log       *history.Log    // nil: the files were not read since the start
	unwritten []history.Entry // their writes have failed; the next fold repeats them
}

// historyContents are the contents of the two files. An absent file is empty.
type historyContents struct{ older, current []byte }

// entryOf returns the entry about a record; false if the record does not change the configuration.
func entryOf(before, after *model.Config, r *journal.Record, rules redact.Rules, jobs jobFiles) (history.Entry, bool) {
	if r.Delta == nil {
		return history.Entry{}, false
	}
	touched, err := model.TouchedBy(r.Delta)
	if err != nil {
		touched = history.Touched(before, after)
	}
	origin := history.Origin{Client: history.ClientOf(lock.Owner{}, r.Caller), Method: r.Method, Unlocked: r.Unlocked}
	if origin.Client.Job > 0 {
		origin.Client.Opcode = jobs.opcodeAt(origin.Client.Job, r.Time)
	}
	return history.NewEntry(before, after, touched, origin, rules), true
}

// entriesOf returns the entries about records, without the records that have none. jobs has files of their jobs.
func entriesOf(records []entry, secrets func() []string, jobs jobFiles) []history.Entry {
	rules := rulesOf(secrets)
	var all []history.Entry
	for _, e := range records {
		if h, is := entryOf(e.before, e.after, e.record, rules, jobs); is {
			all = append(all, h)
		}
	}
	return all
}

// adoption returns the entry about foreign content that becomes the configuration.
func adoption(before, after *model.Config, secrets func() []string) history.Entry {
	return history.NewEntry(before, after, history.Touched(before, after),
		history.Origin{Client: history.Client{Unknown: true}, Method: adoptMethod}, rulesOf(secrets))
}

func rulesOf(secrets func() []string) redact.Rules {
	if secrets == nil {
		return redact.New()
	}
	return redact.New(secrets()...)
}

// readHistory reads the files of the history, once. contents is nil if that is not necessary, or impossible now.
func (k *configstore) readHistory(ctx actor.Context, then func(ctx actor.Context, contents *historyContents)) {
	if k.history.log != nil {
		then(ctx, nil)
		return
	}
	read := func(ctx actor.Context, path string, got func(actor.Context, []byte)) {
		k.store.Read(ctx, "config-history", path, func(ctx actor.Context, r *messages.ReadFileResult) {
			if r.Failure != nil {
				k.config.Env.Log().WithFields(logrus.Fields{"err": r.Failure.Text, "path": path}).
					Error("history of the configuration cannot be read; its entries wait")
				then(ctx, nil)
				return
			}
			got(ctx, r.Content)
		})
	}
	read(ctx, paths.ConfigHistoryOlderPath, func(ctx actor.Context, older []byte) {
		read(ctx, paths.ConfigHistoryPath, func(ctx actor.Context, current []byte) {
			then(ctx, &historyContents{older, current})
		})
	})
}

// historyWrite is a write of lines to the current file, perhaps after a rotation of the files.
type historyWrite struct {
	rotate  bool
	content []byte
	entries []history.Entry
}

// plan returns the writes for entries that the files do not have. The log takes these entries as written.
func plan(log *history.Log, entries []history.Entry) []*historyWrite {
	var all []*historyWrite
	for _, e := range entries {
		a := log.Append(e)
		if a.Line == nil {
			continue
		}
		if len(all) == 0 || a.Rotate {
			all = append(all, &historyWrite{rotate: a.Rotate})
		}
		last := all[len(all)-1]
		last.content, last.entries = append(last.content, a.Line...), append(last.entries, e)
	}
	return all
}

// writeHistory adds entries to config.history. A failure does not stop the caller: the entries are kept for the next call.
func (k *configstore) writeHistory(ctx actor.Context, entries []history.Entry, then func(actor.Context)) {
	entries = append(k.history.unwritten, entries...)
	k.history.unwritten = nil
	if k.history.log == nil {
		k.keepUnwritten(entries)
		then(ctx)
		return
	}
	k.writeNext(ctx, plan(k.history.log, entries), then)
}

// writeNext carries out writes one after the other, because a rotation must precede its lines. Entries whose write fails are kept for the
// next change.
func (k *configstore) writeNext(ctx actor.Context, writes []*historyWrite, then func(actor.Context)) {
	if len(writes) == 0 {
		then(ctx)
		return
	}
	w := writes[0]
	add := func(ctx actor.Context) {
		k.store.Append(ctx, &messages.AppendFile{Op: "config-history", Path: paths.ConfigHistoryPath, Content: w.content, Durable: true},
			func(ctx actor.Context, done *messages.ChangeFilesResult) {
				if len(done.GetFailures()) > 0 {
					k.config.Env.Log().WithFields(logrus.Fields{"err": done.Failures[0].Failure.Text, "path": paths.ConfigHistoryPath}).Error(
						"history of the configuration cannot be written; its entries wait for the next change")
					for _, e := range w.entries {
						k.history.log.Failed(e)
					}
					k.keepUnwritten(w.entries)
				}
				k.writeNext(ctx, writes[1:], then)
			})
	}
	if !w.rotate {
		add(ctx)
		return
	}
	move := &messages.MoveFile{Op: "config-history", From: paths.ConfigHistoryPath, To: paths.ConfigHistoryOlderPath}
	k.store.Move(ctx, &messages.MoveFiles{Files: []*messages.MoveFile{move}}, func(ctx actor.Context, done *messages.ChangeFilesResult) {
		if len(done.Failures) > 0 && !done.Failures[0].Missing {
			k.history.log.NotRotated()
			k.config.Env.Log().WithFields(logrus.Fields{"err": done.Failures[0].Failure.Text, "path": paths.ConfigHistoryPath}).Warn(
				"history of the configuration cannot be rotated; it grows beyond its bound until it can")
		}
		add(ctx)
	})
}

// keepUnwritten keeps entries for the next write, the newest ones up to the bound.
func (k *configstore) keepUnwritten(entries []history.Entry) {
	all := append(k.history.unwritten, entries...)
	if excess := len(all) - unwrittenMax; excess > 0 {
		k.config.Env.Log().WithFields(logrus.Fields{"entries": excess}).
			Error("history of the configuration lacks changes, because it could not be written for too long")
		all = all[excess:]
	}
	k.history.unwritten = all
}
