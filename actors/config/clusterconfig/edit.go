package clusterconfig

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/config"
	"lockstep/core/config/calls"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/messages"
)

// edit makes a change of lockstep's own for another actor, in the configuration or in the settings, and answers when it is durable. It
// waits as a client's call does.
func (c *clusterconfig) edit(ctx actor.Context, m *messages.EditConfig, sender *actor.PID) {
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
	change := config.ConfigChange{Cluster: m.Cluster, RuleUUID: m.Filter, Rule: m.Rule, Own: m.Own, If: m.IfRule}
	by := m.By
	if by == "" {
		by = "lockstepd"
	}
	r := &request{call: calls.Own(method, change.Apply), caller: reserve.Caller{Program: by},
		origin: kit.Deferral[any]{Message: m, Sender: sender}, patience: editPatience}
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
