package objects

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/grants"
	"lockstep/actors/luxi/call"
	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/replication"
	"lockstep/core/wire"
	"lockstep/messages"
)

// lockstepWhoAmI takes []. The answer is an answer.WhoAmI.
func lockstepWhoAmI(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("LockstepWhoAmI: %w", err)
	}
	role, why := c.Config.Policy.Explain(c.From)
	who := answer.WhoAmI{User: c.From.String(), Role: role.String(), Why: why, Groups: append([]string{}, c.From.Groups...), Node: c.From.Node}
	if c.From.UID != access.NoUID {
		who.UID = &c.From.UID
	}
	c.Succeed(ctx, who)
	return nil
}

// lockstepListGrants takes []. The answer is an answer.Grants.
func lockstepListGrants(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("LockstepListGrants: %w", err)
	}
	if !hasGrants(c, ctx) {
		return nil
	}
	q := call.ToCore(c.Config.Grants, func(number uint64) any { return &grants.List{Request: number} })
	call.AskFallible(c, ctx, q, func(ctx actor.Context, a *grants.ListResult) {
		list := answer.Grants{Grants: []answer.Grant{}}
		for _, g := range a.Grants.List() {
			list.Grants = append(list.Grants, answer.Grant{Role: g.Role.String(), Who: g.Who})
		}
		c.Succeed(ctx, list)
	})
	return nil
}

// lockstepGrant takes [role, who]. The answer is whether the grants have changed. Until every node of the cluster knows grants, there are
// none: as the master, another one would give members of the socket's group more than their role.
func lockstepGrant(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	m, err := grantOf(c, args)
	if err != nil {
		return err
	}
	if hasGrants(c, ctx) {
		c.AskKnown(ctx, replication.Grants, func(ctx actor.Context) { changeGrants(c, ctx, m) })
	}
	return nil
}

// lockstepRevoke takes [role, who]. The answer is whether the grants have changed.
func lockstepRevoke(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	m, err := grantOf(c, args)
	if err != nil {
		return err
	}
	if m.Revoke = true; hasGrants(c, ctx) {
		changeGrants(c, ctx, m)
	}
	return nil
}

func grantOf(c *call.Call, args []json.RawMessage) (grants.Change, error) {
	var role, who string
	if err := wire.Arguments(args, &role, &who); err != nil {
		return grants.Change{}, fmt.Errorf("%s: %w", c.Method, err)
	}
	parsed, err := access.ParseRole(role)
	if err != nil {
		return grants.Change{}, fmt.Errorf("%s: %w", c.Method, err)
	}
	return grants.Change{Role: parsed, Who: who}, nil
}

// changeGrants asks for a change. A second one with the same content does no harm.
func changeGrants(c *call.Call, ctx actor.Context, m grants.Change) {
	q := call.ToCore(c.Config.Grants, func(number uint64) any {
		asked := m
		asked.Request = number
		return &asked
	})
	call.AskFallible(c, ctx, q, func(ctx actor.Context, a *grants.ChangeResult) {
		if a.Changed {
			c.Config.Env.Log().WithField("by", c.By).WithField("role", m.Role).WithField("who", m.Who).WithField("revoked", m.Revoke).
				Info("granted roles changed")
		}
		c.Succeed(ctx, a.Changed)
	})
}

// hasGrants reports whether this daemon has grants, and fails the call otherwise.
func hasGrants(c *call.Call, ctx actor.Context) bool {
	switch {
	case c.Config.Grants == nil:
		c.Fail(ctx, messages.PrereqFailure(messages.WrongState,
			"There are no grants in a Ganeti cluster: the modes of the sockets decide who may do what"))
		return false
	case c.Config.Policy.OwnerOnly:
		c.Fail(ctx, messages.PrereqFailure(messages.WrongState,
			"There are no grants for a daemon that is not root: it admits its own user and root only"))
		return false
	}
	return true
}
