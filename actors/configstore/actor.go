// Package configstore keeps the configuration on the disk.
package configstore

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
)

// Config is what the actor needs. Clients are sent each new incarnation.
type Config struct {
	Env     *kit.Env
	Store   *actor.PID
	Clients []*actor.PID
	// History returns the lines that a record adds to config.history at the fold. nil: there is no history.
	History func(before, after *model.Config, r *journal.Record) []byte
}
