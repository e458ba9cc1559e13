package config

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/configstore"
	"lockstep/actors/store"
	"lockstep/core/config/calls"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/messages"
)

// wholeFile is the keeper that replaces config.data through the store at each change. It has no journal, and does not keep the
// reservations: they end with the incarnation.
type wholeFile struct {
	store  *store.Client
	kept   journal.State // as of the last load or append; its Config may be older than the file
	number uint64
}

func (w *wholeFile) connect(actor.Context)     {}
func (w *wholeFile) handle(actor.Context) bool { return false }

func (w *wholeFile) load(ctx actor.Context, done func(actor.Context, *configstore.Loaded)) {
	w.store.Read(ctx, "config", paths.ConfigPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		loaded := &configstore.Loaded{State: w.kept, Number: w.number, Missing: m.Missing, Failure: m.Failure}
		if m.Failure == nil && !m.Missing {
			var err error
			if loaded.State.Config, _, err = journal.DecodeConfig(m.Content); err != nil {
				loaded.Failure = messages.ConfigurationFailure("parsing configuration: " + err.Error())
			}
		}
		done(ctx, loaded)
	})
}

// append writes config.data if the configuration has changed. After a failure the content of the file is unknown.
func (w *wholeFile) append(ctx actor.Context, records []*journal.Record, after calls.State, done func(actor.Context, *configstore.Appended)) {
	finish := func() {
		w.kept = stateOf(after)
		w.number = records[len(records)-1].Number
		done(ctx, &configstore.Appended{})
	}
	changed := false
	for _, r := range records {
		changed = changed || r.Delta != nil
	}
	if !changed {
		finish()
		return
	}
	file := &messages.FileWrite{Op: "config", Path: paths.ConfigPath, Content: after.Config.JSON()}
	w.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, written *messages.ChangeFilesResult) {
			if len(written.Failures) > 0 {
				done(ctx, &configstore.Appended{Refused: true, Failure: written.Failures[0].Failure})
				return
			}
			finish()
		})
}

// flush has nothing to do: the file is complete after each append.
func (w *wholeFile) flush(ctx actor.Context, done func(actor.Context, *messages.Failure)) {
	done(ctx, nil)
}

// resolve has nothing to do: foreign content of config.data is replaced by the next change, and is read by the next load.
func (w *wholeFile) resolve(ctx actor.Context, _ bool, done func(actor.Context, *messages.Failure)) {
	done(ctx, messages.PrereqFailure(messages.WrongState, "The nodes of this cluster keep the configuration in their log"))
}
