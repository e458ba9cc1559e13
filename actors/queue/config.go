package queue

import (
	"bytes"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/opcodes"
	"lockstep/core/config"
	"lockstep/messages"
)

// configChanged takes a configuration. One that cannot be used is not one that
// jobs could run by: the former goes on.
func (q *queue) configChanged(ctx actor.Context, m *messages.ConfigPublished) {
	if q.resources != nil && bytes.Equal(m.Content, q.configContent) {
		return
	}
	resources, err := config.DecodeResources(m.Content)
	if err != nil {
		q.config.Env.Log().WithFields(logrus.Fields{"err": err}).Error("the configuration cannot be used; the former one is")
		return
	}
	q.resources, q.configContent = resources, m.Content
	if q.recovery != nil && q.recovery.onConfig != nil {
		onConfig := q.recovery.onConfig
		q.recovery.onConfig = nil
		onConfig(ctx)
	}
}

// opcodesChanged takes what operators have declared.
func (q *queue) opcodesChanged(m *opcodes.Changed) {
	q.config.Catalogue, *q.catalogue = m.Catalogue, m.Catalogue
}
