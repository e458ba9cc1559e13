// Package config is the actor of the cluster configuration, config.data
// (locks.md 5).
//
// It owns that file, and is its only writer. It may be asked for the
// configuration, to replace all of it, and to edit a part; an edit waits for the
// configuration lock, as everybody's does, so that a client that reads, changes
// and writes under that lock loses nothing. It tells subscribers of each change,
// when the disk has it. After a crash it reads the file again; edits in hand are
// lost, and their senders told so by nobody: they ask again (ConfigPublished).
package config

import (
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
		return &configActor{config: c, request: uint64(incarnation) << 32, incarnation: incarnation,
			store: store.NewClient(c.Store, incarnation)}
	})
}

type configActor struct {
	config      Config
	store       *store.Client
	incarnation uint32

	content  []byte            // nil until the files have been read
	settings []byte            // lockstep's own; empty: the defaults
	deferred []deferredMessage // what was asked before
	tries    int

	request       uint64 // number of the last call to the lock manager
	lockCall      *locks.Call
	edits         []editRequest // wait for the lock, or for the one before
	editing       bool
	unlockPending bool // the lock could not be given back
	onLockAnswer  func(actor.Context, *locks.CallResult)
}

type deferredMessage struct {
	message any
	sender  *actor.PID
}

// editRequest is a change and who wants to hear of it.
type editRequest struct {
	sender *actor.PID
	m      *messages.EditConfig
}

// retryRead is due some time after the file could not be read.
type retryRead struct{ incarnation uint32 }

func (c *configActor) Receive(ctx actor.Context) {
	if c.store.Handle(ctx) {
		return
	}
	c.handle(ctx, ctx.Message(), ctx.Sender())
}

func (c *configActor) handle(ctx actor.Context, message any, sender *actor.PID) {
	switch m := message.(type) {
	case *actor.Started:
		c.store.Connect(ctx)
		c.read(ctx)
		c.unlock(ctx, func(actor.Context) {}) // a former incarnation may have crashed with the lock
	case *retryRead:
		if m.incarnation == c.incarnation {
			c.read(ctx)
		}
	case *messages.PublishConfig:
		if c.ready(m, sender) {
			ctx.Send(sender, &messages.ConfigPublished{Request: m.Request, Content: c.content, Settings: c.settings})
		}
	case *messages.WriteConfig:
		if c.ready(m, sender) {
			c.replaceConfig(ctx, sender, m)
		}
	case *messages.EditConfig:
		if c.ready(m, sender) {
			c.edits = append(c.edits, editRequest{sender, m})
			c.editNext(ctx)
		}
	case *messages.LocksStarted:
		c.locksStarted(ctx)
	case *locks.CallResult:
		if c.lockCall != nil && m.Request == c.lockCall.Request {
			c.lockCall = nil
			c.onLockAnswer(ctx, m)
		}
	default:
		kit.Unexpected(ctx)
	}
}

// locksStarted: the lock manager has begun anew, or can write again.
func (c *configActor) locksStarted(ctx actor.Context) {
	switch {
	case c.lockCall != nil:
		ctx.Request(c.config.Locks, c.lockCall)
	case c.unlockPending:
		c.unlock(ctx, func(actor.Context) {})
	}
}

// ready reports whether there is a configuration; what comes before is kept.
func (c *configActor) ready(message any, sender *actor.PID) bool {
	if c.content == nil {
		c.deferred = append(c.deferred, deferredMessage{message, sender})
	}
	return c.content != nil
}

// read takes the file for the truth. There is one that can be used before the
// actors are started; if somebody has spoiled it since, it is read until it is
// mended.
func (c *configActor) read(ctx actor.Context) {
	c.store.Read(ctx, "config", paths.ConfigPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		if err := readError(m); err != nil {
			c.retryReadLater(ctx, paths.ConfigPath, err)
			return
		}
		c.readSettings(ctx, m.Content)
	})
}

