// Package config is the actor of the cluster configuration, config.data
// (locks.md 5).
//
// It owns that file, and is its only writer. It may be asked for the
// configuration, to replace all of it, and to edit a part; an edit waits for the
// configuration lock, as everybody's does, so that a client that reads, changes
// and writes under that lock loses nothing. It tells subscribers of each change,
// when the disk has it. After a crash it reads the file again; edits in hand are
// lost, and their senders told so by nobody: they ask again (ConfigChanged).
package config

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/actors/store"
	"lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// Config is what the actor needs. Self is the daemon's own identity, for the
// configuration lock.
type Config struct {
	Env         *kit.Env
	Store       *actor.PID
	Locks       *actor.PID
	Subscribers []*actor.PID
	Self        lock.Owner
}

// Props makes the actor. Its incarnations are numbered from 1.
func Props(c Config) *actor.Props {
	incarnation := uint32(0)
	return c.Env.Props("cluster", func() actor.Actor {
		incarnation++
		return &cluster{config: c, request: uint64(incarnation) << 32, incarnation: incarnation,
			store: store.NewClient(c.Store, incarnation)}
	})
}

type cluster struct {
	config      Config
	store       *store.Client
	incarnation uint32

	content  []byte // nil until the files have been read
	settings []byte // lockstep's own; empty: the defaults
	held     []held // what was asked before
	tries    int

	request uint64 // number of the last call to the lock manager
	call    *messages.LockCall
	edits   []edit // wait for the lock, or for the one before
	editing bool
	owes    bool // the lock could not be given back
	after   func(actor.Context, *messages.LockAnswered)
}

type held struct {
	message any
	sender  *actor.PID
}

// edit is a change and who wants to hear of it.
type edit struct {
	sender *actor.PID
	m      *messages.EditConfig
}

// readAgain is due some time after the file could not be read.
type readAgain struct{ incarnation uint32 }

func (c *cluster) Receive(ctx actor.Context) {
	if c.store.Handle(ctx) {
		return
	}
	c.handle(ctx, ctx.Message(), ctx.Sender())
}

func (c *cluster) handle(ctx actor.Context, message any, sender *actor.PID) {
	switch m := message.(type) {
	case *actor.Started:
		c.store.Hello(ctx)
		c.read(ctx)
		c.free(ctx, func(actor.Context) {}) // a former incarnation may have crashed with the lock
	case *readAgain:
		if m.incarnation == c.incarnation {
			c.read(ctx)
		}
	case *messages.AskConfig:
		if c.ready(m, sender) {
			ctx.Send(sender, &messages.ConfigChanged{Request: m.Request, Content: c.content, Settings: c.settings})
		}
	case *messages.WriteConfig:
		if c.ready(m, sender) {
			c.replace(ctx, sender, m)
		}
	case *messages.EditConfig:
		if c.ready(m, sender) {
			c.edits = append(c.edits, edit{sender, m})
			c.editNext(ctx)
		}
	case *messages.LocksStarted:
		c.locksStarted(ctx)
	case *messages.LockAnswered:
		if c.call != nil && m.Request == c.call.Request {
			c.call = nil
			c.after(ctx, m)
		}
	default:
		kit.Unexpected(ctx)
	}
}

// locksStarted: the lock manager has begun anew, or can write again.
func (c *cluster) locksStarted(ctx actor.Context) {
	switch {
	case c.call != nil:
		ctx.Request(c.config.Locks, c.call)
	case c.owes:
		c.free(ctx, func(actor.Context) {})
	}
}

// ready reports whether there is a configuration; what comes before is kept.
func (c *cluster) ready(message any, sender *actor.PID) bool {
	if c.content == nil {
		c.held = append(c.held, held{message, sender})
	}
	return c.content != nil
}

// read takes the file for the truth. There is one that can be used before the
// actors are started; if somebody has spoiled it since, it is read until it is
// mended.
func (c *cluster) read(ctx actor.Context) {
	c.store.Read(ctx, "config", paths.ConfigPath, func(ctx actor.Context, m *messages.FileRead) {
		if err := readError(m); err != nil {
			c.readLater(ctx, paths.ConfigPath+" cannot be used", err)
			return
		}
		c.readSettings(ctx, m.Content)
	})
}

