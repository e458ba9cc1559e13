package config

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/locks"
	"lockstep/core/config"
	"lockstep/core/config/calls"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/paths"
	"lockstep/messages"
)

// edit makes a change of lockstep's own, in the configuration or in the settings.
func (c *configActor) edit(ctx actor.Context, m *messages.EditConfig, sender *actor.PID) {
	answer := func(ctx actor.Context, f *messages.Failure) {
		ctx.Send(sender, &messages.EditConfigResult{Request: m.Request, Failure: f})
	}
	if len(m.Settings) > 0 {
		c.editSettings(ctx, m.Settings, answer)
		return
	}
	method := "lockstepSetParameters"
	if m.Filter != "" {
		method = "lockstepChangeFilter"
	}
	change := config.ConfigChange{Cluster: m.Cluster, RuleUUID: m.Filter, Rule: m.Rule}
	by := m.By
	if by == "" {
		by = "lockstepd"
	}
	r := &request{call: calls.Own(method, change.Apply), caller: reserve.Caller{Program: by},
		origin: deferredMessage{m, sender}, patience: editPatience}
	r.answer = func(ctx actor.Context, out calls.Outcome, _ *model.Config) {
		switch {
		case out.Busy:
			answer(ctx, messages.GenericFailure(fmt.Sprintf("The configuration is locked by %s; try again", c.locks.names())))
		case out.Err != nil:
			answer(ctx, &messages.Failure{Class: out.Err.Class, Text: out.Err.Text})
		default:
			answer(ctx, nil)
		}
	}
	if c.mustWait(r) {
		c.wait(ctx, r)
		return
	}
	c.apply(ctx, r)
}

// settings are lockstep's own settings. One change is written at a time.
type settings struct {
	known   bool
	content []byte // of settings.json; empty: the defaults
	edits   []settingsEdit
	writing bool
}

type settingsEdit struct {
	changes map[string][]byte
	answer  func(ctx actor.Context, f *messages.Failure)
}

// readSettings reads settings.json and goes on loading. With invalid content the defaults are in force. A failed read is repeated,
// because the defaults must not replace what an operator has set.
func (c *configActor) readSettings(ctx actor.Context) {
	c.store.Read(ctx, "settings", paths.SettingsPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			c.retryLoadLater(ctx, "settings cannot be read; reading them again", m.Failure)
			return
		}
		if _, err := config.DecodeSettings(m.Content); err != nil {
			c.config.Env.Log().WithFields(logrus.Fields{"path": paths.SettingsPath, "err": err}).Error("settings cannot be used; the defaults are in force")
		} else {
			c.settings.content = m.Content
		}
		c.settings.known = true
		c.tellBypassLimit(ctx)
		c.load(ctx)
	})
}

func (c *configActor) editSettings(ctx actor.Context, changes map[string][]byte, answer func(actor.Context, *messages.Failure)) {
	c.settings.edits = append(c.settings.edits, settingsEdit{changes, answer})
	c.writeSettings(ctx)
}

// writeSettings writes the next change of the settings. After a failed write the content of the file is put in force, because the
// next start would read it.
func (c *configActor) writeSettings(ctx actor.Context) {
	s := &c.settings
	if s.writing || len(s.edits) == 0 {
		return
	}
	e := s.edits[0]
	s.edits = s.edits[1:]
	content, err := config.EditSettings(s.content, e.changes)
	if err != nil {
		e.answer(ctx, messages.PrereqFailure(messages.WrongInput, err.Error()))
		c.writeSettings(ctx)
		return
	}
	s.writing = true
	finish := func(ctx actor.Context, f *messages.Failure) {
		s.writing = false
		e.answer(ctx, f)
		c.writeSettings(ctx)
	}
	file := &messages.FileWrite{Op: "settings", Path: paths.SettingsPath, Content: content}
	c.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, written *messages.ChangeFilesResult) {
			if len(written.Failures) > 0 {
				c.rereadSettings(ctx, func(ctx actor.Context) { finish(ctx, written.Failures[0].Failure) })
				return
			}
			c.settingsChanged(ctx, content)
			finish(ctx, nil)
		})
}

func (c *configActor) settingsChanged(ctx actor.Context, content []byte) {
	c.settings.content = content
	c.tellBypassLimit(ctx)
	if c.snapshot != nil {
		c.publish(ctx)
	}
}

// rereadSettings puts the content of settings.json in force after a failed write. If the file cannot be read, the former content
// stays in force.
func (c *configActor) rereadSettings(ctx actor.Context, done func(actor.Context)) {
	c.store.Read(ctx, "settings", paths.SettingsPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		var err error
		if m.Failure != nil {
			err = m.Failure
		} else if _, err = config.DecodeSettings(m.Content); err == nil {
			c.settingsChanged(ctx, m.Content)
		}
		if err != nil {
			c.config.Env.Log().WithFields(logrus.Fields{"path": paths.SettingsPath, "err": err}).Error(
				"file cannot be read after a failed write; the former content stays in force")
		}
		done(ctx)
	})
}

// tellBypassLimit sends the lock manager the setting that it needs.
func (c *configActor) tellBypassLimit(ctx actor.Context) {
	s, err := config.DecodeSettings(c.settings.content)
	if err != nil {
		return // invalid settings are not in force
	}
	ctx.Send(c.config.Locks, &locks.SetBypassLimit{Limit: s.LockBypass()})
}