func (c *configActor) retryReadLater(ctx actor.Context, path string, err error) {
	delay := kit.Backoff(c.tries)
	c.tries++
	c.config.Env.Log().WithFields(logrus.Fields{"path": path, "err": err, "delay": delay}).Error("configuration file cannot be used; reading it again")
	kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryRead{c.incarnation})
}

// readSettings reads the other file. What makes no sense is not worth waiting for:
// without it the defaults are in force, and that is said. A disk that cannot be read
// is: what an operator has set must not be lost over it.
func (c *configActor) readSettings(ctx actor.Context, content []byte) {
	c.store.Read(ctx, "settings", paths.SettingsPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			c.retryReadLater(ctx, paths.SettingsPath, m.Failure)
			return
		}
		if _, err := config.DecodeSettings(m.Content); err != nil {
			c.config.Env.Log().WithFields(logrus.Fields{"path": paths.SettingsPath, "err": err}).Error("settings cannot be used; the defaults are in force")
		} else {
			c.settings = m.Content
		}
		c.tries = 0
		c.publish(ctx, content)
	})
}

// rereadConfig finds out what a failed write has left: it may be the one or the
// other, and everybody must hear which before anything is built on it. If that
// cannot be read either, it stays as it was.
func (c *configActor) rereadConfig(ctx actor.Context, done func(actor.Context)) {
	c.store.Read(ctx, "config", paths.ConfigPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		if err := readError(m); err != nil {
			c.logUnknownContent(paths.ConfigPath, err)
		} else {
			c.publish(ctx, m.Content)
		}
		done(ctx)
	})
}

func (c *configActor) logUnknownContent(path string, err error) {
	c.config.Env.Log().WithFields(logrus.Fields{"path": path, "err": err}).Error("file cannot be read after a failed write; the former content stays in force")
}

func readError(m *messages.ReadFileResult) error {
	if m.Failure != nil {
		return m.Failure
	}
	if m.Missing {
		return fmt.Errorf("there is no such file")
	}
	_, err := config.Decode(m.Content)
	return err
}

// publish makes content, which the disk has, what everybody knows.
func (c *configActor) publish(ctx actor.Context, content []byte) {
	first := c.content == nil
	c.content = content
	for _, pid := range c.config.Subscribers {
		ctx.Send(pid, &messages.ConfigPublished{Content: content, Settings: c.settings})
	}
	if first {
		waiting := c.deferred
		c.deferred = nil
		for _, h := range waiting {
			c.handle(ctx, h.message, h.sender)
		}
	}
}

// replaceConfig writes the whole configuration, for somebody who holds the lock.
func (c *configActor) replaceConfig(ctx actor.Context, sender *actor.PID, m *messages.WriteConfig) {
	answer := func(ctx actor.Context, f *messages.Failure) {
		ctx.Send(sender, &messages.WriteConfigResult{Request: m.Request, Failure: f})
	}
	if _, err := config.Decode(m.Content); err != nil {
		answer(ctx, messages.ConfigurationFailure(err.Error()))
		return
	}
	c.write(ctx, m.Content, answer)
}

// write puts content on the disk.
func (c *configActor) write(ctx actor.Context, content []byte, done func(actor.Context, *messages.Failure)) {
	c.writeFile(ctx, "config", paths.ConfigPath, content, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			c.rereadConfig(ctx, func(ctx actor.Context) { done(ctx, f) })
			return
		}
		c.publish(ctx, content)
		done(ctx, nil)
	})
}

func (c *configActor) writeFile(ctx actor.Context, op, path string, content []byte, done func(actor.Context, *messages.Failure)) {
	file := &messages.FileWrite{Op: op, Path: path, Content: content}
	c.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, written *messages.ChangeFilesResult) {
			if len(written.Failures) > 0 {
				done(ctx, written.Failures[0].Failure)
				return
			}
			done(ctx, nil)
		})
}

