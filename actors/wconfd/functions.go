package wconfd

import (
	"encoding/json"
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/locks"
	"lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/wire"
	"lockstep/messages"
)

// function serves one call. An error means that its arguments are not what it
// takes; everything else is answered by the function itself, now or later.
type function func(c *connection, ctx actor.Context, call wire.Request) error

// functions are those of locks.md 2.3 that the gateway serves itself; the lock manager has the others (locks.Parse).
// Clients insist on the empty list where there is no result.
var functions = map[string]function{
	"echo":                      echo,
	"prepareClusterDestruction": prepareClusterDestruction,
	"dropAllReservations":       dropAllReservations,

	"readConfig":           readConfig,
	"writeConfig":          writeConfig,
	"verifyConfig":         verifyConfig,
	"lockConfig":           lockConfig,
	"writeConfigAndUnlock": writeConfigAndUnlock,
	"flushConfig":          flushConfig,
	"flushConfigGroup":     flushConfigGroup,

	// Reservations, and configuration objects one by one.
	"computeDRBDMap":           unsupported,
	"allocateDRBDMinor":        unsupported,
	"releaseDRBDMinors":        unsupported,
	"generateMAC":              unsupported,
	"reserveMAC":               unsupported,
	"generateDRBDSecret":       unsupported,
	"reserveLV":                unsupported,
	"reserveIp":                unsupported,
	"releaseIp":                unsupported,
	"generateIp":               unsupported,
	"commitTemporaryIps":       unsupported,
	"commitReleaseTemporaryIp": unsupported,
	"listReservedIps":          unsupported,
	"addInstance":              unsupported,
	"addInstanceDisk":          unsupported,
	"attachInstanceDisk":       unsupported,
	"detachInstanceDisk":       unsupported,
	"removeInstanceDisk":       unsupported,
	"removeInstance":           unsupported,
	"setInstancePrimaryNode":   unsupported,
	"setInstanceStatus":        unsupported,
	"allocatePort":             unsupported,
	"addTcpUdpPort":            unsupported,
	"updateCluster":            unsupported,
	"updateNode":               unsupported,
	"updateInstance":           unsupported,
	"updateNodeGroup":          unsupported,
	"updateNetwork":            unsupported,
	"updateDisk":               unsupported,
}

func unsupported(c *connection, ctx actor.Context, call wire.Request) error {
	c.fail(ctx, genericError(call.Method+" is not supported by lockstep: it keeps no reservations, and changes the configuration only as a whole"))
	return nil
}

var emptyResult = []any{}

func forwardToLocks(c *connection, ctx actor.Context, call wire.Request) error {
	op, err := locks.Parse(call.Method, call.Args)
	if errors.Is(err, lock.ErrNoFunction) {
		c.fail(ctx, genericError("No such method: "+call.Method))
		return nil
	}
	if err == nil {
		c.askLocks(ctx, op, func(ctx actor.Context, value any) { c.succeed(ctx, locks.Encode(value)) })
	}
	return err
}

func echo(c *connection, ctx actor.Context, call wire.Request) error {
	var text string
	err := lock.Arguments(call.Args, &text)
	if err == nil {
		c.succeed(ctx, text)
	}
	return err
}

func dropAllReservations(c *connection, ctx actor.Context, call wire.Request) error {
	var owner lock.Owner
	err := lock.Arguments(call.Args, &owner)
	if err == nil {
		c.succeed(ctx, emptyResult)
	}
	return err
}

func readConfig(c *connection, ctx actor.Context, call wire.Request) error {
	if err := lock.Arguments(call.Args); err != nil {
		return err
	}
	c.askConfig(ctx, func(ctx actor.Context, content []byte) { c.succeed(ctx, json.RawMessage(content)) })
	return nil
}

func verifyConfig(c *connection, ctx actor.Context, call wire.Request) error {
	if err := lock.Arguments(call.Args); err != nil {
		return err
	}
	c.askConfig(ctx, func(ctx actor.Context, content []byte) {
		if faults := config.Verify(content); len(faults) > 0 {
			c.answer(ctx, wire.EncodeError("ConfigVerifyError", "Validation failed", faults))
			return
		}
		c.succeed(ctx, emptyResult)
	})
	return nil
}

// flushConfig: what anybody has been told of is on the disk, and there is nobody
// else to tell.
func flushConfig(c *connection, ctx actor.Context, call wire.Request) error {
	err := lock.Arguments(call.Args)
	if err == nil {
		c.succeed(ctx, emptyResult)
	}
	return err
}

