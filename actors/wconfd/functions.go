package wconfd

import (
	"encoding/json"
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/locks"
	"lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/wire"
)

// function serves one call. An error means that the arguments are invalid, and becomes the answer. Otherwise the
// function answers, at once or after it has asked other actors.
type function func(c *connection, ctx actor.Context, call wire.Request) error

// functions are the functions of locks.md 2.3 that the gateway serves. The lock manager serves the others (locks.Parse).
// A function without a result answers with the empty list, which Ganeti's clients require.
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

	// Reservations, and changes of single configuration objects.
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
		c.askLocks(ctx, op, func(ctx actor.Context, value any) { c.session.Succeed(ctx, locks.Encode(value)) })
	}
	return err
}

func echo(c *connection, ctx actor.Context, call wire.Request) error {
	var text string
	err := lock.Arguments(call.Args, &text)
	if err == nil {
		c.session.Succeed(ctx, text)
	}
	return err
}

func dropAllReservations(c *connection, ctx actor.Context, call wire.Request) error {
	var owner lock.Owner
	err := lock.Arguments(call.Args, &owner)
	if err == nil {
		c.session.Succeed(ctx, emptyResult)
	}
	return err
}

func readConfig(c *connection, ctx actor.Context, call wire.Request) error {
	if err := lock.Arguments(call.Args); err != nil {
		return err
	}
	c.askConfig(ctx, func(ctx actor.Context, content []byte) { c.session.Succeed(ctx, json.RawMessage(content)) })
	return nil
}

func verifyConfig(c *connection, ctx actor.Context, call wire.Request) error {
	if err := lock.Arguments(call.Args); err != nil {
		return err
	}
	c.askConfig(ctx, func(ctx actor.Context, content []byte) {
		if faults := config.Verify(content); len(faults) > 0 {
			c.session.Answer(ctx, wire.EncodeError("ConfigVerifyError", "Validation failed", faults))
			return
		}
		c.session.Succeed(ctx, emptyResult)
	})
	return nil
}

// flushConfig has nothing to do: each write of the configuration is durable before its answer, and no other node needs
// a copy from here.
func flushConfig(c *connection, ctx actor.Context, call wire.Request) error {
	err := lock.Arguments(call.Args)
	if err == nil {
		c.session.Succeed(ctx, emptyResult)
	}
	return err
}

func flushConfigGroup(c *connection, ctx actor.Context, call wire.Request) error {
	var group string
	err := lock.Arguments(call.Args, &group)
	if err == nil {
		c.session.Succeed(ctx, emptyResult)
	}
	return err
}

// lockConfig takes the configuration lock and answers with the configuration, or with null if another owner holds the
// lock. It never waits. An owner that already holds the lock has made the call before and lost the answer.
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
		c.askConfig(ctx, func(ctx actor.Context, content []byte) { c.session.Succeed(ctx, json.RawMessage(content)) })
	}
	c.configLockMode(ctx, owner, func(ctx actor.Context, has lock.Mode) {
		if has >= mode {
			answerConfig(ctx)
			return
		}
		want := lock.Request{{Lock: lock.ConfigLock, Mode: mode}}
		c.askLocks(ctx, locks.Apply{Call: lock.TryUpdateLocks(owner, want)}, func(ctx actor.Context, value any) {
			if blockers := value.([]lock.Owner); len(blockers) > 0 {
				c.session.Succeed(ctx, nil)
				return
			}
			answerConfig(ctx)
		})
	})
	return nil
}

// configLockMode asks in which mode an owner holds the configuration lock.
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

// configArgs decodes the arguments of a call that replaces the configuration. content ends with a newline, as the file
// does.
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
		c.writeConfig(ctx, content, func(ctx actor.Context) { c.session.Succeed(ctx, emptyResult) })
	})
	return nil
}

// writeConfigAndUnlock writes first, then frees the lock (locks.md 9.1), so that a free lock proves the write. An owner
// without the lock has made the call before: the answer is false, and nothing is written.
func writeConfigAndUnlock(c *connection, ctx actor.Context, call wire.Request) error {
	owner, content, err := configArgs(call)
	if err != nil {
		return err
	}
	c.configLockMode(ctx, owner, func(ctx actor.Context, has lock.Mode) {
		if has != lock.Exclusive {
			c.session.Succeed(ctx, false)
			return
		}
		c.writeConfig(ctx, content, func(ctx actor.Context) {
			c.askLocks(ctx, locks.Apply{Call: lock.UnlockConfig(owner)}, func(ctx actor.Context, _ any) { c.session.Succeed(ctx, true) })
		})
	})
	return nil
}

// prepareClusterDestruction passes the big lock to the daemon for the rest of its life, and empties the master's name
// in the configuration. No daemon starts with that configuration.
func prepareClusterDestruction(c *connection, ctx actor.Context, call wire.Request) error {
	var owner lock.Owner
	if err := lock.Arguments(call.Args, &owner); err != nil {
		return err
	}
	c.askLocks(ctx, locks.PassBGL{From: owner}, func(ctx actor.Context, _ any) {
		noMaster := map[string][]byte{"master_node": []byte(`""`)}
		c.editCluster(ctx, noMaster, func(ctx actor.Context) { c.session.Succeed(ctx, emptyResult) })
	})
	return nil
}
