// Package config is the actor of the cluster configuration (locks.md 5).
//
// It owns config.data and settings.json, and is their only writer. It publishes both
// (PublishConfig), replaces the whole configuration (WriteConfig) and edits parts
// (EditConfig). An edit takes the configuration lock, so that a client that reads, changes
// and writes under that lock loses no change. Once a change is on the disk, all subscribers
// get ConfigPublished.
//
// After a crash the actor reads both files again. Edits under way are lost without an
// answer: their senders get ConfigPublished and repeat them.
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

// Config is what the actor needs. Self is the daemon as an owner of the configuration lock.
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

	content  []byte            // nil until the files are read
	settings []byte            // of settings.json; empty: the defaults
	deferred []deferredMessage // messages to handle once the files are read
	tries    int

	request       uint64 // number of the last locks.Call
	lockCall      *locks.Call
	edits         []editRequest // each waits for the one before and for the configuration lock
	editing       bool
	unlockPending bool // freeing the configuration lock has failed
	onLockAnswer  func(actor.Context, *locks.CallResult)
}

type deferredMessage struct {
	message any
	sender  *actor.PID
}

// editRequest is an edit with the actor to answer.
type editRequest struct {
	sender *actor.PID
	m      *messages.EditConfig
}

// retryRead is a timer after a failed read.
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
		c.unlock(ctx, func(actor.Context) {}) // a former incarnation may have crashed while it held the lock
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

// locksStarted repeats the open call, or frees the lock if that has failed before.
func (c *configActor) locksStarted(ctx actor.Context) {
	switch {
	case c.lockCall != nil:
		ctx.Request(c.config.Locks, c.lockCall)
	case c.unlockPending:
		c.unlock(ctx, func(actor.Context) {})
	}
}

// ready reports whether the files are read; otherwise it defers the message.
func (c *configActor) ready(message any, sender *actor.PID) bool {
	if c.content == nil {
		c.deferred = append(c.deferred, deferredMessage{message, sender})
	}
	return c.content != nil
}

// read reads both files. The daemon starts with a usable config.data; if another program
// has damaged the file since, read repeats until the file is usable.
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

// readSettings reads settings.json. With invalid content the defaults are in force. A
// failed read is repeated, because the defaults must not replace what an operator has set.
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

// rereadConfig reads config.data after a failed write, which may have left the old or the
// new content, and publishes the content. If the file cannot be read, the old content stays
// in force.
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

// publish puts content, which is on the disk, in force and sends it to the subscribers.
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

// replaceConfig writes the whole configuration for a client that holds the configuration
// lock.
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

// write writes content to config.data and publishes it.
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

// writeSettings changes settings.json. After a failed write the content of the file is put
// in force, because the next start would read it.
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

// rereadSettings is rereadConfig for settings.json.
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

// editNext carries out the next edit: lock, write, unlock, answer.
func (c *configActor) editNext(ctx actor.Context) {
	if c.editing || len(c.edits) == 0 {
		return
	}
	c.editing = true
	e := c.edits[0]
	c.edits = c.edits[1:]
	const priority, seconds = -21, 60 // the edit is short, and others wait for it
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

// finishEdit frees the lock and answers the client, even if freeing fails; LocksStarted
// then repeats the attempt.
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

// callLocks sends the lock manager one call. Only one call is open at a time; LocksStarted
// repeats it.
func (c *configActor) callLocks(ctx actor.Context, op locks.Operation, onAnswer func(actor.Context, *locks.CallResult)) {
	c.request++
	c.lockCall, c.onLockAnswer = &locks.Call{Request: c.request, Operation: op}, onAnswer
	ctx.Request(c.config.Locks, c.lockCall)
}