func (c *cluster) readLater(ctx actor.Context, what string, err error) {
	delay := kit.Backoff(c.tries)
	c.tries++
	c.config.Env.Log().WithFields(logrus.Fields{"err": err, "again": delay}).Error(what)
	kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &readAgain{c.incarnation})
}

// readSettings reads the other file. What makes no sense is not worth waiting for:
// without it the defaults are in force, and that is said. A disk that cannot be read
// is: what an operator has set must not be lost over it.
func (c *cluster) readSettings(ctx actor.Context, content []byte) {
	c.store.Read(ctx, "settings", paths.SettingsPath, func(ctx actor.Context, m *messages.FileRead) {
		if m.Failure != nil {
			c.readLater(ctx, paths.SettingsPath+" cannot be read", m.Failure)
			return
		}
		if _, err := config.DecodeSettings(m.Content); err != nil {
			c.config.Env.Log().WithField("err", err).Error(paths.SettingsPath + " cannot be used; the defaults are in force")
		} else {
			c.settings = m.Content
		}
		c.tries = 0
		c.set(ctx, content)
	})
}

// readBack finds out what a failed write has left: it may be the one or the
// other, and everybody must hear which before anything is built on it. If that
// cannot be read either, it stays as it was.
func (c *cluster) readBack(ctx actor.Context, done func(actor.Context)) {
	c.store.Read(ctx, "config", paths.ConfigPath, func(ctx actor.Context, m *messages.FileRead) {
		if err := readError(m); err != nil {
			c.config.Env.Log().WithField("err", err).Error("what a failed write has left of " + paths.ConfigPath + " is not known")
		} else {
			c.set(ctx, m.Content)
		}
		done(ctx)
	})
}

func readError(m *messages.FileRead) error {
	if m.Failure != nil {
		return m.Failure
	}
	if m.Missing {
		return fmt.Errorf("there is no such file")
	}
	_, err := config.Decode(m.Content)
	return err
}

// set makes content, which the disk has, what everybody knows.
func (c *cluster) set(ctx actor.Context, content []byte) {
	first := c.content == nil
	c.content = content
	for _, pid := range c.config.Subscribers {
		ctx.Send(pid, &messages.ConfigChanged{Content: content, Settings: c.settings})
	}
	if first {
		waiting := c.held
		c.held = nil
		for _, h := range waiting {
			c.handle(ctx, h.message, h.sender)
		}
	}
}

// replace writes the whole configuration, for somebody who holds the lock.
func (c *cluster) replace(ctx actor.Context, sender *actor.PID, m *messages.WriteConfig) {
	answer := func(ctx actor.Context, f *messages.Failure) {
		ctx.Send(sender, &messages.ConfigWritten{Request: m.Request, Failure: f})
	}
	if _, err := config.Decode(m.Content); err != nil {
		answer(ctx, &messages.Failure{Class: "ConfigurationError", Text: err.Error()})
		return
	}
	c.write(ctx, m.Content, answer)
}

// write puts content on the disk.
func (c *cluster) write(ctx actor.Context, content []byte, done func(actor.Context, *messages.Failure)) {
	c.writeFile(ctx, "config", paths.ConfigPath, content, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			c.readBack(ctx, func(ctx actor.Context) { done(ctx, f) })
			return
		}
		c.set(ctx, content)
		done(ctx, nil)
	})
}

func (c *cluster) writeFile(ctx actor.Context, op, path string, content []byte, done func(actor.Context, *messages.Failure)) {
	file := &messages.FileWrite{Op: op, Path: path, Content: content}
	c.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, written *messages.FilesDone) {
			if len(written.Failures) > 0 {
				done(ctx, written.Failures[0].Failure)
				return
			}
			done(ctx, nil)
		})
}

