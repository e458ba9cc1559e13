package objects

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/config/history"
	"lockstep/core/config/model"
	"lockstep/core/config/redact"
	"lockstep/core/config/view"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/messages"
)

// lockstepConfigShow takes [path, tables]. The answer is an answer.ConfigPart: the part of the configuration at the path. With
// tables a container is a table.
func lockstepConfigShow(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var path call.Text
	var tables bool
	if err := wire.Arguments(args, &path, &tables); err != nil {
		return fmt.Errorf("LockstepConfigShow: %w", err)
	}
	form := view.AsJSON
	if tables {
		form = view.AsTable
	}
	askModel(c, ctx, func(ctx actor.Context, m *model.Config) {
		part, err := view.Show(m, string(path), form, secrets(c))
		var missing *view.NotFoundError
		switch {
		case errors.As(err, &missing):
			c.Fail(ctx, messages.PrereqFailure(messages.UnknownEntity, err.Error()))
		case err != nil:
			c.Fail(ctx, messages.Generic(err))
		default:
			c.Succeed(ctx, part)
		}
	})
	return nil
}

// lockstepConfigCheck takes []. The answer is an answer.ConfigCheck.
func lockstepConfigCheck(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("LockstepConfigCheck: %w", err)
	}
	askModel(c, ctx, func(ctx actor.Context, m *model.Config) { c.Succeed(ctx, view.Check(m)) })
	return nil
}

// lockstepConfigAdopt takes [] and makes the content that another program has written to config.data the configuration. The answer
// is an answer.ConfigResolved.
func lockstepConfigAdopt(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	return resolveForeign(c, ctx, args, true)
}

// lockstepConfigDiscard takes [] and replaces the content that another program has written to config.data by the configuration. The
// answer is an answer.ConfigResolved.
func lockstepConfigDiscard(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	return resolveForeign(c, ctx, args, false)
}

func resolveForeign(c *call.Call, ctx actor.Context, args []json.RawMessage, adopt bool) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("%s: %w", c.Method, err)
	}
	q := call.ToCore(c.Config.ClusterConfig, func(number uint64) any { return &clusterconfig.ResolveForeign{Request: number, Adopt: adopt} })
	call.AskFallible(c, ctx, q, func(ctx actor.Context, a *clusterconfig.ResolveForeignResult) {
		c.Succeed(ctx, answer.ConfigResolved{Foreign: a.Foreign, Serial: a.Serial})
	})
	return nil
}

// lockstepConfigHistory takes [query], an object with the members of history.Query. The answer is an answer.ConfigHistory. The
// files are redacted already.
func lockstepConfigHistory(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var q history.Query
	if err := wire.Arguments(args, &q); err != nil {
		return fmt.Errorf("LockstepConfigHistory: %w", err)
	}
	// The current file is read first. A rotation between the reads makes it the older file: then both reads return the same
	// entries, which count once. In the other order they would be missing.
	readHistory(c, ctx, paths.ConfigHistoryPath, func(ctx actor.Context, current []byte) {
		readHistory(c, ctx, paths.ConfigHistoryOlderPath, func(ctx actor.Context, older []byte) {
			c.Succeed(ctx, view.History(older, current, q))
		})
	})
	return nil
}

func readHistory(c *call.Call, ctx actor.Context, path string, then func(ctx actor.Context, content []byte)) {
	c.Begin(ctx)
	c.Read(ctx, "config-history", path, func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			c.Fail(ctx, m.Failure)
			return
		}
		then(ctx, m.Content) // empty if there is no such file
	})
}

// askModel asks for the configuration as typed values.
func askModel(c *call.Call, ctx actor.Context, then func(actor.Context, *model.Config)) {
	askConfig(c, ctx, func(ctx actor.Context, current *model.Config, _ []byte) { then(ctx, current) })
}

// secrets returns the rules of redaction, with the parameters that the catalogue declares as secret.
func secrets(c *call.Call) redact.Rules { return redact.New(c.Config.Catalogue.SecretNames()...) }
