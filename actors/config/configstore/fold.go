package configstore

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/config/history"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/messages"
)

const (
	// foldDelay is the time from a change to the fold, in which more changes can come.
	foldDelay = 100 * time.Millisecond
	// foldPause is how many times its duration passes after a fold before the next one, less if config.data would be more than
	// behindMax behind: a long fold mostly waits for the disk. It does not hold for a fold that a client waits for.
	foldPause = 9
	behindMax = 2700 * time.Millisecond
)

// pauseAfter returns the time from a fold to the next one. A change at the begin of a fold is in config.data after the fold, the
// pause and the next fold.
func pauseAfter(fold time.Duration) time.Duration {
	return min(foldPause*fold, max(behindMax-2*fold, min(fold, behindMax)))
}

// notify is told the end of a fold.
type notify func(ctx actor.Context, f *messages.Failure)

// folds decides when the next fold begins.
type folds struct {
	isDue     bool // the timer is running
	wanted    bool // the next fold begins as soon as possible
	isForced  bool // it replaces foreign content
	waiters   []notify
	notBefore time.Time         // when the next fold may begin, unless it is wanted
	failure   *messages.Failure // of the last one
	tries     int               // failed ones in a row
}

// foldDue is the timer of the next fold.
type foldDue struct{ incarnation uint32 }

// want asks for a fold now. tell, which may be nil, hears of its end. isForced: it replaces foreign content, too.
func (f *folds) want(tell notify, isForced bool) {
	f.wanted, f.isForced = true, f.isForced || isForced
	if tell != nil {
		f.waiters = append(f.waiters, tell)
	}
}

func (f *folds) hasFailed() bool { return f.failure != nil }

// schedule begins a fold that is wanted, or starts the timer of the next one. A drain wants one. While the file is busy nothing happens.
func (k *configstore) schedule(ctx actor.Context) {
	f := &k.folds
	if k.draining != nil && len(k.journal.open) > 0 && !k.file.busy && !f.hasFailed() {
		f.wanted = true
	}
	switch {
	case !k.ready || k.file.busy:
	case f.wanted:
		k.fold(ctx)
	case len(k.journal.open) > 0 && !f.isDue && k.file.foreign == nil:
		f.isDue = true
		delay := max(foldDelay, f.notBefore.Sub(k.now()))
		kit.SendAfter(k.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &foldDue{k.incarnation})
	}
}

func (k *configstore) foldDue(m *foldDue) {
	if m.incarnation != k.incarnation || !k.folds.isDue {
		return
	}
	k.folds.isDue = false
	if k.ready && len(k.journal.open) > 0 && !k.now().Before(k.folds.notBefore) {
		k.folds.wanted = true
	}
}

// fold is a fold in progress.
type fold struct {
	at       journal.Position
	entries  int // number of records
	began    time.Time
	isForced bool
	waiters  []notify
}

// fold writes the present state to the files: first those that config.data's content does not depend on, so that each step of a
// crash leaves files that agree.
func (k *configstore) fold(ctx actor.Context) {
	n := &fold{at: k.at, entries: len(k.journal.open), began: k.now(), isForced: k.folds.isForced, waiters: k.folds.waiters}
	k.folds.wanted, k.folds.isForced, k.folds.waiters = false, false, nil
	k.file.busy = true
	if k.isEmpty {
		k.folded(ctx, n, nil) // there is nothing to write
		return
	}
	open := append([]entry(nil), k.journal.open...)
	k.encode(ctx, &encode{config: n.at.Config, records: open}, func(ctx actor.Context, content *encoded) {
		// Examined after the encoding, which takes long: this is the last look before config.data is overwritten.
		k.examine(ctx, func(ctx actor.Context, f *messages.Failure) {
			if f == nil && !n.isForced {
				f = k.file.foreign
			}
			if f != nil {
				k.folded(ctx, n, f)
				return
			}
			k.writeBesides(ctx, n.at, content.entries, func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					k.folded(ctx, n, f)
					return
				}
				// config.data comes last: after a crash before it the journal still leads from the old content to the state.
				k.writeConfig(ctx, n, content.config)
			})
		})
	})
}