// writeSettings changes lockstep's own settings. What a write has left that failed
// is in force, as with the configuration: the next start would go by it, too.
func (c *cluster) writeSettings(ctx actor.Context, e edit) {
	settings, err := config.EditSettings(c.settings, e.m.Settings)
	if err != nil {
		c.edited(ctx, e, &messages.Failure{Class: "OpPrereqError", Text: err.Error(), Code: "wrong_input"})
		return
	}
	c.writeFile(ctx, "settings", paths.SettingsPath, settings, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			c.readSettingsBack(ctx, func(ctx actor.Context) { c.edited(ctx, e, f) })
			return
		}
		c.settings = settings
		c.set(ctx, c.content)
		c.edited(ctx, e, nil)
	})
}

// readSettingsBack is readBack for the other file.
func (c *cluster) readSettingsBack(ctx actor.Context, done func(actor.Context)) {
	c.store.Read(ctx, "settings", paths.SettingsPath, func(ctx actor.Context, m *messages.FileRead) {
		var err error
		if m.Failure != nil {
			err = m.Failure
		} else if _, err = config.DecodeSettings(m.Content); err == nil {
			c.settings = m.Content
			c.set(ctx, c.content)
		}
		if err != nil {
			c.config.Env.Log().WithField("err", err).Error("what a failed write has left of " + paths.SettingsPath + " is not known")
		}
		done(ctx)
	})
}

// editNext makes the next edit: lock, write, unlock, answer.
func (c *cluster) editNext(ctx actor.Context) {
	if c.editing || len(c.edits) == 0 {
		return
	}
	c.editing = true
	e := c.edits[0]
	c.edits = c.edits[1:]
	const priority, seconds = -21, 60 // it takes no time, and everybody waits for it
	want := lock.Request{{Lock: lock.ConfigLock, Mode: lock.Exclusive}}
	c.ask(ctx, locks.AwaitLocks, []any{c.config.Self, priority, want, seconds}, func(ctx actor.Context, a *messages.LockAnswered) {
		var awaited locks.Awaited
		if a.Failure == nil && json.Unmarshal(a.Result, &awaited) == nil && awaited.Granted {
			c.edit(ctx, e)
			return
		}
		f := a.Failure
		if f == nil {
			f = &messages.Failure{Class: "GenericError", Text: fmt.Sprintf("The configuration is locked by %v; try again", awaited.Blockers)}
		}
		c.edited(ctx, e, f)
	})
}

func (c *cluster) edit(ctx actor.Context, e edit) {
	if len(e.m.Settings) > 0 {
		c.writeSettings(ctx, e)
		return
	}
	now := float64(c.config.Env.Clock().Now().UnixMicro()) / 1e6
	content, err := config.Edit(c.content, now, config.ConfigChange{Cluster: e.m.Cluster, RuleUUID: e.m.Filter, Rule: e.m.Rule})
	if err != nil {
		c.edited(ctx, e, &messages.Failure{Class: "GenericError", Text: err.Error()})
		return
	}
	c.write(ctx, content, func(ctx actor.Context, f *messages.Failure) { c.edited(ctx, e, f) })
}

// edited gives the lock back. It is of no interest to the client whether that
// could be written; if not, it is given back when the lock manager can write.
func (c *cluster) edited(ctx actor.Context, e edit, f *messages.Failure) {
	c.free(ctx, func(ctx actor.Context) {
		ctx.Send(e.sender, &messages.ConfigWritten{Request: e.m.Request, Failure: f})
	})
}

func (c *cluster) free(ctx actor.Context, done func(actor.Context)) {
	c.editing = true
	c.ask(ctx, "freeLocks", []any{c.config.Self}, func(ctx actor.Context, a *messages.LockAnswered) {
		c.editing, c.owes = false, a.Failure != nil
		done(ctx)
		c.editNext(ctx)
	})
}

// ask calls the lock manager, one call at a time, again if that restarts.
func (c *cluster) ask(ctx actor.Context, function string, args []any, after func(actor.Context, *messages.LockAnswered)) {
	encoded, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Errorf("a call to the lock manager cannot be encoded: %w", err))
	}
	c.request++
	c.call, c.after = &messages.LockCall{Request: c.request, Function: function, Args: encoded}, after
	ctx.Request(c.config.Locks, c.call)
}
