package clusterconfig

import (
	"bytes"
	"errors"
	"path"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/locks"
	"lockstep/core/config"
	"lockstep/core/paths"
	"lockstep/messages"
)

// settings are lockstep's own settings. One change is written at a time.
type settings struct {
	known   bool
	content []byte // in force, as in settings.json; empty: the defaults
	// setAside are the paths of damaged contents of settings.json in the quarantine.
	setAside []string
	edits    []settingsEdit
	writing  bool
}

type settingsEdit struct {
	changes map[string][]byte
	answer  func(ctx actor.Context, f *messages.Failure)
}

// readSettings reads settings.json and goes on loading. A failed read is repeated, because the defaults must not replace what an
// operator has set. A damaged file is set aside, and protective settings are in force.
func (c *clusterconfig) readSettings(ctx actor.Context) {
	c.store.Read(ctx, "settings", paths.SettingsPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		switch damage := damageOf(m); {
		case m.Failure != nil:
			c.retryLoadLater(ctx, "settings cannot be read; reading them again", m.Failure)
		case damage != nil:
			c.setAsideSettings(ctx, damage, func(ctx actor.Context, f *messages.Failure) {
				content := config.ProtectiveSettings(c.settings.setAside)
				if c.settingsRead(ctx, content); f == nil {
					c.writeProtective(ctx, content)
				}
			})
		case len(config.SetAside(m.Content)) > 0:
			c.listSetAside(ctx, func(ctx actor.Context) { c.settingsRead(ctx, m.Content) })
		default:
			c.settingsRead(ctx, m.Content)
		}
	})
}

// damageOf is why the content of a settings.json that could be read cannot be used; nil if it can, or if there is no file.
func damageOf(m *messages.ReadFileResult) error {
	switch {
	case m.Missing:
		return nil
	case len(bytes.TrimSpace(m.Content)) == 0:
		return errors.New("the file is empty")
	}
	_, err := config.DecodeSettings(m.Content)
	return err
}

func (c *clusterconfig) settingsRead(ctx actor.Context, content []byte) {
	c.settings.known, c.settings.content = true, content
	c.tellBypassLimit(ctx)
	c.load(ctx)
}

// listSetAside learns which contents that were set aside an operator has not removed yet. A quarantine that cannot be listed
// counts as empty.
func (c *clusterconfig) listSetAside(ctx actor.Context, then func(actor.Context)) {
	c.store.List(ctx, "settings", paths.QuarantineDir, func(ctx actor.Context, m *messages.ListDirResult) {
		c.settings.setAside = nil
		for _, name := range m.Names {
			if strings.HasPrefix(name, path.Base(paths.SettingsPath)) {
				c.settings.setAside = append(c.settings.setAside, paths.QuarantineDir+"/"+name)
			}
		}
		then(ctx)
	})
}

// setAsideSettings moves a damaged settings.json to the quarantine: the next change would replace it.
func (c *clusterconfig) setAsideSettings(ctx actor.Context, damage error, then func(actor.Context, *messages.Failure)) {
	log := c.config.Env.Log().WithFields(logrus.Fields{"path": paths.SettingsPath, "err": damage})
	c.store.Quarantine(ctx, paths.SettingsPath, func(ctx actor.Context, m *messages.QuarantineFileResult) {
		if m.Failure != nil {
			log.WithField("quarantine", m.Failure.Text).Error("settings cannot be used, and cannot be set aside; no change of a setting is possible")
		} else {
			c.settings.setAside = append(c.settings.setAside, m.Path)
			log.WithField("to", m.Path).
				Error("settings cannot be used, and are set aside; no job is archived or removed by its age until an operator sets that again")
		}
		then(ctx, m.Failure)
	})
}

// writeProtective writes the settings in force that replace damaged ones. If that fails, there is no file, and no archived job is
// removed while the damaged one is in the quarantine.
func (c *clusterconfig) writeProtective(ctx actor.Context, content []byte) {
	c.store.Write(ctx, settingsFile(content), func(_ actor.Context, written *messages.ChangeFilesResult) {
		for _, f := range written.Failures {
			c.config.Env.Log().WithFields(logrus.Fields{"path": f.Path, "err": f.Failure.Text}).Error("the settings in force cannot be written")
		}
	})
}

func settingsFile(content []byte) *messages.WriteFiles {
	file := &messages.FileWrite{Op: "settings", Path: paths.SettingsPath, Content: content}
	return &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true}
}

func (c *clusterconfig) editSettings(ctx actor.Context, changes map[string][]byte, answer func(actor.Context, *messages.Failure)) {
	c.settings.edits = append(c.settings.edits, settingsEdit{changes, answer})
	c.nextEdit(ctx)
}

// nextEdit begins the next change of the settings, unless one is under way. It reads the file first: an operator may have edited it
// since, and the change must not replace that.
func (c *clusterconfig) nextEdit(ctx actor.Context) {
	s := &c.settings
	if s.writing || len(s.edits) == 0 {
		return
	}
	e := s.edits[0]
	s.edits, s.writing = s.edits[1:], true
	c.store.Read(ctx, "edit-settings", paths.SettingsPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		switch damage := damageOf(m); {
		case m.Failure != nil:
			c.edited(ctx, e, m.Failure)
		case damage != nil:
			c.setAsideSettings(ctx, damage, func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					c.edited(ctx, e, f)
					return
				}
				c.writeSettings(ctx, e)
			})
		default:
			if !m.Missing && !bytes.Equal(m.Content, s.content) {
				c.config.Env.Log().WithField("path", paths.SettingsPath).Info("settings were edited in the file; the content is in force")
				c.settingsChanged(ctx, m.Content)
			}
			c.writeSettings(ctx, e)
		}
	})
}

// edited answers a change of the settings, with f if it has failed, and begins the next one.
func (c *clusterconfig) edited(ctx actor.Context, e settingsEdit, f *messages.Failure) {
	c.settings.writing = false
	e.answer(ctx, f)
	c.nextEdit(ctx)
}

// writeSettings makes a change. After a failed write the content of the file is put in force, because the next start would read it.
func (c *clusterconfig) writeSettings(ctx actor.Context, e settingsEdit) {
	content, err := config.EditSettings(c.settings.content, e.changes)
	if err != nil {
		c.edited(ctx, e, messages.PrereqFailure(messages.WrongInput, err.Error()))
		return
	}
	c.store.Write(ctx, settingsFile(content), func(ctx actor.Context, written *messages.ChangeFilesResult) {
		if len(written.Failures) > 0 {
			c.rereadSettings(ctx, func(ctx actor.Context) { c.edited(ctx, e, written.Failures[0].Failure) })
			return
		}
		c.settingsChanged(ctx, content)
		c.edited(ctx, e, nil)
	})
}

func (c *clusterconfig) settingsChanged(ctx actor.Context, content []byte) {
	c.settings.content = content
	c.tellBypassLimit(ctx)
	if c.snapshot != nil {
		c.publish(ctx)
	}
}

// rereadSettings puts the content of settings.json in force after a failed write. If the file cannot be read, the former content
// stays in force.
func (c *clusterconfig) rereadSettings(ctx actor.Context, done func(actor.Context)) {
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

// tellBypassLimit sends the lock manager the setting that it needs, unless the settings are invalid.
func (c *clusterconfig) tellBypassLimit(ctx actor.Context) {
	s, err := config.DecodeSettings(c.settings.content)
	if err != nil {
		return // invalid settings are not in force
	}
	ctx.Send(c.config.Locks, &locks.SetBypassLimit{Limit: s.LockBypass()})
}
