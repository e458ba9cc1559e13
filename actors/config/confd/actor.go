// Package confd is the actor that gives the configuration of its node to the server of queries (package edge/confd).
//
// It owns the snapshot that answers are made from. The configstore of its node sends it each configuration that is durable there
// (configstore.CopyPublished): in a cluster on every node, whether there is a master or not. It passes each one on at once. It answers
// nothing, and no actor waits for it.
//
// Nothing survives a crash. The server keeps the last snapshot, and the next incarnation asks for the configuration.
package confd

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kit"
	coreconfd "lockstep/core/confd"
)

// Server is the port to the socket that answers ConfD's queries; each answer is made from the snapshot that the actor gave last.
type Server interface {
	// Use makes answers come from a snapshot from now on. It must not block.
	Use(s *coreconfd.Snapshot)
}

// Config has the neighbours of the actor that feeds the ConfD server. ConfigStore is the configstore of this node, also in a cluster.
type Config struct {
	Env         *kit.Env
	ConfigStore *actor.PID
	Server      Server
	Secrets     func() []string // as in configstore.Config
}

// Props describes the actor that passes each durable configuration of this node to the ConfD server.
func Props(c Config) *actor.Props {
	return c.Env.Props("confd", func() actor.Actor { return &confd{c} })
}

// confd passes configurations on and keeps none: the server has the last one.
type confd struct{ config Config }

func (p *confd) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(p.config.ConfigStore, &configstore.PublishCopy{})
	case *configstore.CopyPublished:
		p.config.Server.Use(coreconfd.NewSnapshot(m.Config, p.config.Secrets))
	default:
		kit.Unexpected(ctx)
	}
}
