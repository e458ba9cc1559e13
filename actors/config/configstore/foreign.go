package configstore

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/paths"
	"lockstep/messages"
)

// file is config.data.
type file struct {
	identity string        // when it was last read or written; "": it is compared by its content
	at       journal.Point // its content then
	isFilled bool          // it lacks values that the state has: it is written before the first append
	busy     bool          // a fold, Check or Adopt is under way
	// isAdopting: no other request is handled.
	isAdopting bool
	foreign    *messages.Failure // another program has changed the content; nil: none
	adoptable  *model.Config     // the foreign content; nil if it cannot be decoded
	// foreignIdentity is that of the file with the foreign content; "": unknown.
	foreignIdentity string
	resolved        bool // the last fold, Adopt or Discard found foreign content
}

// examine finds out whether another program has changed the content of config.data, and sets foreign. The failure is about a
// config.data that cannot be read.
func (k *configstore) examine(ctx actor.Context, then notify) {
	k.store.Identify(ctx, "config", paths.ConfigPath, func(ctx actor.Context, id *messages.IdentifyFileResult) {
		switch {
		case id.Failure != nil:
			then(ctx, id.Failure)
		case id.Missing:
			k.isForeign(nil, "it is gone")
			then(ctx, nil)
		case id.Identity == k.file.identity && k.file.foreign == nil, id.Identity == k.file.foreignIdentity && k.file.foreign != nil:
			then(ctx, nil)
		default:
			k.compare(ctx, id.Identity, then)
		}
	})
}

// compare reads config.data. The content that it had after any record in the journal is this actor's own: the fold that wrote it
// has failed afterwards, or was that of a former incarnation.
func (k *configstore) compare(ctx actor.Context, identity string, then notify) {
	k.store.Read(ctx, "config", paths.ConfigPath, func(ctx actor.Context, r *messages.ReadFileResult) {
		switch {
		case r.Failure != nil:
			then(ctx, r.Failure)
			return
		case r.Missing:
			k.isForeign(nil, "it is gone")
			then(ctx, nil)
			return
		}
		k.codec.ask(ctx, func(n uint64) any { return &parse{n, r.Content} }, func(ctx actor.Context, answer any) {
			content := answer.(*parsed)
			switch {
			case content.err != nil:
				k.isForeign(nil, content.err.Error())
				k.file.foreignIdentity = identity
			case k.isKnown(journal.At(content.config)):
				k.file.identity, k.file.foreign, k.file.adoptable = identity, nil, nil
			default:
				k.isForeign(content.config, fmt.Sprintf("it has serial number %d", content.config.Serial))
				k.file.foreignIdentity = identity
			}
			then(ctx, nil)
		})
	})
}

func (k *configstore) isKnown(p journal.Point) bool {
	if p == k.file.at {
		return true
	}
	for _, e := range k.journal.open {
		if p == e.record.From || p == e.record.To {
			return true
		}
	}
	return false
}

// isForeign records that config.data has foreign content. what says how it differs. content is what can be accepted; nil: the file cannot
// be decoded. The first time it is logged.
func (k *configstore) isForeign(content *model.Config, what string) {
	if k.file.foreign == nil {
		k.config.Env.Log().WithFields(logrus.Fields{"path": paths.ConfigPath, "err": what, "serial": k.at.Point().Serial}).Error(
			"config.data was changed by another program; no change is written until lockstep config adopt or discard")
	}
	k.file.adoptable, k.file.foreignIdentity = content, ""
	k.file.foreign = messages.ConfigurationFailure(fmt.Sprintf(
		"%s was changed by another program: %s, the configuration has %d. Nothing was changed. "+
			"lockstep config adopt makes the file the configuration, lockstep config discard replaces the file",
		paths.ConfigPath, what, k.at.Point().Serial))
}

// check carries out Check. It does not look at the file if there is no configuration, or while another operation is busy with the file.
func (k *configstore) check(ctx actor.Context, then notify) {
	if k.isEmpty || k.file.busy {
		then(ctx, nil)
		return
	}
	k.file.busy = true
	k.examine(ctx, func(ctx actor.Context, f *messages.Failure) {
		k.file.busy = false
		then(ctx, f)
	})
}

// adopt carries out Adopt: it makes foreign content the configuration, and does nothing without any. The other files come first, so that
// the reservations and the numbers of the records go on; then the journal is set aside.
func (k *configstore) adopt(ctx actor.Context, tell notify) {
	k.file.busy, k.file.isAdopting, k.file.resolved = true, true, false
	then := func(ctx actor.Context, f *messages.Failure) {
		k.file.busy, k.file.isAdopting = false, false
		tell(ctx, f)
	}
	k.examine(ctx, func(ctx actor.Context, f *messages.Failure) {
		switch {
		case f != nil || k.file.foreign == nil:
			then(ctx, f)
			return
		case k.file.adoptable == nil:
			then(ctx, k.file.foreign)
			return
		}
		at := k.at.Adopt(k.file.adoptable)
		k.writeAdopted(ctx, at, func(ctx actor.Context, f *messages.Failure) {
			if f != nil {
				then(ctx, f)
				return
			}
			adopted := func(ctx actor.Context) {
				k.at = at
				k.file = file{at: at.Point(), resolved: true}
				k.journal = journalFile{isUnsure: true}
				then(ctx, nil)
			}
			if len(k.journal.open) == 0 {
				adopted(ctx)
				return
			}
			k.setJournalAside(ctx, k.at.Number, adopted, then)
		})
	})
}

// writeAdopted writes the files beside an adopted config.data. The history has the records that are set aside, and what the foreign
// content changes.
func (k *configstore) writeAdopted(ctx actor.Context, at journal.Position, then notify) {
	open := append([]entry(nil), k.journal.open...)
	k.encode(ctx, &encode{config: k.at.Config, records: open, adopted: at.Config}, func(ctx actor.Context, content *encoded) {
		k.writeBesides(ctx, at, content.entries, then)
	})
}