// encode has the codec encode a configuration, with the entries of the history about records.
func (k *configstore) encode(ctx actor.Context, m *encode, then func(actor.Context, *encoded)) {
	k.readHistory(ctx, func(ctx actor.Context, contents *historyContents) {
		k.readJobFiles(ctx, m.records, func(ctx actor.Context, jobs jobFiles) {
			m.history, m.jobs = contents, jobs
			k.codec.ask(ctx, func(number uint64) any { m.request = number; return m }, func(ctx actor.Context, answer any) {
				content := answer.(*encoded)
				if content.log != nil {
					k.history.log = content.log
				}
				then(ctx, content)
			})
		})
	})
}

// writeBesides writes the files beside config.data, and the history at the same time.
func (k *configstore) writeBesides(ctx actor.Context, at journal.Position, entries []history.Entry, then notify) {
	var failure *messages.Failure
	open := 2
	done := func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			failure = f
		}
		if open--; open == 0 {
			then(ctx, failure)
		}
	}
	k.writeHistory(ctx, entries, func(ctx actor.Context) { done(ctx, nil) })
	k.replace(ctx, besides(at), done)
}

func (k *configstore) writeConfig(ctx actor.Context, n *fold, config [][]byte) {
	data := &messages.FileWrite{Op: "config", Path: paths.ConfigPath, Parts: config}
	k.replace(ctx, []*messages.FileWrite{data}, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			k.folded(ctx, n, f)
			return
		}
		k.store.Identify(ctx, "config", paths.ConfigPath, func(ctx actor.Context, id *messages.IdentifyFileResult) {
			// Without an identity the next fold compares the content.
			k.file.resolved = k.file.foreign != nil
			k.file.identity, k.file.at, k.file.foreign, k.file.isFilled = id.Identity, n.at.Point(), nil, false
			k.folded(ctx, n, nil)
		})
	})
}

// besides returns the writes of the files beside config.data, for a position.
func besides(at journal.Position) []*messages.FileWrite {
	return []*messages.FileWrite{
		{Op: "config-extra", Path: paths.ConfigExtraPath, Content: at.Extra()},
		{Op: "config-tempres", Path: paths.TempResPath, Content: at.TempRes()},
	}
}

func (k *configstore) replace(ctx actor.Context, files []*messages.FileWrite, then notify) {
	k.store.Write(ctx, &messages.WriteFiles{Files: files, Durable: true}, func(ctx actor.Context, done *messages.ChangeFilesResult) {
		if len(done.GetFailures()) > 0 {
			then(ctx, done.Failures[0].Failure)
			return
		}
		then(ctx, nil)
	})
}

// folded ends a fold and tells those who wait for it. Its records leave the journal. After a failure they stay, and the pause before the
// next fold is longer.
func (k *configstore) folded(ctx actor.Context, n *fold, f *messages.Failure) {
	k.file.busy = false
	duration := k.now().Sub(n.began)
	pause := pauseAfter(duration)
	if f != nil {
		if f != k.file.foreign {
			f = messages.ConfigurationFailure("config.data cannot be written: " + f.Text)
			k.config.Env.Log().WithFields(logrus.Fields{"err": f.Text, "serial": n.at.Point().Serial}).Error(
				"configuration cannot be written; its changes stay in the journal")
		}
		pause = max(pause, kit.Backoff(k.folds.tries))
		k.folds.tries++
	} else {
		k.folds.tries = 0
		// Only now, when config.data has these records. Those that came during the fold stay.
		k.journal.drop(n.entries)
	}
	k.folds.failure = f
	k.folds.notBefore = k.now().Add(pause)
	for _, tell := range n.waiters {
		tell(ctx, f)
	}
}