func flushConfigGroup(c *connection, ctx actor.Context, call wire.Request) error {
	var group string
	err := lock.Arguments(call.Args, &group)
	if err == nil {
		c.succeed(ctx, emptyResult)
	}
	return err
}

// lockConfig never waits. Who has the lock already has asked before, and lost
// the answer.
func lockConfig(c *connection, ctx actor.Context, call wire.Request) error {
	var owner lock.Owner
	var shared bool
	if err := lock.Arguments(call.Args, &owner, &shared); err != nil {
		return err
	}
	mode := lock.Exclusive
	if shared {
		mode = lock.Shared
	}
	answerConfig := func(ctx actor.Context) {
		c.askConfig(ctx, func(ctx actor.Context, content []byte) { c.succeed(ctx, json.RawMessage(content)) })
	}
	c.configLockMode(ctx, owner, func(ctx actor.Context, has lock.Mode) {
		if has >= mode {
			answerConfig(ctx)
			return
		}
		want := lock.Request{{Lock: lock.ConfigLock, Mode: mode}}
		c.askLocks(ctx, locks.Apply{Call: lock.TryUpdateLocks(owner, want)}, func(ctx actor.Context, value any) {
			if blockers := value.([]lock.Owner); len(blockers) > 0 {
				c.succeed(ctx, nil)
				return
			}
			answerConfig(ctx)
		})
	})
	return nil
}

// configLockMode asks how an owner holds the configuration lock.
func (c *connection) configLockMode(ctx actor.Context, owner lock.Owner, answer func(actor.Context, lock.Mode)) {
	c.askLocks(ctx, locks.Apply{Call: lock.ListLocks(owner)}, func(ctx actor.Context, value any) {
		has := lock.None
		for _, i := range value.([]lock.Item) {
			if i.Lock == lock.ConfigLock {
				has = i.Mode
			}
		}
		answer(ctx, has)
	})
}

// configArgs takes the arguments of a call that brings a configuration.
func configArgs(call wire.Request) (owner lock.Owner, content []byte, err error) {
	var raw json.RawMessage
	if err := lock.Arguments(call.Args, &owner, &raw); err != nil {
		return owner, nil, err
	}
	if len(raw) == 0 || raw[0] != '{' {
		return owner, nil, errors.New("argument 2 is not a configuration")
	}
	return owner, append(raw, '\n'), nil
}

func writeConfig(c *connection, ctx actor.Context, call wire.Request) error {
	owner, content, err := configArgs(call)
	if err != nil {
		return err
	}
	c.configLockMode(ctx, owner, func(ctx actor.Context, has lock.Mode) {
		if has != lock.Exclusive {
			c.fail(ctx, genericError("Requested lock OwnExclusive on the configuration missing"))
			return
		}
		c.write(ctx, func(request uint64) any { return &messages.WriteConfig{Request: request, Content: content} },
			func(ctx actor.Context) { c.succeed(ctx, emptyResult) })
	})
	return nil
}

// writeConfigAndUnlock writes first, then frees (locks.md 9.1): a lock
// that is free says that the write has been done. So who does not hold it has
// been here before.
func writeConfigAndUnlock(c *connection, ctx actor.Context, call wire.Request) error {
	owner, content, err := configArgs(call)
	if err != nil {
		return err
	}
	c.configLockMode(ctx, owner, func(ctx actor.Context, has lock.Mode) {
		if has != lock.Exclusive {
			c.succeed(ctx, false)
			return
		}
		c.write(ctx, func(request uint64) any { return &messages.WriteConfig{Request: request, Content: content} },
			func(ctx actor.Context) {
				c.askLocks(ctx, locks.Apply{Call: lock.UnlockConfig(owner)}, func(ctx actor.Context, _ any) { c.succeed(ctx, true) })
			})
	})
	return nil
}

// prepareClusterDestruction gives the big lock to the daemon, for good, and takes
// the master's name out of the configuration: no daemon starts with it again.
func prepareClusterDestruction(c *connection, ctx actor.Context, call wire.Request) error {
	var owner lock.Owner
	if err := lock.Arguments(call.Args, &owner); err != nil {
		return err
	}
	c.askLocks(ctx, locks.PassBGL{From: owner}, func(ctx actor.Context, _ any) {
		noMaster := map[string][]byte{"master_node": []byte(`""`)}
		c.write(ctx, func(request uint64) any { return &messages.EditConfig{Request: request, Cluster: noMaster} },
			func(ctx actor.Context) { c.succeed(ctx, emptyResult) })
	})
	return nil
}
