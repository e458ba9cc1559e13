package luxi

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/clusterconfig"
	"lockstep/core/answer"
	"lockstep/core/config/history"
	"lockstep/core/config/model"
	"lockstep/core/config/redact"
	"lockstep/core/config/view"
	"lockstep/core/paths"
	"lockstep/messages"
)

// lockstepConfigShow takes [path, tables]. The answer is an answer.ConfigPart: the part of the configuration at the path. With
// tables a container is a table.
func lockstepConfigShow(c *call, ctx actor.Context, args []json.RawMessage) error {
	var path text
	var tables bool
	if err := arguments(args, &path, &tables); err != nil {
		return fmt.Errorf("LockstepConfigShow: %w", err)
	}
	form := view.AsJSON
	if tables {
		form = view.AsTable
	}
	c.askModel(ctx, func(ctx actor.Context, m *model.Config) {
		part, err := view.Show(m, string(path), form, c.secrets())
		var missing *view.NotFoundError
		switch {
		case errors.As(err, &missing):
			c.fail(ctx, messages.PrereqFailure(messages.UnknownEntity, err.Error()))
		case err != nil:
			c.fail(ctx, messages.Generic(err))
		default:
			c.succeed(ctx, part)
		}
	})
	return nil
}

// lockstepConfigCheck takes []. The answer is an answer.ConfigCheck.
func lockstepConfigCheck(c *call, ctx actor.Context, args []json.RawMessage) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("LockstepConfigCheck: %w", err)
	}
	c.askModel(ctx, func(ctx actor.Context, m *model.Config) { c.succeed(ctx, view.Check(m)) })
	return nil
}

// lockstepConfigAdopt takes [] and makes the content that another program has written to config.data the configuration. The answer
// is an answer.ConfigResolved.
func lockstepConfigAdopt(c *call, ctx actor.Context, args []json.RawMessage) error {
	return resolveForeign(c, ctx, args, true)
}

// lockstepConfigDiscard takes [] and replaces that content by the configuration. The answer is an answer.ConfigResolved.
func lockstepConfigDiscard(c *call, ctx actor.Context, args []json.RawMessage) error {
	return resolveForeign(c, ctx, args, false)
}

func resolveForeign(c *call, ctx actor.Context, args []json.RawMessage, adopt bool) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("%s: %w", c.method, err)
	}
	q := toCore(c.config.ClusterConfig, func(number uint64) any { return &clusterconfig.ResolveForeign{Request: number, Adopt: adopt} })
	askFallible(c, ctx, q, func(ctx actor.Context, a *clusterconfig.ResolveForeignResult) {
		c.succeed(ctx, answer.ConfigResolved{Foreign: a.Foreign, Serial: a.Serial})
	})
	return nil
}

// askForeign asks what another program has changed in config.data. "" means nothing.
func (c *call) askForeign(ctx actor.Context, then func(ctx actor.Context, foreign string)) {
	q := toCore(c.config.ClusterConfig, func(number uint64) any { return &clusterconfig.CheckForeign{Request: number} })
	ask(c, ctx, q, func(ctx actor.Context, a *clusterconfig.CheckForeignResult) { then(ctx, a.Foreign.GetText()) })
}

// lockstepConfigHistory takes [query], an object with the members of history.Query. The answer is an answer.ConfigHistory. The
// files are redacted already.
func lockstepConfigHistory(c *call, ctx actor.Context, args []json.RawMessage) error {
	var q history.Query
	if err := arguments(args, &q); err != nil {
		return fmt.Errorf("LockstepConfigHistory: %w", err)
	}
	// The current file is read first. A rotation between the reads makes it the older file: then both reads return the same
	// entries, which count once. In the other order they would be missing.
	readHistory(c, ctx, paths.ConfigHistoryPath, func(ctx actor.Context, current []byte) {
		readHistory(c, ctx, paths.ConfigHistoryOlderPath, func(ctx actor.Context, older []byte) {
			c.succeed(ctx, view.History(older, current, q))
		})
	})
	return nil
}

func readHistory(c *call, ctx actor.Context, path string, then func(ctx actor.Context, content []byte)) {
	c.beginStoreAccess(ctx)
	c.read(ctx, "config-history", path, func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			c.fail(ctx, m.Failure)
			return
		}
		then(ctx, m.Content) // empty if there is no such file
	})
}

// askModel asks for the configuration as typed values.
func (c *call) askModel(ctx actor.Context, then func(actor.Context, *model.Config)) {
	c.askConfig(ctx, func(ctx actor.Context, current *model.Config, _ []byte) { then(ctx, current) })
}

// secrets returns the rules of redaction, with the parameters that the catalogue declares as secret.
func (c *call) secrets() redact.Rules { return redact.New(c.config.Catalogue.SecretNames()...) }