// writeSettings changes lockstep's own settings. What a write has left that failed
// is in force, as with the configuration: the next start would go by it, too.
func (c *configActor) writeSettings(ctx actor.Context, e editRequest) {
	settings, err := config.EditSettings(c.settings, e.m.Settings)
	if err != nil {
		c.finishEdit(ctx, e, messages.PrereqFailure(messages.WrongInput, err.Error()))
		return
	}
	c.writeFile(ctx, "settings", paths.SettingsPath, settings, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			c.rereadSettings(ctx, func(ctx actor.Context) { c.finishEdit(ctx, e, f) })
			return
		}
		c.settings = settings
		c.publish(ctx, c.content)
		c.finishEdit(ctx, e, nil)
	})
}

// rereadSettings is readBack for the other file.
func (c *configActor) rereadSettings(ctx actor.Context, done func(actor.Context)) {
	c.store.Read(ctx, "settings", paths.SettingsPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		var err error
		if m.Failure != nil {
			err = m.Failure
		} else if _, err = config.DecodeSettings(m.Content); err == nil {
			c.settings = m.Content
			c.publish(ctx, c.content)
		}
		if err != nil {
			c.logUnknownContent(paths.SettingsPath, err)
		}
		done(ctx)
	})
}

// editNext makes the next edit: lock, write, unlock, answer.
func (c *configActor) editNext(ctx actor.Context) {
	if c.editing || len(c.edits) == 0 {
		return
	}
	c.editing = true
	e := c.edits[0]
	c.edits = c.edits[1:]
	const priority, seconds = -21, 60 // it takes no time, and everybody waits for it
	want := lock.Request{{Lock: lock.ConfigLock, Mode: lock.Exclusive}}
	await := locks.Await{Pending: lock.Pending{Owner: c.config.Self, Priority: priority, Request: want}, Seconds: seconds}
	c.callLocks(ctx, await, func(ctx actor.Context, a *locks.CallResult) {
		awaited, _ := a.Value.(locks.AwaitResult)
		if awaited.Granted {
			c.edit(ctx, e)
			return
		}
		f := a.Failure
		if f == nil {
			f = messages.GenericFailure(fmt.Sprintf("The configuration is locked by %v; try again", awaited.Blockers))
		}
		c.finishEdit(ctx, e, f)
	})
}

func (c *configActor) edit(ctx actor.Context, e editRequest) {
	if len(e.m.Settings) > 0 {
		c.writeSettings(ctx, e)
		return
	}
	now := float64(c.config.Env.Clock().Now().UnixMicro()) / 1e6
	content, err := config.Edit(c.content, now, config.ConfigChange{Cluster: e.m.Cluster, RuleUUID: e.m.Filter, Rule: e.m.Rule})
	if err != nil {
		c.finishEdit(ctx, e, messages.GenericFailure(err.Error()))
		return
	}
	c.write(ctx, content, func(ctx actor.Context, f *messages.Failure) { c.finishEdit(ctx, e, f) })
}

// finishEdit gives the lock back. It is of no interest to the client whether that
// could be written; if not, it is given back when the lock manager can write.
func (c *configActor) finishEdit(ctx actor.Context, e editRequest, f *messages.Failure) {
	c.unlock(ctx, func(ctx actor.Context) {
		ctx.Send(e.sender, &messages.EditConfigResult{Request: e.m.Request, Failure: f})
	})
}

func (c *configActor) unlock(ctx actor.Context, done func(actor.Context)) {
	c.editing = true
	c.callLocks(ctx, locks.Apply{Call: lock.FreeLocks(c.config.Self)}, func(ctx actor.Context, a *locks.CallResult) {
		c.editing, c.unlockPending = false, a.Failure != nil
		done(ctx)
		c.editNext(ctx)
	})
}

// callLocks calls the lock manager, one call at a time, again if that restarts.
func (c *configActor) callLocks(ctx actor.Context, op locks.Operation, onAnswer func(actor.Context, *locks.CallResult)) {
	c.request++
	c.lockCall, c.onLockAnswer = &locks.Call{Request: c.request, Operation: op}, onAnswer
	ctx.Request(c.config.Locks, c.lockCall)
}
